"""The signs of formats rule nothing out that their readers recognise, and import no others."""

import gzip
import io
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.deserializers.open_path import known_formats, look_at

FORMATS = known_formats()
READERS = {one.reader.partition(":")[0] for one in FORMATS}
ROOMS = {"deserializers", "ext"}  # that are below the table
PLACES = [place for one in FORMATS for place in (one.reader, one.confirm) if place]


@pytest.mark.parametrize("place", PLACES)
def test_a_row_names_what_is_there_and_below(place: str) -> None:
    module, _, name = place.partition(":")
    assert module.split(".")[:1] == ["sweephand"]
    assert module.split(".")[1] in ROOMS
    assert callable(getattr(import_module(module), name))


def imported_to_open(path: Path) -> set[str]:
    code = (
        f"import sys, sweephand as sh; sh.open({str(path)!r})\n"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'sweephand'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


def csv_file(folder: Path) -> Path:
    (folder / "a.csv").write_text("x,y\n1,2\n" * 100)
    return folder / "a.csv"


def npy_file(folder: Path) -> Path:
    np.save(folder / "x.npy", np.arange(10))
    return folder / "x.npy"


def parquet_folder(folder: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        parquet.write_table(pa.table({"x": [1, 2, 3]}), folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize(
    ("make", "readers"),
    [
        (csv_file, {"csv_files"}),
        (npy_file, {"npy", "tokens"}),  # which also cut arrays
        (parquet_folder, {"parquet"}),
    ],
)
def test_only_the_format_that_is_there_is_imported(
    make: Callable[[Path], Path], readers: set[str], tmp_path: Path
) -> None:
    imported = imported_to_open(make(tmp_path))
    assert imported & READERS == {f"sweephand.deserializers.{one}" for one in readers}
    assert len(imported) <= 95, sorted(imported)  # all formats together are 160


def header_of_member(checksum: Callable[[int], bytes]) -> bytes:
    """Return a header as before POSIX, which has no magic, padded to a whole archive."""
    block = b"a.txt".ljust(100, b"\0") + b"0000644\0" * 3 + b"0" * 11 + b"\0" + b"0" * 11 + b" "
    total = sum(block) + 8 * ord(" ") + ord("0")
    return (block + checksum(total) + b"0").ljust(512, b"\0") + bytes(1024)


CHECKSUMS: dict[str, Callable[[int], bytes]] = {
    "six digits, zero, blank": lambda total: b"%06o\0 " % total,
    "eight digits": lambda total: b"%08o" % total,
    "blanks first, to the end": lambda total: b"%8o" % total,
    "base 256": lambda total: b"\x80" + total.to_bytes(7, "big"),
}


@pytest.mark.parametrize("kind", CHECKSUMS)
def test_every_form_of_a_checksum_is_that_of_an_archive(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(header_of_member(CHECKSUMS[kind]))
    assert look_at(path).format.name == "WebDataset"
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert look_at(path).format.name == "WebDataset"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_archive_of_tarfile_is_recognised(form: int, tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        archive.addfile(tarfile.TarInfo("\N{GREEK SMALL LETTER ALPHA}.txt"))
    (tmp_path / "a").write_bytes(content.getvalue())
    assert look_at(tmp_path / "a").format.name == "WebDataset"


@pytest.mark.parametrize("window", range(9, 16))
def test_records_that_are_packed_in_any_way_are_recognised(window: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    record = sh.tfrecord.encode_record(bytes(300))
    path.write_bytes(record)
    assert look_at(path).format.name == "TFRecord"
    for level in range(10):
        packer = zlib.compressobj(level, wbits=window)
        path.write_bytes(packer.compress(record) + packer.flush())
        assert look_at(path).format.name == "TFRecord"
        path.write_bytes(gzip.compress(record, level))
        assert look_at(path).format.name == "TFRecord"


BOM = b"\xef\xbb\xbf"
HEADS: list[tuple[str, bytes]] = [
    *(("JSON lines", blank + b'{"a": 1}\n') for blank in (b"", BOM, b" \n\t\r\v\f", b" " * 63)),
    ("JSON lines", BOM + b" " * 60 + b'{"a": 1}\n'),
    *(("CNTK text", text + b"|x 1\n") for text in (b"", BOM, b"12 ", b" 12\t", b"\f1\v")),
    ("MLF", b"#!MLF!#\n"),
    ("MLF", BOM + b"#!MLF!#\n"),
]


@pytest.mark.parametrize(("name", "head"), HEADS)
@pytest.mark.parametrize("file", ["a", "a.bin", "a.txt", "a.csv"])
def test_bytes_come_before_names(name: str, head: bytes, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(head)
    assert look_at(tmp_path / file).format.name == name
    assert look_at(tmp_path).format.name == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        *((file, "CSV") for file in ("a.csv", "A.CSV", "a.tsv.gz", "a.b.csv.ZST", " .csv")),
        *((file, "text") for file in ("a.txt", "a.Text", "a.txt.gz", "README.txt.gz")),
        *((file, "bare numbers") for file in ("a.bin", "a.tokens", "a.ds", "a.ds.index")),
        *((file, "HDF5") for file in ("a.h5", "a.HDF5", "a.hdf")),
        *((file, "ArrayRecord") for file in ("a.array_record", "a.arrayrecord-00001-of-00002")),
    ],
)
def test_names_tell_where_bytes_do_not(file: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(b"a\nb\n")
    assert look_at(tmp_path / file).format.name == name


ALMOST = [".csv", "a.csv.bz2", "acsv", "a.BIN", "a.index", "a.csv\n"]


@pytest.mark.parametrize("file", ALMOST)
def test_names_that_are_almost_those_of_a_format_tell_nothing(
    file: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(b"a\nb\n")
    with pytest.raises(ValueError, match=r"no format that is known here"):
        look_at(tmp_path / file)


def test_a_folder_that_is_named_as_a_file_is_looked_into(tmp_path: Path) -> None:
    folder = tmp_path / "a.csv"
    folder.mkdir()
    (folder / "b.jsonl").write_text('{"a": 1}\n')
    found: Any = look_at(folder)
    assert (found.format.name, [path.name for path in found.paths]) == (
        "JSON lines",
        ["b.jsonl"],
    )
