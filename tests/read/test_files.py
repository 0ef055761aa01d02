"""Which files a corpus is made of."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sweephand as sh
from sweephand.files.find import find_files


def names(files: object) -> list[str]:
    return [file.name for file in find_files(files).files]  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.bin", "a.bin", "c.bin.tmp", "_SUCCESS", "x.bin.crc", "[1].bin"):
        (tmp_path / name).write_bytes(b"1234")
    return tmp_path


def test_files_are_sorted_by_the_bytes_of_their_names(folder: Path) -> None:
    (folder / "B.bin").write_bytes(b"")
    assert names([folder / "b.bin", folder / "B.bin", folder / "a.bin"]) == [
        "B.bin",
        "a.bin",
        "b.bin",
    ]


def test_a_glob_passes_leftovers(folder: Path) -> None:
    (folder / "sub.bin").mkdir()
    found = find_files(str(folder / "*"))
    assert [file.name for file in found.files] == ["[1].bin", "a.bin", "b.bin"]


def test_what_exists_is_taken_literally(folder: Path) -> None:
    assert names(folder / "[1].bin") == ["[1].bin"]
    assert names(folder / "c.bin.tmp") == ["c.bin.tmp"]
    (folder / "1.bin").write_bytes(b"")
    assert names(str(folder / "[12].bin")) == ["1.bin"]


def test_files_that_share_a_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for part in ("x", "y"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "part-0.bin").write_bytes(b"")
    assert names(str(tmp_path / "*" / "*.bin")) == ["x/part-0.bin", "y/part-0.bin"]


def test_what_matches_nothing_is_named_and_so_are_leftovers(tmp_path: Path) -> None:
    for absent in ("nothing.bin", "*.bin"):
        with pytest.raises(FileNotFoundError, match=re.escape(absent)):
            find_files(str(tmp_path / absent))
    (tmp_path / "a.tmp").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"leftovers of a writer: .*a\.tmp"):
        find_files(str(tmp_path / "*"))


def test_a_file_given_twice_is_refused_however_it_is_called(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder / "a.bin")
    for again in (folder / "a.bin", folder / "." / "a.bin", folder / "link.bin"):
        with pytest.raises(ValueError, match=r"given twice"):
            find_files([folder / "a.bin", again])


def test_a_folder_and_a_link_to_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sh.DataError):
        find_files(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="loop"):
        find_files(tmp_path / "loop")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_an_error_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    np.arange(4, dtype=np.uint16).tofile(path)
    path.chmod(0)
    source = sh.MinibatchSource(sh.RawTokensDeserializer(path, "uint16", 2))
    with pytest.raises(PermissionError, match=r"a\.bin"):
        source.next_minibatch(1)


def test_a_file_that_was_replaced_before_it_was_opened_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    np.arange(1000, dtype=np.uint16).tofile(path)
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "b.bin")  # of two, none is open yet
    both = [path, tmp_path / "b.bin"]
    source = sh.MinibatchSource(sh.RawTokensDeserializer(both, "uint16", 10))
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "new.bin")
    (tmp_path / "new.bin").replace(path)
    with pytest.raises(sh.StaleError, match=r"a\.bin"):
        source.next_minibatch(10)


@pytest.fixture
def usual_limit() -> Iterator[None]:
    """At most 1024 files may be open, as on most machines."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("usual_limit")
def test_more_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    for number in range(400):
        np.full(4, number, np.uint16).tofile(tmp_path / f"{number:03}.bin")
    source = sh.MinibatchSource(
        sh.RawTokensDeserializer(str(tmp_path / "*.bin"), "uint16", 4), max_sweeps=1
    )
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    values = np.concatenate([one["tokens"].values for one in source.minibatches(100)])
    assert np.array_equal(np.sort(values), np.repeat(np.arange(400), 4))
    assert len(os.listdir("/proc/self/fd")) - before <= 256 + 8  # noqa: PTH208
