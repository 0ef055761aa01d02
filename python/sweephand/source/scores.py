"""The scores of a corpus, made the order of a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import as_array
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import SequenceIds
from sweephand.errors import shown
from sweephand.source.by_score import ByScore
from sweephand.source.described import Described
from sweephand.source.options import SourceOptions

_MOST_SEQUENCES = 2**32 - 1

Values = NDArray[Any]


@dataclass(frozen=True)
class ScoredOrder:
    """An order by score of the sequences that are served."""

    core: _core.order.ScoreOrder  # the order in the core
    described: Described  # its description in a state


def scores_of(options: SourceOptions, corpus: Corpus, served: Corpus) -> ScoredOrder | None:
    """Return the order by score of the sequences served; None if there is none."""
    order = options.order
    if order is None:
        return None
    if not corpus.has_sweeps:
        raise ValueError("an order by score is for one corpus; a mixture has none")
    values = _values(order, corpus)
    limit = options.chosen_layout.length_limit
    if limit is not None and served.num_sequences != corpus.num_sequences:
        values = values[corpus.core.sizes(0, corpus.num_sequences) <= limit.longest]
    if len(values) > _MOST_SEQUENCES:
        raise ValueError(
            f"an order by score is for fewer than 2^32 sequences, there are {len(values)}"
        )
    odds = order.odds
    ranks = _ranks(order, values) if order.weights is None else _levels(order, values)
    core = _core.order.ScoreOrder(
        corpus=served.core,
        ranks=ranks,
        noises=order.noises,
        odds=odds.ravel(),
        until_sweep=2**64 - 1 if order.until_sweep is None else order.until_sweep,
        over_sweep=order.over == "sweep",
    )
    digest = _core.base.Digest()
    digest.update(f"{order.over} {order.noises} {order.until_sweep}".encode())
    for part in (odds, ranks):
        digest.update(np.ascontiguousarray(part, "<u4").tobytes())
    return ScoredOrder(core, Described.by_digest(order.describe(), digest.hex()))


def _values(order: ByScore, corpus: Corpus) -> Values:
    """Return the score of every sequence; ValueError if a score is missing."""
    scores: Any = order.scores
    if isinstance(scores, str) and scores == "length":
        return corpus.core.sizes(0, corpus.num_sequences)
    if isinstance(scores, str | PathLike):
        scores = np.load(Path(scores), allow_pickle=False)
    if isinstance(scores, Mapping):
        return _by_id(scores.keys(), list(scores.values()), order, corpus)
    columns = getattr(scores, "column_names", getattr(scores, "columns", None))
    if columns is not None:
        if not {"id", "score"} <= set(columns):
            raise ValueError(
                "a table of scores must have the columns 'id' and 'score', got "
                f"{', '.join(map(str, columns))}"
            )
        return _by_id(np.asarray(scores["id"]).tolist(), scores["score"], order, corpus)
    values = _as_numbers(scores)
    if len(values) != corpus.num_sequences:
        raise ValueError(f"there are {len(values)} scores for {corpus.num_sequences} sequences")
    return _without_nan(values, np.arange(len(values)), corpus.ids)


def _as_numbers(scores: object) -> Values:
    try:
        values = as_array("scores", scores)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}; give a number for each sequence") from None
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise ValueError(
            "scores must be a number for each sequence: an array of one dimension, a .npy "
            f"file, or by id {{'a.npy__0': 0.5, ...}}; got {shown(scores)} of {values.dtype}"
        )
    return values


def _by_id(ids: Iterable[object], given: object, order: ByScore, corpus: Corpus) -> Values:
    """Return the score of every sequence, by those of ids."""
    scores = _as_numbers(given)
    numbers = np.array([_number_of(str(one), corpus.ids) for one in ids], np.int64)
    has_score = np.bincount(numbers, minlength=corpus.num_sequences)
    if len(twice := np.flatnonzero(has_score > 1)):
        raise ValueError(f"{_name(twice[0], corpus.ids)!r} has more than one score")
    if order.default is None and len(without := np.flatnonzero(has_score == 0)):
        raise ValueError(
            f"{_name(without[0], corpus.ids)!r} and {len(without) - 1} other sequences have no "
            "score; default=... gives them one"
        )
    dtype = scores.dtype if order.default is None else np.result_type(scores, np.float64)
    values: Values = np.full(corpus.num_sequences, order.default or 0, dtype)
    values[numbers] = _without_nan(scores, numbers, corpus.ids)
    return values


def _number_of(name: str, ids: SequenceIds) -> int:
    try:
        return ids.number(name)
    except KeyError:
        raise ValueError(f"there is a score of {name!r}, and no sequence of that id") from None


def _without_nan(values: Values, numbers: NDArray[np.int64], ids: SequenceIds) -> Values:
    """Return the scores of sequences with these numbers; ValueError if a score is NaN."""
    if len(found := np.flatnonzero(np.isnan(values))):
        raise ValueError(f"the score of {_name(numbers[found[0]], ids)!r} is nan")
    return values


def _name(number: int, ids: SequenceIds) -> str:
    return ids.names(np.array([number], np.uint64))[0]


def _levels(order: ByScore, values: Values) -> NDArray[np.uint32]:
    return np.searchsorted(order.edges, values, side="left").astype(np.uint32)


def _ranks(order: ByScore, values: Values) -> NDArray[np.uint32]:
    """Return, of each sequence, the number of those with a score that comes before."""
    count = len(values)
    by_score = np.argsort(values, kind="stable")
    ascending = values[by_score]
    borders = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    begins, ends = np.append(0, borders), np.append(borders, count)
    before = count - ends if order.descending else begins
    ranks = np.empty(count, np.uint32)
    ranks[by_score] = np.repeat(before.astype(np.uint32), ends - begins)
    return ranks
