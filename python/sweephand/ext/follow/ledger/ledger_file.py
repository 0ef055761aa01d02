"""The file that one worker writes its visits to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sweephand.ext.follow.ledger.blocks import LEDGER, Kind, LedgerBlock, blocks_of, pack_block
from sweephand.ext.follow.ledger.loss_rows import StepRows, pack_rows
from sweephand.ext.follow.ledger.sequence_names import MetNames
from sweephand.ext.follow.ledger.step_file import StepFile
from sweephand.extend import SequenceIds

_MOST_ROWS = 1 << 16  # that wait to be written


class LedgerFile(StepFile):
    """A file of blocks with the rows of steps."""

    def __init__(self, path: Path) -> None:
        self._waiting: list[StepRows] = []
        self._num_waiting = 0
        self._new_names = b""
        super().__init__(path, "LossLedger", "ledger")

    def _find_end(self, step: int | None) -> None:
        content = self._file.content()
        blocks = blocks_of(content, str(self.path))
        names = MetNames()
        for block in blocks:
            if block.kind in (Kind.NAMES, Kind.SHARDS):
                names.read(block, block.frame.payload(content), str(self.path))
        self._names = names
        self._file.end = blocks[-1].frame.end if blocks else 0
        self.last_step = last_step(blocks)

    def add(self, visits: StepRows, ids: SequenceIds) -> None:
        """Add the visits of a step, at least one sequence; they are written soon."""
        self._new_names += self._names.meet(ids, visits.numbers, self.last_step)
        self._waiting.append(visits)
        self._num_waiting += len(visits.numbers)
        self.last_step = visits.step
        self._flush_if_due(is_full=self._num_waiting >= _MOST_ROWS)

    def _write_waiting(self) -> None:
        if self._waiting or self._new_names:
            blocks = self._new_names if self._file.end else LEDGER.head + self._new_names
            if self._waiting:
                blocks += pack_rows(self._waiting)
            self._file.append(blocks)
            self._waiting, self._num_waiting, self._new_names = [], 0, b""

    def _mark_end(self, *, is_closed: bool) -> None:
        """Do nothing: a ledger ends with any block."""

    def rewind(self, step: int) -> None:
        """Drop all rows after a step; after step 0 all rows."""
        self.flush()
        blocks = blocks_of(self._file.content(), str(self.path))
        kept = list(_until(blocks, step)) if step else []
        self._file.cut(kept[-1].frame.end if kept else 0)
        self._find_end(step)
        if self.last_step > step:  # the last block goes on after the step
            self._file.append(pack_block(Kind.REWIND, step, step))
            self.last_step = step
        self.flush(to_disk=True)


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
