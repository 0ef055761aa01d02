"""The file that one worker writes its visits to."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sweephand.corpus.ids import SequenceIds
from sweephand.train.ledger.blocks import Block, Kind, blocks_of
from sweephand.train.ledger.sequence_names import MetNames
from sweephand.train.ledger.visits import StepVisits, pack_visits

_MOST_ROWS = 1 << 16  # that wait to be written
_MOST_SECONDS = 5.0  # that they wait


class LedgerFile:
    """A file of blocks that is open to be written to, by one process.

    Attributes
    ----------
    last_step : int
        The last step that it holds rows of, those that wait to be written included; 0 if none.

    Raises
    ------
    OSError
        If it cannot be written to, or another process does so.
    DataError
        If it is damaged, elsewhere than at its end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last_step = 0
        self._names = MetNames()
        self._waiting: list[StepVisits] = []
        self._num_waiting = 0
        self._new_names = b""
        self._since = 0.0  # when the first of them came
        self._process = os.getpid()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o666)
        try:
            _lock(self._descriptor, path)
            self._find_end()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _find_end(self) -> None:
        """Learn what the file holds; a torn end is written over."""
        content = self._content()
        blocks = blocks_of(content, str(self.path))
        names = MetNames()
        for block in blocks:
            if block.kind in (Kind.NAMES, Kind.SHARDS):
                names.read(block, block.payload(content), str(self.path))
        self._names = names
        self._blocks_end = blocks[-1].end if blocks else 0
        self.last_step = last_step(blocks)

    def add(self, visits: StepVisits, ids: SequenceIds) -> None:
        """Add what a step saw, at least one sequence; it is written soon."""
        now = time.monotonic()
        if not self._waiting:
            self._since = now
        self._new_names += self._names.meet(ids, visits.numbers, self.last_step)
        self._waiting.append(visits)
        self._num_waiting += len(visits.numbers)
        self.last_step = visits.step
        if self._num_waiting >= _MOST_ROWS or now - self._since >= _MOST_SECONDS:
            self.flush()

    def flush(self, *, to_disk: bool = False) -> None:
        """Write what waits, to the disk if that is wanted; what fails waits on."""
        if self._process != os.getpid():  # a fork, whose parent will write the same
            return
        if self._waiting or self._new_names:
            blocks = self._new_names
            if self._waiting:
                blocks += pack_visits(self._waiting)
            self._append(blocks)
            self._waiting, self._num_waiting, self._new_names = [], 0, b""
        if to_disk:
            os.fsync(self._descriptor)

    def rewind(self, step: int) -> None:
        """Drop all rows behind a step; behind step 0 all that there is."""
        self.flush()
        blocks = blocks_of(self._content(), str(self.path))
        kept = list(_until(blocks, step)) if step else []
        os.ftruncate(self._descriptor, kept[-1].end if kept else 0)
        self._find_end()
        if self.last_step > step:  # the last block goes on behind the step
            self._append(Block(Kind.REWIND, step, step).packed())
            self.last_step = step
        self.flush(to_disk=True)

    def _content(self) -> memoryview:
        """Map the file, which nobody else shortens."""
        if not os.fstat(self._descriptor).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))

    def _append(self, data: bytes) -> None:
        end, left = self._blocks_end, memoryview(data)
        while left:
            written = os.pwrite(self._descriptor, left, end)
            end, left = end + written, left[written:]
        os.ftruncate(self._descriptor, end)  # what was torn there may have been longer
        self._blocks_end = end

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


def last_step(blocks: list[Block]) -> int:
    """Return the last step that blocks leave rows of; 0 if there is none."""
    last = 0
    for block in blocks:
        if block.kind == Kind.VISITS:
            last = block.last_step
        elif block.kind == Kind.REWIND:
            last = min(last, block.last_step)
    return last


def _until(blocks: list[Block], step: int) -> Iterator[Block]:
    """Yield the blocks before the first one whose rows all lie behind a step."""
    for block in blocks:
        if block.kind == Kind.VISITS and block.first_step > step:
            return
        yield block


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        reason = (
            "another run, or another LossLedger of this one, writes to this ledger; close that "
            "one, or give each its own"
        )
        raise BlockingIOError(errno.EWOULDBLOCK, reason, str(path)) from error
    except OSError:  # file systems that know no locks
        return
