"""Packed rows on the timeline, against the model: laws 1 to 7 of the layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model_layouts as layouts
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.model_layouts import Piece, Row
from tests.strategies import timelines

from sweephand import _core

NO_LIMIT = 2**64 - 1
TO_SWEEP_END = 2**64 - 1
FAR = 10**6  # a sweep


def planner(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    look_ahead: int = 64,
    limit: int = NO_LIMIT,
) -> _core.compose.Planner:
    packing = _core.compose.Packing(length, look_ahead, True, 0)
    return _core.compose.Planner(core_timeline(corpus, settings), packing, limit)


def rows_of(plan: _core.compose.Plan) -> list[tuple[Piece, ...]]:
    """The rows of a share; checks that members stand one after the other."""
    rows: list[list[Piece]] = [[] for _ in range(plan.num_rows)]
    cells = plan.cells().reshape(-1, 4).tolist()
    pieces = zip(plan.sequences().tolist(), plan.sizes().tolist(), cells, strict=True)
    for sequence, size, cell in pieces:
        row, column, first, whole = cell
        assert column == sum(piece.size for piece in rows[row])
        rows[row].append(Piece(sequence, first, size, first + size < whole))
    return [tuple(row) for row in rows]


def next_rows(core: _core.compose.Planner, size: int) -> list[tuple[Piece, ...]]:
    return rows_of(core.next(core_request(size)))


def model_rows(corpus: ModelCorpus, settings: ModelSettings, length: int) -> list[Row]:
    """Two sweeps."""
    return [
        row
        for sweep in (0, 1)
        for row in layouts.packed_sweep(corpus, settings, length, 64, sweep)
    ]


lengths = st.integers(1, 40)


@given(timelines(), lengths, st.integers(1, 9), st.sampled_from([0, 1, FAR]))
def test_the_rows_of_a_sweep_are_those_of_the_model(
    timeline: tuple[ModelCorpus, ModelSettings],
    length: int,
    look_ahead: int,
    sweep: int,
) -> None:
    corpus, settings = timeline
    core = planner(corpus, settings, length, look_ahead)
    core.seek(sweep * corpus.num_samples)
    plan = core.next(core_request(TO_SWEEP_END))
    expected = layouts.packed_sweep(corpus, settings, length, look_ahead, sweep)
    assert rows_of(plan) == [row.pieces for row in expected]
    assert plan.sweeps_ended == 1
    assert core.time == (sweep + 1) * corpus.num_samples


@given(st.data())
def test_rows_at_or_after_the_limit_are_left_out(data: st.DataObject) -> None:
    corpus, settings = data.draw(timelines())
    length = data.draw(lengths)
    limit = data.draw(st.integers(1, 2 * corpus.num_samples))
    expected = [row for row in model_rows(corpus, settings, length) if row.time < limit]
    core = planner(corpus, settings, length, limit=limit)
    size = data.draw(st.integers(1, 5 * length))
    rows = []
    while not (plan := core.next(core_request(size))).end_of_data:
        rows += rows_of(plan)
    assert rows == [row.pieces for row in expected]
    again = core.next(core_request(size))
    assert again.end_of_data
    assert again.num_rows == 0


def test_a_kept_order_is_cut_into_packs_that_the_model_knows() -> None:
    sizes = np.random.default_rng(3).integers(1, 4, 40_000).tolist()
    corpus = ModelCorpus.of([sizes[i : i + 999] for i in range(0, 40_000, 999)])
    settings = ModelSettings(7, 32, 0, randomize=False)
    assert len(list(layouts.pack_ranges(corpus, 3))) == 2
    check_places(planner(corpus, settings, 3), layouts.packed_sweep(corpus, settings, 3, 64, 0))


@pytest.mark.parametrize(
    ("window_chunks", "num_packs"), [(None, 13), (80, 13), (2, 40), (1, 52)]
)
def test_sweeps_are_cut_into_packs_that_the_model_knows(
    window_chunks: int | None, num_packs: int
) -> None:
    sizes = np.random.default_rng(3).integers(1, 4, 40_000).tolist()
    corpus = ModelCorpus.of([sizes[i : i + 500] for i in range(0, 40_000, 500)])
    settings = ModelSettings(7, 1, window_chunks)
    assert layouts.pack_parts(corpus, settings, 3) == num_packs
    core = planner(corpus, settings, 3)
    check_places(core, layouts.packed_sweep(corpus, settings, 3, 64, 0))


def check_places(core: _core.compose.Planner, rows: list[Row]) -> None:
    assert next_rows(core, TO_SWEEP_END) == [row.pieces for row in rows]
    for row in rows[:: len(rows) // 50]:
        core.seek(row.time)
        assert core.time == row.time
        assert next_rows(core, 3) == [row.pieces]


@pytest.mark.parametrize(("num_lanes", "fill"), [(1, 0.9997), (48, 0.9997), (999, 0.9997)])
def test_many_lanes_fill_rows_as_well_as_one(num_lanes: int, fill: float) -> None:
    sizes = np.random.default_rng(0).lognormal(np.log(180), 1, 200_000)
    sizes = np.clip(np.rint(sizes), 1, 2048).astype(np.uint32)
    corpus = _core.index.Corpus(
        np.array([200_000], np.uint64),
        np.array([sizes.sum()], np.uint64),
        _core.index.StoredSizes(sizes),
    )
    timeline = _core.order.SweepTimeline(
        corpus, _core.order.OrderSettings(0, num_lanes, 0, 0, True)
    )
    core = _core.compose.Planner(timeline, _core.compose.Packing(2048, 64, False, 0), NO_LIMIT)
    rows, sequences, counts = 0, 0, []
    while not (plan := core.next(core_request(2048 * 256, 256, 0))).sweeps_ended:
        rows += plan.global_rows
        sequences += plan.num_sequences
        counts.append(plan.num_sequences / plan.global_rows)
    assert sizes.sum() / (rows * 2048) > fill - 256 / rows
    tenth = np.mean(counts[: len(counts) // 10])
    assert 0.95 < tenth / np.mean(counts) < 1.05
