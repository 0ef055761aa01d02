"""Files of every format, mutated at random: a DataError that names the file, or sequences."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests import extent
from tests.read.format_corpora import OPEN, Make, hdf5_in_vlen, htk
from tests.read.test_damage import SLOW, delivered, write, written

import sweephand as sh

INPUTS = 100_000 if extent.exhaustive else 300
"""Of a format; a tenth of those whose libraries take long to open a file."""

_ODD = [b"\0", b"\xff" * 8, b"\n", b'"', b"{", b"\x7f\xff\xff\xff", b"\x80" * 3, b"9" * 20]


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return a content with up to four places flipped, replaced, cut out or repeated."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        end = min(len(changed), at + draw.choice([1, 4, 30]))
        kind = draw.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[at:end] = draw.randbytes(end - at)
        elif kind == 2:
            changed[at:at] = draw.choice(_ODD)
        elif kind == 3:
            del changed[at:end]
        else:
            changed[at:at] = changed[at:end]
    return bytes(changed)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Indexes of files that live for a moment need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def refusal(folder: Path, make: Make, max_errors: int) -> Exception | None:
    """Return what opening and reading raises of what it may raise."""
    try:
        delivered(folder, make, max_errors=max_errors)
    except (sh.DataError, ValueError, FileNotFoundError) as error:
        return error
    return None


@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
def test_mutated_files_are_data_errors_with_their_file_or_sequences(
    make: Make, tmp_path: Path
) -> None:
    files = written(tmp_path, make)
    draw = random.Random(make.__name__)
    folder = tmp_path / "mutated"
    for _ in range(INPUTS // 10 if make in SLOW else INPUTS):
        name = draw.choice(sorted(files))
        write(folder, {**files, name: mutated(files[name], draw)})
        found = refusal(folder, make, draw.choice([0, 50]))
        if isinstance(found, sh.DataError):
            assert str(folder) in str(found.file)
        elif found is not None:  # the file tells other kinds of values, or names, than wanted
            assert type(found) is ValueError or make is htk
        for path in folder.rglob("*"):  # indexes too
            if path.is_file():
                path.unlink()


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_length_that_an_hdf5_file_cannot_hold_is_refused_at_once(
    is_chunked: bool, tmp_path: Path
) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "part-0.h5"
    with h5py.File(path, "w") as file:
        rows = file.create_dataset(
            "t", (3,), h5py.vlen_dtype("i4"), maxshape=(None,) if is_chunked else (3,)
        )
        for row in range(3):
            rows[row] = np.arange(7 + row)
    content = bytearray(path.read_bytes())
    at = content.index(b"\x08\0\0\0", 16)  # of the second row
    while content[at + 16] != 9 or content[at - 16] != 7:
        at = content.index(b"\x08\0\0\0", at + 1)
    content[at + 3] = 0xFF
    path.write_bytes(content)
    with pytest.raises(sh.DataError, match="elements is longer than the file") as caught:
        delivered(tmp_path, hdf5_in_vlen)
    assert caught.value.file == str(path)


_LIMITED = """
import resource, sys
import sweephand as sh


import tests.read.test_mutated_files as own

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
source = sh.MinibatchSource(own.LARGE[sys.argv[1]](sys.argv[2]), randomize=False, max_errors=1,
                            max_sweeps=1, num_threads=0)
resource.setrlimit(resource.RLIMIT_AS, (used + (768 << 20), -1))
print([len(mb[next(iter(mb))].values) for mb in source.minibatches(1)])
print(source.errors[0].reason)
"""

LARGE: dict[str, Callable[[str], sh.Deserializer]] = {
    "raw tokens": lambda path: sh.RawTokensDeserializer(path, "uint8", 2**30),
    "npy": lambda path: sh.NpyDeserializer({"x": path}),
    "tar": lambda path: sh.WebDatasetDeserializer(path),
    "pictures": lambda path: sh.ImageFolder(path),
}
"""A sequence of 1 GiB, and a shorter one where the format has such."""


def write_large(kind: str, path: Path) -> None:
    if kind == "npy":
        np.lib.format.open_memmap(path, "w+", np.uint8, (1, 2**30)).flush()
    elif kind == "raw tokens":
        path.touch()
        os.truncate(path, 2**30 + 5)
    elif kind == "tar":
        large, small = tarfile.TarInfo("0.txt"), tarfile.TarInfo("1.txt")
        large.size, small.size = 2**30, 5
        with path.open("wb") as file:
            file.write(large.tobuf())
            file.seek(512 + 2**30)
            file.write(small.tobuf() + bytes(512 + 1024))
    else:
        for name, size in (("a", 2**30), ("b", 5)):
            (path / name).mkdir(parents=True)
            (path / name / "x.jpg").touch()
            os.truncate(path / name / "x.jpg", size)


@pytest.mark.parametrize("kind", LARGE)
def test_a_sequence_for_which_there_is_no_memory_is_a_damaged_item(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "large.npy"
    write_large(kind, path)
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, kind, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    lengths, reason = done.stdout.splitlines()
    wanted = {"npy": "[0]", "raw tokens": "[0, 5]"}
    assert lengths == wanted.get(kind, "[0, 1]")  # of minibatches
    assert "memory" in reason


def test_texts_that_a_dictionary_repeats_are_no_more_than_is_read_at_once(
    tmp_path: Path,
) -> None:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "a.arrow"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1025, pa.int16()), [bytes(2**20)])
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, pa.schema({"x": texts.type}), options=packed) as writer:
        writer.write_batch(pa.record_batch({"x": texts}))
    assert path.stat().st_size < 4096
    with pytest.raises(sh.DataError, match="write batches of at most") as caught:
        sh.MinibatchSource(sh.ArrowDeserializer(path))
    assert caught.value.file == str(path)
