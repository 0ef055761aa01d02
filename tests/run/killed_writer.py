"""Kill a writer of a file at each of its calls of the system: run by test_records.py.

usage: killed_writer.py KIND FOLDER EVERY

Writes are made 5 bytes at a time, so that each is many calls. A child is killed at its first
call, another EVERY calls later, and so on, until one comes to the end. After each the file is
read, and then written on. Prints how many were killed.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.run.record_files import KINDS, Kind

ITEMS = [0, 1, 2]
_calls_left = 0


def step() -> None:
    global _calls_left
    if not _calls_left:
        os.kill(os.getpid(), signal.SIGKILL)
    _calls_left -= 1


def in_small_pieces(write: Callable[..., int], *, at: bool) -> Callable[..., int]:
    def pieces(descriptor: int, data: Any, offset: int = 0) -> int:
        view = memoryview(data)
        for begin in range(0, len(view), 5):
            step()
            piece = view[begin : begin + 5]
            write(descriptor, piece, offset + begin) if at else write(descriptor, piece)
        return len(view)

    return pieces


def counted(call: Callable[..., Any]) -> Callable[..., Any]:
    def counting(*arguments: Any, **options: Any) -> Any:
        step()
        return call(*arguments, **options)

    return counting


def patch() -> None:
    """Have every call that changes a file count."""
    for name in ("fsync", "ftruncate", "rename", "replace", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    os.pwrite = in_small_pieces(os.pwrite, at=True)
    os.write = in_small_pieces(os.write, at=False)


def write(kind: Kind, path: Path, acknowledge: int, num_calls: int) -> None:
    """Write until the end or the kill, and acknowledge each item by a byte."""
    global _calls_left
    _calls_left = num_calls
    tell = os.write
    patch()
    for item in kind.write(path, ITEMS):
        tell(acknowledge, bytes([item]))
    os._exit(0)


def killed(kind: Kind, path: Path, num_calls: int) -> tuple[list[int], bool]:
    """Return the items that a child has acknowledged, and False if it came to its end."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            write(kind, path, write_end, num_calls)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        acknowledged = list(pipe.read())
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed otherwise"
    return acknowledged, os.WIFSIGNALED(status)


def check(kind: Kind, path: Path, acknowledged: list[int]) -> None:
    found = kind.read(path)
    if kind.is_whole:
        last = acknowledged[-1:]
        assert found in (last, [len(acknowledged)]), (found, acknowledged)
    else:
        assert found == ITEMS[: len(found)], found
        assert len(acknowledged) <= len(found) <= len(acknowledged) + 1, (found, acknowledged)
    more = [len(found), len(found) + 1]
    assert list(kind.write(path, more)) == more
    assert kind.read(path) == (more[-1:] if kind.is_whole else [*found, *more])


def main(kind: Kind, folder: Path, every: int) -> None:
    num_killed, goes_on = -1, True
    while goes_on:
        num_killed += 1
        path = folder / str(num_killed) / kind.name
        path.parent.mkdir(parents=True)
        acknowledged, goes_on = killed(kind, path, num_killed * every)
        check(kind, path, acknowledged)
        shutil.rmtree(path.parent)
    print(num_killed)


if __name__ == "__main__":
    main(KINDS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]))
