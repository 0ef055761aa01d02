"""Tar archives of samples: what Python's tarfile reads in them, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.written import npy_bytes, write_tar

import sweephand as sh


def rows(corpus: sh.Deserializer, max_errors: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Every sample in the order of the files, by stream."""
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, max_errors=max_errors, **options) as source:
        return [
            {name: values[number].tolist() for name, values in columns.items()}
            for minibatch in source.minibatches(3)
            for columns in [{name: minibatch[name].as_sequences() for name in minibatch}]
            for number in range(len(minibatch.ids))
        ]


def open_tar(path: Path, *fields: str, **options: Any) -> sh.WebDatasetDeserializer:
    return sh.WebDatasetDeserializer(path, list(fields) or None, **options)


def by_tarfile(path: Path) -> list[tuple[str, dict[str, bytes]]]:
    """The samples as WebDataset groups them."""
    samples: list[tuple[str, dict[str, bytes]]] = []
    with tarfile.open(path) as archive:
        for member in archive:
            folder, _, base = member.name.rpartition("/")
            stem, dot, field = base.partition(".")
            if not (member.isreg() and stem and dot and field):
                continue
            key = f"{folder}/{stem}" if folder else stem
            if not samples or samples[-1][0] != key:
                samples.append((key, {}))
            content = archive.extractfile(member)
            assert content is not None
            samples[-1][1][field.lower()] = content.read()
    return samples


FORMATS = {"ustar": tarfile.USTAR_FORMAT, "GNU": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}

names = st.text(st.sampled_from("ab/é-"), min_size=1, max_size=90).filter(
    lambda name: not name.endswith("/") and "//" not in name and not name.startswith("/")
)


@pytest.mark.parametrize("form", FORMATS)
@given(
    keys=st.lists(names, min_size=1, max_size=6, unique=True),
    sizes=st.lists(st.integers(0, 1500), min_size=12, max_size=12),
    long=st.integers(0, 70),
)
def test_members_are_those_that_tarfile_reads(
    form: str, keys: list[str], sizes: list[int], long: int, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    folder = "" if form == "ustar" else "d/" * long
    members = [
        (f"{folder}{key}.{field}", bytes(np.arange(size, dtype=np.uint8)))
        for key, size in zip([key for key in keys for _ in range(2)], sizes, strict=False)
        for field in ("jpg", "Seg.PNG")[: 1 + size % 2]
    ]
    members = list(dict(members).items())
    try:
        write_tar(path, members, format=FORMATS[form])
    except ValueError:  # too long for ustar
        return
    expected = by_tarfile(path)
    if len({key for key, _ in expected}) < len(expected):
        return
    fields = list(dict.fromkeys(name for _, found in expected for name in found))
    found = rows(open_tar(path, *fields, "__key__", index=None))
    assert found == [
        {
            **{name: [held[name]] if name in held else [] for name in fields},
            "__key__": [key.encode()],
        }
        for key, held in expected
    ]


def test_other_members_than_files_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"x.{kind.decode()}")
            member.type, member.linkname = kind, "1.txt"
            archive.addfile(member)
        for name in ("__index__", "none", ".hidden.txt", "d/._1.txt", "1.", "1.txt"):
            member = tarfile.TarInfo(name)
            member.size = 1
            member.pax_headers = {"comment": "é", "mtime": "1.5"}
            archive.addfile(member, io.BytesIO(b"!"))
    assert rows(open_tar(path)) == [{"txt": [b"!"]}]


def test_numbers_arrays_and_json_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info: dict[str, Any] = {"caption": "é", "size": {"wide": 2.5}, "ids": [1, 2]}
    frames = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_tar(
        path,
        [
            ("1.cls", b" 7\n"),
            ("1.json", json.dumps(info).encode()),
            ("1.npy", npy_bytes(frames)),
            ("2.cls", b"-1"),
            ("2.json", b'\xef\xbb\xbf{"caption": "b", "score": NaN}'),
            ("2.npy", npy_bytes(frames[:1])),
        ],
    )
    fields = ("cls", "json.caption", "json.size.wide", "json.ids", "npy", "json")
    first, second = rows(open_tar(path, *fields))
    assert first["cls"] == [7]
    assert first["json.caption"] == ["é".encode()]
    assert (first["json.size.wide"], second["json.size.wide"]) == ([2.5], [])
    assert first["json.ids"] == [1, 2]
    assert first["npy"] == frames.tolist()
    assert second["npy"] == frames[:1].tolist()
    assert json.loads(first["json"][0]) == info
    whole = sh.WebDatasetDeserializer(path, {"npy": sh.StreamDef(shape=(1, 2))}, index=None)
    with pytest.raises(sh.DataError, match=r"array of shape \(3, 2\), not of \(1, 2\)"):
        rows(whole)


def test_ids_may_be_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [(f"{n}/x.txt", b"%d" % n) for n in range(5)])
    with sh.MinibatchSource(open_tar(path, "txt", ids="__key__"), randomize=False) as source:
        assert source.next_minibatch(3).ids == ["0/x", "1/x", "2/x"]
        assert source.find("4/x") == 4


def told(path: Path, *fields: str) -> sh.DataError:
    with pytest.raises(sh.DataError) as caught:
        rows(open_tar(path, *fields, index=None))
    assert caught.value.file == str(path)
    return caught.value


def test_what_is_wrong_with_a_sample_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [("1.txt", b"a"), ("1.TXT", b"b"), ("2.txt", b"c")])
    error = told(path, "txt")
    assert "the sample '1' has the member 'txt' twice" in error.reason
    assert (error.offset, error.sequence) == (1024, 0)
    assert rows(open_tar(path, "txt"), max_errors=1) == [{"txt": [b"c"]}]
    write_tar(path, [("1.txt", b"a"), ("2.txt", b"b"), ("1.cls", b"3")])
    assert "the key '1' was there before, at byte 0" in told(path, "txt").reason
    write_tar(path, [("1.cls", b"cat"), ("2.cls", b"1")])
    error = told(path, "cls")
    assert "the member 'cls' holds no integer" in error.reason
    assert (error.stream, error.offset) == ("cls", 512)
    assert rows(open_tar(path, "cls"), max_errors=1) == [{"cls": [1]}]
    write_tar(path, [("1.json", b"{")])
    assert "the member 'json' is no JSON" in told(path, "json.a").reason
    write_tar(path, [("1.npy", npy_bytes(np.zeros(2, ">i4")))])
    assert "big-endian" in told(path, "npy").reason
    write_tar(path, [("1.npy", npy_bytes(np.zeros(2)) + b"x")])
    assert "longer than its array" in told(path, "npy").reason


def test_archives_that_cannot_be_read_in_place_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [("1.txt", b"a")])
    plain = path.read_bytes()
    path.write_bytes(bz2.compress(plain))
    assert told(path).offset == 0
    with pytest.raises(ValueError, match="no format that is known"):
        sh.open(path.rename(path.with_name("a.tar.bz2")))
    path.write_bytes(gzip.compress(plain)[:-9])
    assert "GZIP" in told(path, "txt").reason
    path.write_bytes(plain[:-1024])
    assert "without its end mark" in told(path, "txt").reason
    path.write_bytes(plain + plain)
    assert "bytes behind the end mark" in told(path, "txt").reason
    sparse = bytearray(plain)
    sparse[156] = ord("S")
    sparse[148:156] = b"%06o\0 " % (sum(sparse[:148]) + sum(sparse[156:512]) + 8 * 32)
    path.write_bytes(sparse)
    assert "without --sparse" in told(path, "txt").reason


def test_pickles_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [("1.txt", b"a"), ("1.pyd", b"a")])
    with pytest.warns(UserWarning, match="pickled objects, which are never loaded"):
        corpus = sh.WebDatasetDeserializer(path)
    assert list(corpus.definitions) == ["txt"]


def test_a_size_beyond_twelve_digits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    write_tar(path, [("1.txt", b"abc")])
    content = bytearray(path.read_bytes())
    content[124:136] = b"\x80" + (3).to_bytes(11, "big")
    content[148:156] = b"%06o\0 " % (sum(content[:148]) + sum(content[156:512]) + 8 * 32)
    path.write_bytes(content)
    assert rows(open_tar(path, "txt")) == [{"txt": [b"abc"]}]


@pytest.mark.parametrize("sizes", [(5 << 20, 1), (3 << 20, 3 << 20)])
def test_streams_of_a_compressed_archive_are_guessed_from_a_whole_sample(
    sizes: tuple[int, int], tmp_path: Path
) -> None:
    write_tar(
        tmp_path / "plain",
        [
            (f"{key}.{field}", bytes(size))
            for key in "01"
            for field, size in zip(("bin", "txt"), sizes, strict=True)
        ],
    )
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes(), 1))
    corpus = sh.open(tmp_path / "a.tar.gz")
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        batch = source.next_minibatch(1)
        assert {name: len(batch[name].values[0]) for name in batch} == dict(
            zip(("bin", "txt"), sizes, strict=True)
        )
