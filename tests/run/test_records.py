"""Files of every kind, damaged, cut and killed: all that was acknowledged, and nothing half."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests import extent
from tests.extent import sample
from tests.run.record_files import KINDS, Kind

from sweephand.errors import DataError
from sweephand.run.records import RecordKind

ITEMS = [0, 1, 2, 3]
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)


def written(kind: Kind, path: Path) -> tuple[bytes, list[int]]:
    """Write all items; return the content, and its length when each was acknowledged."""
    ends = [path.stat().st_size for _ in kind.write(path, ITEMS)]
    return path.read_bytes(), ends


def read_or_refuse(kind: Kind, path: Path) -> list[int] | DataError:
    try:
        return kind.read(path)
    except DataError as error:
        return error


@each_kind
def test_items_are_read_as_they_were_written(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    assert kind.read(path) == []
    written(kind, path)
    assert kind.read(path) == (ITEMS[-1:] if kind.is_whole else ITEMS)


@each_kind
def test_a_file_with_any_byte_flipped_has_no_wrong_item(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    content, ends = written(kind, path)
    for place in sample(range(len(content)), 64):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        found = read_or_refuse(kind, path)
        if isinstance(found, DataError):
            assert kind.refuses
            assert found.file == str(path)
            continue
        if kind.is_whole:
            assert found == []
            continue
        assert found == ITEMS[: len(found)]
        whole_before = sum(end <= place for end in ends)
        assert len(found) == whole_before or place >= ends[-1]


@each_kind
def test_a_file_cut_at_any_byte_has_all_items_before(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    content, ends = written(kind, path)
    for size in sample(range(len(content)), 64):
        path.write_bytes(content[:size])
        num_whole = sum(end <= size for end in ends)
        assert kind.read(path) == ([] if kind.is_whole else ITEMS[:num_whole])
    for size in sample(range(0, len(content), 7), 64):  # and goes on
        path.write_bytes(content[:size])
        num_whole = sum(end <= size for end in ends)
        more = ITEMS if kind.is_whole else ITEMS[num_whole:]
        assert not more or list(kind.write(path, more)) == more
        assert kind.read(path) == (ITEMS[-1:] if kind.is_whole else ITEMS)


@each_kind
def test_zeros_after_a_power_failure_are_no_items(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    content, ends = written(kind, path)
    path.write_bytes(content[: ends[-1] - 20] + bytes(20))
    assert kind.read(path) == ([] if kind.is_whole else ITEMS[:-1])


@each_kind
def test_a_writer_killed_at_any_call_leaves_all_it_acknowledged(
    kind: Kind, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.run.killed_writer", kind.name, str(tmp_path)]
    command.append("1" if extent.exhaustive else "4")
    root = Path(__file__).parents[2]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= (6 if extent.exhaustive else 2)


def test_a_file_of_another_kind_or_version_is_refused_by_name() -> None:
    kind = RecordKind(b"SWEEPABC", 2, "notebook", "burn it")
    assert kind.check(kind.head, "a.notes") == 16
    assert kind.check(kind.head[:7], "a.notes") == 0
    assert kind.check(b"", "a.notes") == 0
    later = RecordKind(b"SWEEPABC", 3, "notebook", "")
    for content in (later.head, b"\x89PNG" + bytes(100)):
        with pytest.raises(DataError, match=r"no notebook of version 2, or .*; burn it"):
            kind.check(content, "a.notes")
