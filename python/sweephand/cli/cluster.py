"""Demands of a cluster on storage and memory: arithmetic over lanes and chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

_DAY = 86_400
# Memory of a planner, as measured.
_TABLE_BYTES = 24  # of a chunk
_LANE_BYTES = 4096
_OPEN_BYTES = 16  # of a sequence whose block is open


@dataclass(frozen=True)
class Cluster:
    """Cluster that trains, and the storage that it reads from.

    Attributes
    ----------
    workers, lanes : int
        Those with data of their own, and the parts that a sweep is read in.
    size : int
        Samples of a minibatch, over all workers.
    block_chunks : int
        Chunks that are open at a time in every lane.
    sample_bytes : float
    samples_per_second : float
        Of every worker.
    request_bytes : int
        That are fetched at once.
    requests_per_second : float
        That the store answers, over all workers.
    """

    workers: int
    lanes: int
    size: int
    block_chunks: int
    sample_bytes: float
    samples_per_second: float
    request_bytes: int
    requests_per_second: float

    def reads(self, chunk_samples: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
        """Return how many chunks each worker opens in a sweep: int64, shape (workers,).

        Exact, but for lanes whose last sequence begins in the chunk before.
        """
        step, num_chunks = self.block_chunks, len(chunk_samples)
        key = _core.base.derive_key([1, seed, 1, 0])
        order = _core.order.Permutation(num_chunks, key).take(0, num_chunks)
        ends = chunk_samples[order].cumsum()
        in_blocks = np.append(np.arange(0, num_chunks, step), num_chunks)
        total = int(ends[-1])
        cuts = [lane * total // self.lanes for lane in range(self.lanes + 1)]
        begins = np.array(cuts[:-1], np.uint64)
        lasts = np.maximum(begins, np.array(cuts[1:], np.uint64) - np.uint64(1))
        first = np.searchsorted(ends, begins, side="right") // step
        last = np.searchsorted(ends, lasts, side="right") // step
        opened = in_blocks[last + 1] - in_blocks[first]
        reads = np.bincount(np.arange(self.lanes) % self.workers, opened, self.workers)
        return reads.astype(np.int64)

    def steady(self, chunk_bytes: float) -> dict[str, float]:
        """Return the reads in a second, by all workers."""
        rate = self.workers * self.samples_per_second * self.sample_bytes
        requests = rate / min(self.request_bytes, chunk_bytes)
        return {
            "bytes_per_second": rate,
            "chunks_per_second": rate / chunk_bytes,
            "requests_per_second": requests,
            "share_of_requests": requests / self.requests_per_second,
        }

    def start(self, chunk_bytes: float) -> dict[str, float]:
        """Return the reads before the first step: a chunk, and the window, in every lane."""
        per_chunk = max(1, -(-chunk_bytes // self.request_bytes))
        first = self.lanes * per_chunk
        window = first * self.block_chunks
        return {
            "first_requests": first,
            "first_seconds": first / self.requests_per_second,
            "window_requests": window,
            "window_seconds": window / self.requests_per_second,
        }

    def memory(
        self, num_chunks: int, chunk_bytes: float, chunk_sequences: int
    ) -> dict[str, float]:
        """Return the most memory of a worker, in bytes: to plan, and for the data."""
        of_fullest = -(-self.lanes // self.workers)
        is_open = self.lanes * self.block_chunks * chunk_sequences
        return {
            "planner_bytes": _TABLE_BYTES * num_chunks
            + _LANE_BYTES * self.lanes
            + _OPEN_BYTES * is_open,
            "window_bytes": 2 * of_fullest * self.block_chunks * chunk_bytes,
        }

    def resharing(self, workers: int) -> dict[str, float]:
        """Return the cost of going on with another number of workers, at most `lanes`."""
        lanes = np.arange(self.lanes)
        fullest = -(-self.lanes // workers)
        moved = int(np.count_nonzero(lanes % workers != lanes % self.workers))
        return {
            "workers": workers,
            "excess_of_fullest": fullest * workers / self.lanes - 1,
            "lanes_that_move": moved / self.lanes,
            "chunks_opened": moved * self.block_chunks / workers,
        }

    @staticmethod
    def lost(failures_per_day: float, seconds: float) -> float:
        """Return the share of the time that failures cost; at most 1."""
        return min(1.0, failures_per_day * seconds / _DAY)
