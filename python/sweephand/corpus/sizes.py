"""The sizes of all sequences of a corpus, in samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData, read_offsets
from sweephand.dataclass import dataclass

MANY_SEQUENCES = 1_000_000
"""From so many on, lengths are looked at where they are used, not all before."""


@dataclass(frozen=True)
class Sizing:
    """The sizes of all sequences, and the samples in every chunk.

    Attributes
    ----------
    sizes : core object
        One size per sequence, in samples.
    chunk_samples : ndarray of uint64, shape (chunks,)
    fingerprinted : bool
        Whether every size is known without loading chunks, so that all of them identify the
        corpus.
    """

    sizes: _core.index.Sizes
    chunk_samples: NDArray[np.uint64]
    fingerprinted: bool = True

    @classmethod
    def of(cls, sizes: NDArray[np.integer], starts: NDArray[np.integer]) -> Self:
        """Return sizes that are all known.

        Parameters
        ----------
        sizes : ndarray of int, shape (sequences,)
        starts : ndarray of int, shape (chunks + 1,)
            The first sequence of every chunk, and the end.
        """
        samples = sum_chunks(sizes, starts)
        if sizes.min() == sizes.max():
            return cls(_core.index.CommonSize(int(sizes[0])), samples)
        return cls(_core.index.StoredSizes(sizes.astype(np.uint32, copy=False)), samples)

    @classmethod
    def one_each(cls, chunk_sequences: NDArray[np.uint64]) -> Self:
        """Return the sizes of sequences of one sample."""
        return cls(_core.index.CommonSize(1), chunk_sequences)


def size_columns(
    columns: dict[str, ColumnData],
    starts: NDArray[np.int64],
    streams: Sequence[str] | None = None,
    *,
    skipped: NDArray[np.int64] | None = None,
) -> Sizing:
    """Return the sizes of sequences whose columns are all here.

    Parameters
    ----------
    columns : dict of ColumnData
        One per stream, with as many sequences each.
    starts : ndarray of int64, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    streams : sequence of str, optional
        Those whose longest is the size; by default all.
    skipped : ndarray of int64, optional
        Sequences that are never delivered; they count one sample.

    Raises
    ------
    ValueError
        If a sequence has no sample.
    """
    chosen = columns if streams is None else {name: columns[name] for name in streams}
    measure: Callable[[], Sizing] = partial(_size_chosen, chosen, starts, skipped)
    for column in chosen.values():
        measure = partial(read_offsets, column, measure)
    return measure()


def _size_chosen(
    chosen: dict[str, ColumnData],
    starts: NDArray[np.int64],
    skipped: NDArray[np.int64] | None,
) -> Sizing:
    ragged = {
        name: column.sample_offsets
        for name, column in chosen.items()
        if column.sample_offsets is not None
    }
    if not ragged:
        return Sizing.one_each(counts_between(starts))
    is_any_skipped = skipped is not None and len(skipped) > 0
    same = len(chosen) == 1 or _all_equal(list(ragged.values()), len(chosen))
    if same and not is_any_skipped:
        name, offsets = next(iter(ragged.items()))
        return _size_offsets(name, offsets, starts, chosen[name])
    sizes = np.max([np.diff(offsets) for offsets in ragged.values()], axis=0)
    if len(ragged) < len(chosen):
        sizes = np.maximum(sizes, 1)  # the other streams have one sample per sequence
    if skipped is not None:
        sizes[skipped] = 1
    _refuse_empty(" or ".join(map(repr, chosen)), int(sizes.min()), sizes)
    return Sizing.of(sizes, starts)


def _all_equal(offsets: list[NDArray[np.int64]], wanted: int) -> bool:
    return len(offsets) == wanted and all(
        other is offsets[0] or np.array_equal(other, offsets[0]) for other in offsets[1:]
    )


def _size_offsets(
    name: str, offsets: NDArray[np.int64], starts: NDArray[np.int64], column: ColumnData
) -> Sizing:
    if len(offsets) <= MANY_SEQUENCES and _core.index.is_any_empty(offsets):
        _refuse_empty(repr(name), 0, np.diff(offsets))
    common = _core.index.common_size(offsets)
    if common:
        samples = counts_between(starts)
        samples *= np.uint64(common)
        return Sizing(_core.index.CommonSize(common), samples)
    sizes: _core.index.Sizes
    if column.mapped_offsets is None:
        sizes = _core.index.OffsetSizes(offsets, name, column.offsets_file)
    else:
        sizes = _core.read.MappedSizes(column.mapped_offsets, name)
    return Sizing(sizes, sizes.sums(starts.view(np.uint64)))


def check_offsets(offsets: NDArray[np.int64], num_samples: int) -> None:
    """Refuse offsets that do not fit; of many only the ends, the rest on use.

    Raises
    ------
    ValueError
        If they do not begin at 0, descend, do not end at `num_samples`, or make a sequence of
        2^32 samples or more.
    """
    if len(offsets) > MANY_SEQUENCES:
        _core.index.check_ends(offsets, num_samples)
    else:
        _core.index.check_offsets(offsets, num_samples)


def _refuse_empty(stream: str, least: int, sizes: NDArray[np.int64]) -> None:
    if least == 0:
        raise ValueError(
            f"sequence {int(np.argmin(sizes))} has no sample in stream {stream}, which defines "
            "its size; remove it, or name another stream by defines_mb_size=True"
        )


def sum_chunks(sizes: NDArray[np.integer], starts: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return the samples of every chunk.

    Parameters
    ----------
    sizes : ndarray of int, shape (sequences,)
    starts : ndarray of int, shape (chunks + 1,)
        The first sequence of every chunk, and the end.
    """
    sums = np.zeros(len(starts) - 1, np.uint64)
    filled = np.flatnonzero(np.diff(starts))  # for an empty one reduceat gives the next item
    sums[filled] = np.add.reduceat(sizes, starts[filled], dtype=np.uint64)
    return sums


def chunk_starts(num_sequences: int, chunk_size: int) -> NDArray[np.int64]:
    """Return the first sequence of every chunk of `chunk_size` sequences, and the end."""
    if chunk_size >= num_sequences:
        return np.array([0, num_sequences] if num_sequences else [0], np.int64)
    starts: NDArray[np.int64] = np.arange(
        0, num_sequences + chunk_size, chunk_size, dtype=np.int64
    )
    starts[-1] = num_sequences
    return starts


def counts_between(starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the sequences of every chunk, by the first of each and the end."""
    return np.diff(starts).view(np.uint64)
