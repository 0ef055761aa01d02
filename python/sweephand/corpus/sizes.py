"""The sizes of all sequences of a corpus, in samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData, read_offsets

MANY_SEQUENCES = 1_000_000
"""From so many on, lengths are looked at where they are used, not all before."""


@dataclass(frozen=True)
class Sizing:
    """The sizes of all sequences, and the samples in every chunk."""

    sizes: _core.index.Sizes  # one per sequence, in samples
    samples: _core.index.Starts  # the samples of every chunk, which the planner looks up, too
    # Every size is known without loading chunks, so that all of them identify the corpus.
    fingerprinted: bool = True

    @property
    def chunk_samples(self) -> NDArray[np.uint64]:
        """Samples of every chunk: shape (chunks,), made when asked for."""
        return self.samples.counts()

    @classmethod
    def of(cls, sizes: NDArray[np.integer], chunks: _core.index.Starts) -> Self:
        """Return sizes that are all known, one per sequence."""
        if sizes.min() == sizes.max():
            return cls.by(_core.index.CommonSize(int(sizes[0])), chunks)
        return cls.by(_core.index.StoredSizes(sizes.astype(np.uint32, copy=False)), chunks)

    @classmethod
    def one_each(cls, chunks: _core.index.Starts) -> Self:
        """Return the sizes of sequences of one sample, in chunks."""
        return cls.by(_core.index.CommonSize(1), chunks)

    @classmethod
    def by(cls, sizes: _core.index.Sizes, chunks: _core.index.Starts) -> Self:
        """Return the sizes and their sums in chunks."""
        return cls(sizes, sizes.sums(chunks))


def size_columns(
    columns: dict[str, ColumnData],
    chunks: _core.index.Starts,
    streams: Sequence[str] | None = None,
    *,
    skipped: NDArray[np.int64] | None = None,
) -> Sizing:
    """Return the sizes of sequences whose columns are all here."""
    chosen = columns if streams is None else {name: columns[name] for name in streams}
    measure: Callable[[], Sizing] = partial(_size_chosen, chosen, chunks, skipped)
    for column in chosen.values():
        measure = partial(read_offsets, column, measure)
    return measure()


def _size_chosen(
    chosen: dict[str, ColumnData],
    chunks: _core.index.Starts,
    skipped: NDArray[np.int64] | None,
) -> Sizing:
    ragged = {
        name: column.sample_offsets
        for name, column in chosen.items()
        if column.sample_offsets is not None
    }
    if not ragged:
        return Sizing.one_each(chunks)
    is_any_skipped = skipped is not None and len(skipped) > 0
    first, *others = ragged.values()
    same = len(ragged) == len(chosen) and all(
        one is first or np.array_equal(one, first) for one in others
    )
    if same and not is_any_skipped:
        name, offsets = next(iter(ragged.items()))
        return _size_offsets(name, offsets, chunks, chosen[name])
    sizes = np.max([np.diff(offsets) for offsets in ragged.values()], axis=0)
    if len(ragged) < len(chosen):
        sizes = np.maximum(sizes, 1)  # the other streams have one sample per sequence
    if skipped is not None:
        sizes[skipped] = 1
    _refuse_empty(" or ".join(map(repr, chosen)), int(sizes.min()), sizes)
    return Sizing.of(sizes, chunks)


def _size_offsets(
    name: str, offsets: NDArray[np.int64], chunks: _core.index.Starts, column: ColumnData
) -> Sizing:
    if len(offsets) <= MANY_SEQUENCES and _core.index.is_any_empty(offsets):
        _refuse_empty(repr(name), 0, np.diff(offsets))
    common = _core.index.common_size(offsets)
    if common:
        return Sizing.by(_core.index.CommonSize(common), chunks)
    sizes: _core.index.Sizes
    if column.mapped_offsets is None:
        sizes = _core.index.OffsetSizes(offsets, name, column.offsets_file)
    else:
        sizes = _core.read.MappedSizes(column.mapped_offsets, name)
    return Sizing.by(sizes, chunks)


def check_offsets(offsets: NDArray[np.int64], num_samples: int) -> None:
    """Refuse offsets that do not fit `num_samples`; of many only the ends, the rest on use.

    ValueError if they do not begin at 0, descend, or make a sequence of 2^32 samples or more.
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


def chunks_between(starts: NDArray[np.integer]) -> _core.index.Starts:
    """Return the chunks, by the first sequence of each and the end."""
    return _core.index.Starts(np.diff(starts).astype(np.uint64, copy=False))
