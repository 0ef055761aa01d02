"""Chunks made of columns, and columns that are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData

CHUNK_BYTES = 8 << 20
"""About what a chunk holds, unless the user says otherwise."""


def read_in_place(
    columns: Sequence[ColumnData],
    starts: NDArray[np.int64],
    skipped: NDArray[np.int64] | None = None,
) -> tuple[_core.read.Deserializer, _core.read.Deserializer]:
    """Return what reads columns in local files sequence by sequence, and what by chunks.

    Parameters
    ----------
    columns : sequence of ColumnData
        One per stream; their values lie in extents.
    starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    skipped : ndarray of int64, optional
        Sequences that are damaged and to be left out of minibatches, ascending.
    """
    chunk = make_chunk(
        columns, owned=False, skipped=[] if skipped is None else skipped.tolist()
    )
    by_chunk = _core.read.ExtentChunks(chunk, starts.astype(np.uint64))
    return _core.read.ResidentDeserializer(chunk), by_chunk


def make_chunk(
    columns: Sequence[ColumnData], *, owned: bool = True, skipped: Sequence[int] = ()
) -> _core.read.Chunk:
    """Return columns as a chunk.

    Parameters
    ----------
    columns : sequence of ColumnData
        One per stream, with as many sequences each.
    owned : bool
        Whether their memory counts as the source's; False for that of the user.
    skipped : sequence of int
        Sequences that are damaged and to be left out of minibatches.
    """
    return _core.read.Chunk(
        columns=[column.to_core() for column in columns],
        num_sequences=columns[0].num_sequences,
        bytes=sum(column.num_bytes for column in columns) if owned else 0,
        owner=tuple(columns),
        skipped=sorted(skipped),
    )
