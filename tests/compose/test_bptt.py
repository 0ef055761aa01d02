"""Rows of continued sequences, against a model that keeps queues as CNTK does."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_layouts as layouts
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.model_layouts import Piece
from tests.strategies import timelines

from sweephand import _core

NO_LIMIT = 2**64 - 1

Taken = tuple[int, list[list[Piece]], int]  # time, rows, sweeps ended


def planner(
    corpus: ModelCorpus, settings: ModelSettings, length: int, limit: int = NO_LIMIT
) -> _core.compose.Planner:
    return _core.compose.Planner(
        core_timeline(corpus, settings), _core.compose.Truncation(length), limit
    )


def rows_of(plan: _core.compose.Plan) -> list[list[Piece]]:
    """The rows of a share; checks that pieces stand side by side, a continued one first."""
    rows: list[list[Piece]] = [[] for _ in range(plan.num_rows)]
    cells = plan.cells().reshape(-1, 4).tolist()
    pieces = zip(plan.sequences().tolist(), plan.sizes().tolist(), cells, strict=True)
    for sequence, size, cell in pieces:
        row, column, first, whole = cell
        assert column == sum(piece.size for piece in rows[row])
        assert first == 0 or column == 0
        rows[row].append(Piece(sequence, first, size, first + size < whole))
    return rows


def core_minibatches(core: _core.compose.Planner, requests: list[int]) -> Iterator[Taken]:
    for request in requests:
        plan = core.next(core_request(request))
        if plan.end_of_data:
            return
        yield plan.nominal_time, rows_of(plan), plan.sweeps_ended


def model_minibatches(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    requests: list[int],
    limit: int | None = None,
) -> list[Taken]:
    found = layouts.bptt(corpus, settings, length, iter(requests), limit)
    return [(m.time, m.rows, m.sweeps_ended) for m in found]


lengths = st.integers(1, 12)
sizes = st.integers(1, 80)


@given(st.data())
def test_rows_are_those_of_the_model(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines())
    length = data.draw(lengths)
    requests = data.draw(st.lists(sizes, min_size=1, max_size=30))
    limit = data.draw(st.one_of(st.none(), st.integers(1, 3 * corpus.num_samples)))
    core = planner(corpus, settings, length, NO_LIMIT if limit is None else limit)
    expected = model_minibatches(corpus, settings, length, requests, limit)
    assert list(core_minibatches(core, requests)) == expected


@given(timelines(), lengths, sizes, st.data())
def test_with_one_size_nominal_time_alone_is_a_place(
    timeline: tuple[ModelCorpus, ModelSettings], length: int, size: int, data: st.DataObject
) -> None:
    corpus, settings = timeline
    expected = model_minibatches(corpus, settings, length, [size] * 30)
    time = data.draw(st.integers(0, expected[-1][0]))
    core = planner(corpus, settings, length)
    core.seek(time)
    rest = [minibatch for minibatch in expected if minibatch[0] >= time]
    assert list(core_minibatches(core, [size] * len(rest))) == rest


@given(timelines(), lengths, sizes, st.data())
def test_the_time_of_a_sequence_counts_row_after_row(
    timeline: tuple[ModelCorpus, ModelSettings], length: int, size: int, data: st.DataObject
) -> None:
    corpus, settings = timeline
    sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
    sweep = data.draw(st.sampled_from([0, 1, 10**6]))
    core = planner(corpus, settings, length)
    found = core.find(sequence, sweep, size)
    for minibatch in layouts.bptt(
        corpus, settings, length, itertools.repeat(size), first_sweep=sweep
    ):
        time = minibatch.time
        begins = {}
        for piece in itertools.chain(*minibatch.rows):
            if piece.first == 0:
                begins[piece.sequence] = time
            time += piece.size
        if sequence in begins:
            break
    assert found == begins[sequence]
    assert core.sequences_in(found, found + 1, size).tolist() == [sequence]


def test_the_number_of_rows_is_settled_where_a_part_begins() -> None:
    corpus, settings = ModelCorpus.of([[4] * 8]), ModelSettings(randomize=False)
    core = planner(corpus, settings, 2)
    rows = [len(rows) for _, rows, _ in core_minibatches(core, [8, 2, 2, 2, 2, 2])]
    assert rows == [4, 4, 4, 4, 1, 1]


def test_a_sweep_of_two_parts_is_covered_and_resumed() -> None:
    count = 2**21 + 5
    sizes = np.random.default_rng(0).integers(1, 4, count).astype(np.uint32)
    corpus = _core.index.Corpus(
        np.array([count], np.uint64),
        np.array([sizes.sum()], np.uint64),
        _core.index.StoredSizes(sizes),
    )
    timeline = _core.order.SweepTimeline(corpus, _core.order.OrderSettings(3, 48, 0, 0, True))
    core = _core.compose.Planner(timeline, _core.compose.Truncation(500), NO_LIMIT)
    request = core_request(500 * 256, 256, 0)  # one row is looked at
    plans = []
    while not plans or not plans[-1].sweeps_ended:
        plans.append(core.next(request))
    assert plans[-1].next.time == sizes.sum()
    assert sum(plan.num_samples for plan in plans) == sizes.sum()
    border = [plan.next.time for plan in plans if not plan.next.progress]
    assert len(border) == 2
    assert border[0] == pytest.approx(sizes.sum() / 2, abs=3)
    # Only where a part ends do rows end in gaps.
    gaps = [500 * 256 - plan.num_samples for plan in plans]
    assert sum(gap > 0 for gap in gaps) <= 4
    middle = plans[len(plans) * 3 // 4]
    again = _core.compose.Planner(timeline, _core.compose.Truncation(500), NO_LIMIT)
    again.resume(middle.next)
    assert rows_of(again.next(request)) == rows_of(plans[len(plans) * 3 // 4 + 1])


def test_progress_of_another_place_is_refused() -> None:
    core = planner(ModelCorpus.of([[3, 2, 4]]), ModelSettings(randomize=False), 2)
    for time, progress in [(3, [1]), (2, [0]), (2, [1, 1])]:
        with pytest.raises(ValueError, match="rows"):
            core.resume(_core.compose.Position(time, progress))
