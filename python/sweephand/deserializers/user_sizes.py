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

    `ask` returns the lengths of sequences that the user's code has for chunks, one array each;
    `name` is that of the user's class, for errors.
    """

    def __init__(
        self,
        name: str,
        chunks: _core.index.Starts,
        samples: _core.index.GroupedCounts,
        ask: Callable[[NDArray[np.int64]], Sequence[NDArray[np.integer]]],
    ) -> None:
        self.chunks, self.samples = chunks, samples
        self._name, self._ask = name, ask
        self._seen = np.zeros(len(chunks), np.uint64)  # a key of the sizes that a chunk had

    def read(
        self, firsts: NDArray[np.uint64], counts: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return the sizes of runs of sequences, by asking for those of whole chunks.

        No run is empty, and there is one at least.
        """
        ends = firsts + counts
        chunks, take = self.chunks.find(firsts), self.chunks.take
        if (firsts == take(chunks)).all() and (ends == take(chunks + np.uint64(1))).all():
            asked = chunks.view(np.int64)
            return self.check(asked, self._ask(asked)).astype(np.uint32)
        runs = [self._run(*run) for run in zip(firsts.tolist(), ends.tolist(), strict=True)]
        return np.concatenate(runs).astype(np.uint32)

    def _run(self, first: int, end: int) -> NDArray[np.int64]:
        begin, last = self.chunks.find(np.array([first, end - 1], np.uint64)).tolist()
        chunks = np.arange(begin, last + 1)
        sizes = self.check(chunks, self._ask(chunks))
        skipped = first - self.chunks.take(np.array([begin], np.uint64)).item()
        return sizes[skipped : skipped + end - first]

    def check(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> NDArray[np.int64]:
        """Return the given sizes of chunks in order, once they are checked."""
        self._check_types(chunks, sizes_by_chunk)
        sizes = np.concatenate(sizes_by_chunk, dtype=np.int64, casting="unsafe")
        if sizes.size and (sizes.max() >= 2**32 or sizes.min() < 0):
            self._check_bounds(chunks, sizes_by_chunk)
        starts = offsets_of(np.fromiter(map(len, sizes_by_chunk), np.int64))
        self._check_sums(chunks, sizes, starts)
        keys = _core.index.fingerprint_runs(sizes, starts)
        seen = self._seen[chunks]
        self._seen[chunks] = keys
        # A chunk may come twice.
        changed = ((seen != 0) & (seen != keys)) | (self._seen[chunks] != keys)
        if changed.any():
            self._seen[chunks] = seen
            raise StaleError(
                "the lengths of the chunk's sequences are not those that it had before; "
                "it must be the same whenever asked for",
                self._name,
                chunk=int(chunks[np.argmax(changed)]),
            )
        return sizes

    def _check_types(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
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
                    chunk=int(chunk),
                )

    def _check_bounds(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> None:
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.itemsize >= 8 and part.size and part.max() >= 2**32:
                raise DataError(
                    f"sequence_lengths has {part.max()}; a sequence is below 2^32 samples",
                    self._name,
                    chunk=int(chunk),
                    sequence=int(part.argmax()),
                )

    def _check_sums(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> None:
        counts, samples = np.diff(starts), sum_chunks(sizes, starts).astype(np.int64)
        asked = chunks.astype(np.uint64)
        take = self.chunks.take
        said_counts = (take(asked + np.uint64(1)) - take(asked)).view(np.int64)
        said_samples = self.samples.take(asked).view(np.int64)
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
            chunk=int(chunks[at]),
        )
