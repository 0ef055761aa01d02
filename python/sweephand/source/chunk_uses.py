"""The future of the chunks of a source, as a cache asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunk_cache import UNKNOWN_CHUNK
from sweephand.source.plan import Plan


class ChunkUses:
    """Times at which the readers of lanes read the chunks of a corpus.

    Attributes
    ----------
    corpus, timeline : int
        Digests of what numbers the chunks, and of what says when they come.
    sweep : int
        Samples of a sweep.
    """

    def __init__(self, plan: Plan) -> None:
        corpus, options = plan.corpus, plan.options
        self.sweep = corpus.core.num_samples
        counts = corpus.chunk_sequences
        self.corpus = _digest(repr(list(corpus.names)).encode(), counts.tobytes())
        window, scores = plan.opened.window, plan.opened.scores
        order = options.randomization_seed, options.randomize, options.lanes, str(window)
        weights = "" if corpus.has_sweeps else plan.events.fingerprint  # which change them
        by_score = scores.described if scores else ""
        self.timeline = _digest(
            repr((self.corpus, order)).encode(), (by_score + weights).encode()
        )
        self._is_known = _is_known(plan)
        self._uses = _core.order.ChunkUses(plan.order, plan.end, plan.shares_by_lanes)
        self._limit = plan.limit

    def next(
        self,
        chunks: NDArray[np.uint64],
        time: int,
        readers: Sequence[tuple[int, int]],
        *,
        skips_one: bool,
    ) -> NDArray[np.uint64]:
        """Return when each chunk is read next; see `next` of ``_core.order.ChunkUses``."""
        later = time + self.sweep if time + self.sweep < self._limit else UNKNOWN_CHUNK
        times = np.full(len(chunks), later, np.uint64)
        known = chunks != UNKNOWN_CHUNK
        known[known] = self._is_known[chunks[known]]
        if known.any():
            lanes = [_core.order.LaneReader(*reader) for reader in readers]
            times[known] = self._uses.next(chunks[known], time, lanes, skips_one)
        return times


def _is_known(plan: Plan) -> NDArray[np.bool_]:
    """Return of each chunk True if its times are known.

    Where all chunks of a part are open all the time, or come in an order of their own, there is
    no more to be known than that a sweep is between.
    """
    parts = plan.corpus.parts.values()
    opened = plan.order.own_block_chunks
    if not plan.options.randomize:
        opened = [part.open_chunks for part in parts]
    counts = [len(part.chunk_starts) for part in parts]
    is_known = [
        part.order is None and num_open < count
        for part, num_open, count in zip(parts, opened, counts, strict=True)
    ]
    return np.repeat(is_known, counts)


def _digest(*parts: bytes) -> int:
    digest = _core.base.Digest()
    for part in parts:
        digest.update(part)
    return int(digest.hex()[:16], 16)
