"""Indexes: built once, kept beside the data, checked, and built again when they are of no use."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand import index_file
from sweephand.files import SourceFile, find_files
from sweephand.index_file import Advance, Index, Scan, load_index
from tests.read.format_corpora import TOKENS, varied, write_jsonl


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_bytes(bytes(range(number + 2)))
    return folder


class Counted:
    """Scans that say which files they read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, file: SourceFile, advance: Advance) -> Scan:
        self.read.append(file.name)
        content = file.read(0, file.size)
        advance(file.size)
        arrays = {"z": content.astype(np.int32), "a": np.arange(len(self.read[:1])) * 1.5}
        return Scan(arrays, {"first": int(content[0]), "name": file.name})

    def load(self, folder: Path, meaning: str = "test") -> Index:
        self.read.clear()
        return load_index(find_files(str(folder / "*.txt")).files, {"format": meaning}, self)


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sweephand-index"))


def test_an_index_is_built_once_and_lies_beside_the_data(folder: Path) -> None:
    scan = Counted()
    built = scan.load(folder)
    assert sorted(scan.read) == ["0.txt", "1.txt", "2.txt"]
    assert len(kept(folder)) == 1
    again = scan.load(folder)
    assert scan.read == []
    assert again.facts == built.facts == [{"first": 0, "name": f"{n}.txt"} for n in range(3)]
    assert again.arrays.keys() == built.arrays.keys() == {"a", "z"}
    for name, array in built.arrays.items():
        assert np.array_equal(again.arrays[name], array)
        assert again.arrays[name].dtype == array.dtype
        assert np.array_equal(again.starts[name], built.starts[name])
    assert again.scan(1).arrays["z"].tolist() == [0, 1, 2]


def test_only_files_that_changed_are_read_again(folder: Path) -> None:
    scan = Counted()
    scan.load(folder)
    (folder / "1.txt").write_bytes(bytes([7, 7, 7]))
    os.utime(folder / "1.txt", ns=(1, 1))
    (folder / "3.txt").write_bytes(bytes([9]))
    (folder / "0.txt").unlink()
    index = scan.load(folder)
    assert sorted(scan.read) == ["1.txt", "3.txt"]
    assert index.arrays["z"].tolist() == [7, 7, 7, 0, 1, 2, 3, 9]


def test_what_is_asked_for_decides_which_index_it_is(folder: Path) -> None:
    scan = Counted()
    scan.load(folder, "one")
    scan.load(folder, "another")
    assert len(scan.read) == 3
    scan.load(folder, "one")
    assert scan.read == []
    assert len(kept(folder)) == 2


def test_a_damaged_index_is_built_again_wherever_the_damage_is(folder: Path) -> None:
    scan = Counted()
    scan.load(folder)
    (path,) = kept(folder)
    good = path.read_bytes()
    arrays_begin = len(good) - 64  # paddings before are not read
    for place in [*range(0, 900, 13), *range(arrays_begin, len(good))]:
        damaged = bytearray(good)
        damaged[place] ^= 16
        path.write_bytes(damaged)
        found = scan.load(folder).arrays["z"].tolist()
        assert found == [0, 1, 0, 1, 2, 0, 1, 2, 3], place
    for end in range(0, len(good), 37):
        path.write_bytes(good[:end])
        scan.load(folder)
        assert len(scan.read) == 3, end
        assert path.read_bytes() == good


def test_an_index_of_another_version_is_built_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Counted()
    scan.load(folder)
    monkeypatch.setattr(index_file, "_VERSION", 2)
    scan.load(folder)
    assert len(scan.read) == 3


def test_a_folder_that_cannot_be_written_has_its_index_in_the_cache(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_writing_in(folder, monkeypatch)
    scan = Counted()
    scan.load(folder)
    assert kept(folder) == []
    assert len(kept(cache)) == 1
    scan.load(folder)
    assert scan.read == []


def refuse_writing_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a read-only file system does, which root cannot write either."""
    opens = Path.open

    def open_(path: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        if path.parent == folder and "x" in mode:
            raise OSError(30, "Read-only file system", str(path))
        return opens(path, mode, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", open_)


def test_an_index_that_can_be_kept_nowhere_is_told(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_writing_in(folder, monkeypatch)
    cache.write_bytes(b"a file where the folder should be")
    scan = Counted()
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        scan.load(folder)
    assert len(scan.read) == 3


def test_the_error_of_the_first_file_that_fails_is_raised(folder: Path) -> None:
    def scan(file: SourceFile, advance: Advance) -> Scan:
        if file.name != "0.txt":
            raise sh.DataError("bad", file.name)
        return Scan({})

    with pytest.raises(sh.DataError, match=r"1\.txt"):
        load_index(find_files(str(folder / "*.txt")).files, {}, scan)
    assert kept(folder) == []


def test_nothing_is_left_of_an_index_that_could_not_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        Counted().load(folder)
    assert sorted(path.suffix for path in folder.iterdir()) == [".txt"] * 3


def test_a_source_starts_without_reading_the_payload(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    write_jsonl(path, varied())
    deserializer = sh.JSONLDeserializer(path, TOKENS)
    state = sh.MinibatchSource(deserializer).get_checkpoint_state()
    # Another content of the same size and time, which only somebody who reads would notice.
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    source = sh.MinibatchSource(sh.JSONLDeserializer(path, TOKENS))
    assert source.get_checkpoint_state() == state
    with pytest.raises(sh.DataError, match="no JSON object"):
        source.next_minibatch(5)


def test_several_processes_may_build_the_same_index(folder: Path) -> None:
    (folder / "all.jsonl").write_text('{"tokens": [1, 2]}\n' * 1000)
    code = (
        "import sys, sweephand as sh\n"
        "corpus = sh.JSONLDeserializer(sys.argv[1], sh.StreamDefs(tokens=sh.StreamDef()))\n"
        "print(sh.MinibatchSource(corpus).num_samples_per_sweep)\n"
    )
    command = [sys.executable, "-c", code, str(folder / "all.jsonl")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in running] == [b"2000"] * 4
    assert len(kept(folder)) == 1
