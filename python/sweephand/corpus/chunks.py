"""Chunks made of columns."""

from __future__ import annotations

from collections.abc import Sequence

from sweephand import _core
from sweephand.corpus.columns import ColumnData

CHUNK_BYTES = 8 << 20
"""The size of a chunk, about, unless the user gives another."""

REMOTE_CHUNK_BYTES = 1 << 20
"""The size of a chunk of bare numbers in a store: a request; a window has a hundred of them."""


def default_chunk_bytes(*, is_local: bool) -> int:
    """Return the bytes of a chunk of bare numbers, on a disk or in a store."""
    return CHUNK_BYTES if is_local else min(CHUNK_BYTES, REMOTE_CHUNK_BYTES)


def sequences_per_chunk(
    num_sequences: int, num_bytes: int, chunk_bytes: int | None = None
) -> int:
    """Return the number of sequences that fill a chunk, by their mean size."""
    return max(1, (chunk_bytes or CHUNK_BYTES) // max(1, num_bytes // num_sequences))


def make_chunk(
    columns: Sequence[ColumnData], *, owned: bool = True, skipped: Sequence[int] = ()
) -> _core.read.Chunk:
    """Return columns as a chunk.

    Parameters
    ----------
    columns : sequence of ColumnData
        One per stream, with as many sequences each.
    owned : bool
        True if their memory counts as the source's; False for that of the user.
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
