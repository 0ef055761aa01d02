"""The lengths of sequences that a user's code returns, checked against earlier calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.sizes import sum_chunks
from sweephand.errors import DataError, StaleError


class UserSizes:
    """Sequences and samples of every chunk, and the lengths of sequences on request.

    Parameters
    ----------
    name : str
        Of the user's class, for errors.
    counts, samples : ndarray of int64, shape (chunks,)
    ask : callable
        Returns the lengths of sequences that the user's code has for chunks: one array each.
    """

    def __init__(
        self,
        name: str,
        counts: NDArray[np.int64],
        samples: NDArray[np.int64],
        ask: Callable[[range], list[NDArray[np.integer]]],
    ) -> None:
        self.counts, self.samples = counts, samples
        self._starts = offsets_of(counts)
        self._name, self._ask = name, ask
        self._seen = np.zeros(len(counts), np.uint64)  # a key of the sizes that a chunk had

    def read(self, first: int, count: int) -> NDArray[np.uint32]:
        """Return the sizes of a run of sequences, by asking for those of whole chunks."""
        if count == 0:
            return np.empty(0, np.uint32)
        begin, last = np.searchsorted(self._starts, [first, first + count - 1], "right") - 1
        chunks = range(int(begin), int(last) + 1)
        sizes = self.check(chunks, self._ask(chunks))
        skipped = first - int(self._starts[begin])
        return sizes[skipped : skipped + count].astype(np.uint32)

    def check(
        self, chunks: range, sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> NDArray[np.int64]:
        """Return the given sizes of chunks in order, once they are checked.

        Raises
        ------
        DataError
            If it is not integers.
        StaleError
            If it differs from an earlier call.
        """
        self._check_types(chunks, sizes_by_chunk)
        self._check_bounds(chunks, sizes_by_chunk)
        sizes = np.concatenate(sizes_by_chunk, dtype=np.int64, casting="unsafe")
        starts = offsets_of(np.fromiter(map(len, sizes_by_chunk), np.int64))
        self._check_sums(chunks, sizes, starts)
        seen = self._seen[chunks.start : chunks.stop]
        keys = _core.index.fingerprint_runs(sizes, starts)
        changed = (seen != 0) & (seen != keys)
        if changed.any():
            raise StaleError(
                "the lengths of the chunk's sequences are not those that it had before; "
                "it must be the same whenever asked for",
                self._name,
                chunk=chunks[int(np.argmax(changed))],
            )
        seen[:] = keys
        return sizes

    def _check_types(
        self, chunks: range, sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> None:
        kinds = {dtype.kind for dtype in {part.dtype for part in sizes_by_chunk}}
        if kinds <= {"i", "u"} and {part.ndim for part in sizes_by_chunk} == {1}:
            return
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.ndim != 1 or part.dtype.kind not in "iu":
                raise DataError(
                    f"sequence_lengths must be one row of integers, got {part.dtype} of shape "
                    f"{part.shape}",
                    self._name,
                    chunk=chunk,
                )

    def _check_bounds(
        self, chunks: range, sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> None:
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.itemsize >= 8 and part.size and part.max() >= 2**32:
                raise DataError(
                    f"sequence_lengths has {part.max()}; a sequence is below 2^32 samples",
                    self._name,
                    chunk=chunk,
                    sequence=int(part.argmax()),
                )

    def _check_sums(
        self, chunks: range, sizes: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> None:
        counts, samples = np.diff(starts), sum_chunks(sizes, starts).astype(np.int64)
        said_counts = self.counts[chunks.start : chunks.stop]
        said_samples = self.samples[chunks.start : chunks.stop]
        wrong = (counts != said_counts) | (samples != said_samples)
        empty = np.flatnonzero(sizes < 1)
        wrong[np.searchsorted(starts, empty, "right") - 1] = True
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        raise StaleError(
            f"the chunk was said to have {said_counts[at]} sequences of {said_samples[at]} "
            f"samples, now it has {counts[at]} of {samples[at]}; it must be the same whenever "
            "asked for",
            self._name,
            chunk=chunks[at],
        )
