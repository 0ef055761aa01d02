"""Sequences by their ids, or by a part of them."""

from __future__ import annotations

import time as clock

import numpy as np

from sweephand.ext.view.question import Question
from sweephand.extend import Cursor, Position

_FOUND = 20
_ROUND = 1 << 16  # ids that are made at once
_SECONDS = 1.0
_WORKERS = 256


def ids_like(cursor: Cursor, part: str) -> tuple[list[str], int]:
    """Return the first ids that have a part in them, and how many ids were looked at."""
    corpus = cursor.plan.corpus
    count = corpus.num_sequences
    until = clock.monotonic() + _SECONDS
    found: list[str] = []
    looked_at = 0
    while looked_at < count and len(found) < _FOUND and clock.monotonic() < until:
        end = min(looked_at + _ROUND, count)
        names = corpus.ids.names(np.arange(looked_at, end, dtype=np.uint64))
        found += [name for name in names if part in name]
        looked_at = end
    return found[:_FOUND], looked_at


def place_in_shares(
    cursor: Cursor, begin: Position, question: Question, name: str
) -> tuple[int, int | None]:
    """Return the worker that gets a sequence of a minibatch, and its place there.

    Without one, as events leave it out or there are too many workers to ask, it is the worker
    of the question, and None.
    """
    if question.workers > _WORKERS:
        return question.rank, None
    number = cursor.plan.corpus.ids.number(name)
    for rank in range(question.workers):
        share = next(cursor.plan.minibatches(begin, question.size, question.workers, rank))
        found = np.flatnonzero(share.sequences == number)
        if found.size:
            return rank, int(found[0])
    return question.rank, None
