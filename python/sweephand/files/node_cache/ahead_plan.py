"""Chunks to be fetched before they are needed, and the entries that may make room for them.

    now        asked for     fetched ahead, soonest first         end of the sweep
    |------------|--------------------------------------------------|-------| limit
                 already, by                                        kept    spare
                 whoever reads

Chunks that are needed soonest after the end of the sweep are kept until then, as far as there
is room. Entries that are needed later leave before their next use: their room is spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.files.node_cache.next_uses import Uses

_NEVER = 2**64 - 1  # the next time of entries that are not needed again


@dataclass(frozen=True)
class AheadPlan:
    """Chunks that a node may fetch ahead in a sweep.

    Attributes
    ----------
    chunks, times : ndarray of uint64, shape (n,)
        Chunks that are not held, soonest first, and when they are needed.
    limit : int
        What is needed after this time leaves before its use anyway.
    now, end : int
        When the plan was made, and when the sweep ends.
    """

    chunks: NDArray[np.uint64]
    times: NDArray[np.uint64]
    limit: int
    now: int
    end: int


def plan_ahead(
    uses: Uses,
    now: int,
    readers: Sequence[tuple[int, int]],
    own: NDArray[np.bool_],
    held: NDArray[np.bool_],
    room_samples: float,
) -> AheadPlan:
    """Return the plan of the chunks that may be fetched ahead.

    Parameters
    ----------
    now : int
        Nominal time.
    readers : sequence of (int, int)
        Who needs the chunks; see `Uses.next`.
    own, held : ndarray of bool, shape (chunks,)
        The chunks that this node is to hold, and those that it holds.
    room_samples : float
        Samples of chunks for which it has room.
    """
    end = (now // uses.sweep + 1) * uses.sweep
    chunks = np.flatnonzero(own).astype(np.uint64)
    times = uses.next(chunks, now, readers, skips_one=False)
    is_due = times < end
    stay = chunks[is_due | held[chunks]]
    after = uses.next(stay, end, readers, skips_one=False)
    order = np.argsort(after, kind="stable")
    filled = np.cumsum(uses.chunk_samples[stay[order]])
    count = int(np.searchsorted(filled, room_samples, side="right"))
    limit = min(int(after[order[count - 1]]), _NEVER - 1) if count else end
    lacks = is_due & ~held[chunks]
    found, due = chunks[lacks], times[lacks]
    soonest = np.argsort(due, kind="stable")
    return AheadPlan(found[soonest], due[soonest], limit, now, end)
