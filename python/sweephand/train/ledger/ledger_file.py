"""The file that one worker writes its visits to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sweephand.corpus.ids import SequenceIds
from sweephand.train.ledger.blocks import LEDGER, Kind, LedgerBlock, blocks_of
from sweephand.train.ledger.loss_rows import StepRows, pack_rows
from sweephand.train.ledger.sequence_names import MetNames
from sweephand.train.ledger.step_file import open_alone

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
        self._waiting: list[StepRows] = []
        self._num_waiting = 0
        self._new_names = b""
        self._since = 0.0  # when the first of them came
        self._file = open_alone(path, "LossLedger", "ledger")
        try:
            self._find_end()
        except BaseException:
            self._file.close()
            raise

    def _find_end(self) -> None:
        """Read the end of the file; a torn end is written over."""
        content = self._file.content()
        blocks = blocks_of(content, str(self.path))
        names = MetNames()
        for block in blocks:
            if block.kind in (Kind.NAMES, Kind.SHARDS):
                names.read(block, block.payload(content), str(self.path))
        self._names = names
        self._file.end = blocks[-1].end if blocks else 0
        self.last_step = last_step(blocks)

    def add(self, visits: StepRows, ids: SequenceIds) -> None:
        """Add the visits of a step, at least one sequence; they are written soon."""
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
        """Write waiting rows, to the disk on request; rows that fail wait on."""
        if not self._file.is_mine:  # a fork, whose parent will write the same
            return
        if self._waiting or self._new_names:
            blocks = self._new_names if self._file.end else LEDGER.head + self._new_names
            if self._waiting:
                blocks += pack_rows(self._waiting)
            self._file.append(blocks)
            self._waiting, self._num_waiting, self._new_names = [], 0, b""
        if to_disk:
            self._file.sync()

    def rewind(self, step: int) -> None:
        """Drop all rows after a step; after step 0 all rows."""
        self.flush()
        blocks = blocks_of(self._file.content(), str(self.path))
        kept = list(_until(blocks, step)) if step else []
        self._file.cut(kept[-1].end if kept else 0)
        self._find_end()
        if self.last_step > step:  # the last block goes on behind the step
            self._file.append(LedgerBlock(Kind.REWIND, step, step).packed())
            self.last_step = step
        self.flush(to_disk=True)

    def close(self) -> None:
        """Write waiting rows, and close the file."""
        if not self._file.is_open:
            return
        try:
            self.flush()
        finally:
            self._file.close()


def last_step(blocks: list[LedgerBlock]) -> int:
    """Return the last step that blocks leave rows of; 0 if there is none."""
    last = 0
    for block in blocks:
        if block.kind == Kind.VISITS:
            last = block.last_step
        elif block.kind == Kind.REWIND:
            last = min(last, block.last_step)
    return last


def _until(blocks: list[LedgerBlock], step: int) -> Iterator[LedgerBlock]:
    """Yield the blocks before the first whose rows are all of later steps."""
    for block in blocks:
        if block.kind == Kind.VISITS and block.first_step > step:
            return
        yield block
