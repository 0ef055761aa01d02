"""Rows of a ledger: the sequence, the step, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.follow.ledger.blocks import Kind, LedgerBlock, pack_block

_NUMBERS: dict[int, np.dtype[Any]] = {4: np.dtype("<u4"), 8: np.dtype("<u8")}
# Of a step: its number, nominal time and rows. Of a row, after a number: samples and loss.
_STEP: tuple[np.dtype[Any], ...] = (np.dtype("<u8"), np.dtype("<u8"), np.dtype("<u4"))
_ROW: tuple[np.dtype[Any], ...] = (np.dtype("<u4"), np.dtype("<f4"))


class StepRows(NamedTuple):
    """Sequences that one step, or a part of it, saw, with their losses."""

    step: int
    nominal_time: int
    numbers: NDArray[np.uint64]  # of the sequences in their corpus
    samples: NDArray[np.uint32]
    losses: NDArray[np.float32]


@dataclass(frozen=True)
class LossRows:
    """Rows of many steps, each column an array of shape (visits,)."""

    # of steps the number, from 1, and the nominal time at which their minibatch begins
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    numbers: NDArray[np.uint64]  # of the sequences in their corpus
    # of the sequence, or of the piece of it, in the size-defining stream
    samples: NDArray[np.uint32]
    losses: NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Sequence[LossRows]) -> LossRows:
        """Return all rows of several parts, in the order of steps."""
        empty = cls(*(np.empty(0, dtype) for dtype in ("i8", "i8", "u8", "u4", "f4")))
        columns = [
            np.concatenate(column)
            for column in zip(*[part.columns() for part in [empty, *parts]], strict=True)
        ]
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[order] for column in columns))

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return the columns in the order of the attributes."""
        return self.steps, self.times, self.numbers, self.samples, self.losses

    def where(self, chosen: NDArray[Any]) -> LossRows:
        """Return the rows that a mask, or their numbers, choose."""
        return LossRows(*(column[chosen] for column in self.columns()))

    def up_to(self, step: int) -> LossRows:
        """Return the rows of the steps up to a step."""
        return self.where(self.steps <= step)


def pack_rows(steps: Sequence[StepRows]) -> bytes:
    """Pack a block of steps, at least one."""
    numbers = np.concatenate([one.numbers for one in steps])
    width = 8 if int(numbers.max(initial=0)) >= 2**32 else 4
    columns = [
        *_columns(_STEP, [(one.step, one.nominal_time, len(one.numbers)) for one in steps]),
        numbers.astype(_NUMBERS[width]),
        np.concatenate([one.samples for one in steps]).astype(_ROW[0]),
        np.concatenate([one.losses for one in steps]).astype(_ROW[1]),
    ]
    return pack_block(
        Kind.VISITS,
        steps[0].step,
        steps[-1].step,
        b"".join(column.tobytes() for column in columns),
        number_bytes=width,
        num_steps=len(steps),
        num_rows=len(numbers),
    )


def _columns(dtypes: Sequence[np.dtype[Any]], rows: Any) -> list[NDArray[Any]]:
    return [
        np.array(column, dtype)
        for dtype, column in zip(dtypes, zip(*rows, strict=True), strict=True)
    ]


def unpack_rows(block: LedgerBlock, payload: memoryview, path: str) -> LossRows:
    """Return the rows of a block, as views where they can be."""
    dtypes = [*_STEP, _NUMBERS.get(block.number_bytes, _NUMBERS[8]), *_ROW]
    counts = [block.num_steps] * len(_STEP) + [block.num_rows] * (1 + len(_ROW))
    wanted = sum(dtype.itemsize * n for dtype, n in zip(dtypes, counts, strict=True))
    columns, offset = [], 0
    if wanted == len(payload):
        for dtype, count in zip(dtypes, counts, strict=True):
            columns.append(np.frombuffer(payload, dtype, count, offset))
            offset += dtype.itemsize * count
    if (
        not columns
        or not block.num_rows
        or int(columns[2].sum(dtype=np.int64)) != block.num_rows
    ):
        raise DataError("this block of the ledger has other columns", path, block.frame.begin)
    steps, times, rows, numbers, samples, losses = columns
    return LossRows(
        np.repeat(steps.astype(np.int64), rows),
        np.repeat(times.astype(np.int64), rows),
        numbers.astype(np.uint64),
        samples,
        losses,
    )
