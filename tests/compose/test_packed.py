"""Packed rows on the timeline, against the model: laws 1 to 7 of the layout."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import model
from tests import model_layouts as layouts
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings
from tests.model_layouts import Piece, Row
from tests.strategies import any_timelines

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
    *,
    apart: bool = False,
) -> _core.compose.Planner:
    packing = _core.compose.Packing(length, look_ahead, True, apart, 0)
    return _core.compose.Planner(core_timeline(corpus, settings), packing, limit)


def rows_of(plan: _core.compose.Plan) -> list[tuple[Piece, ...]]:
    """The rows of a share; checks that members stand one behind the other."""
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


def model_rows(
    corpus: ModelCorpus, settings: ModelSettings, length: int, *, apart: bool = False
) -> list[Row]:
    """Two sweeps."""
    return [
        row
        for sweep in (0, 1)
        for row in layouts.packed_sweep(corpus, settings, length, 64, sweep, apart=apart)
    ]


lengths = st.integers(1, 40)


@given(any_timelines(), lengths, st.integers(1, 9), st.sampled_from([0, 1, FAR]), st.booleans())
def test_the_rows_of_a_sweep_are_those_of_the_model(
    timeline: tuple[ModelCorpus, ModelSettings],
    length: int,
    look_ahead: int,
    sweep: int,
    apart: bool,
) -> None:
    corpus, settings = timeline
    core = planner(corpus, settings, length, look_ahead, apart=apart)
    core.seek(sweep * corpus.num_samples)
    plan = core.next(core_request(TO_SWEEP_END))
    expected = layouts.packed_sweep(corpus, settings, length, look_ahead, sweep, apart=apart)
    assert rows_of(plan) == [row.pieces for row in expected]
    assert plan.sweeps_ended == 1
    assert core.time == (sweep + 1) * corpus.num_samples


@given(any_timelines(), lengths, st.booleans())
def test_every_sample_is_in_one_row_and_no_row_overflows(
    timeline: tuple[ModelCorpus, ModelSettings], length: int, apart: bool
) -> None:
    corpus, settings = timeline
    core = planner(corpus, settings, length, apart=apart)
    rows = next_rows(core, TO_SWEEP_END)
    assert all(0 < sum(piece.size for piece in row) <= length for row in rows)
    samples = [
        (piece.sequence, piece.first + i)
        for row in rows
        for piece in row
        for i in range(piece.size)
    ]
    assert sorted(samples) == [
        (sequence, i) for sequence, size in enumerate(corpus.sizes) for i in range(size)
    ]


@given(any_timelines(), lengths)
def test_the_sequences_of_a_row_are_of_one_lane_where_lanes_are_apart(
    timeline: tuple[ModelCorpus, ModelSettings], length: int
) -> None:
    corpus, settings = timeline
    lanes = {
        (entry.sweep, entry.sequence): entry.lane
        for sweep in (0, 1)
        for entry in model.sweep_entries(corpus, settings, sweep)
    }
    core = planner(corpus, settings, length, apart=True)
    for sweep in (0, 1):
        for row in next_rows(core, TO_SWEEP_END):
            assert len({lanes[sweep, piece.sequence] for piece in row}) == 1


@given(st.data())
def test_minibatches_of_any_sizes_and_workers_hold_the_same_rows(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    expected = model_rows(corpus, settings, length, apart=apart)
    core = planner(corpus, settings, length, apart=apart)
    position = 0
    while position < len(expected):
        size = data.draw(st.integers(1, 9 * length))
        workers = data.draw(st.integers(1, 5))
        time = core.time
        assert time == expected[position].time
        shares = []
        for rank in range(workers):
            core.seek(time)
            plan = core.next(core_request(size, workers, rank))
            shares.append(rows_of(plan))
            assert plan.nominal_time == time
            assert plan.row_length == length
            assert plan.global_rows == max(1, size // length)
        assert len({len(share) for share in shares}) == 1, "equal shapes for all workers"
        rows = [row for share in itertools.zip_longest(*shares) for row in share]
        assert all(row == () for row in rows[plan.global_rows :])
        for row, wanted in zip(rows[: plan.global_rows], expected[position:], strict=False):
            assert row == wanted.pieces
        position += plan.global_rows


@given(st.data())
def test_a_place_is_found_from_nominal_time_alone(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    rows = model_rows(corpus, settings, length, apart=apart)
    time = data.draw(st.integers(0, 2 * corpus.num_samples - 1))
    core = planner(corpus, settings, length, apart=apart)
    core.seek(time)
    wanted = next((row for row in rows if row.time >= time), None)
    if wanted is None:
        assert core.time == 2 * corpus.num_samples
    else:
        assert core.time == wanted.time
        assert next_rows(core, 1) == [wanted.pieces]


@given(st.data())
def test_resuming_at_any_row_gives_the_same_rows(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    first = planner(corpus, settings, length, apart=apart)
    plans = [first.next(core_request(1)) for _ in range(30)]
    cut = data.draw(st.integers(0, 28))
    second = planner(corpus, settings, length, apart=apart)
    second.resume(plans[cut].next)
    for plan in plans[cut + 1 :]:
        again = second.next(core_request(1))
        assert rows_of(again) == rows_of(plan)
        assert again.nominal_time == plan.nominal_time


@given(st.data())
def test_the_time_of_a_sequence_is_its_rows_time_and_column(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    sweep = data.draw(st.sampled_from([0, 1, FAR]))
    sequence = data.draw(st.integers(0, corpus.num_sequences - 1))
    begins = {
        piece.sequence: row.time + sum(other.size for other in row.pieces[:column])
        for row in layouts.packed_sweep(corpus, settings, length, 64, sweep, apart=apart)
        for column, piece in enumerate(row.pieces)
        if piece.first == 0
    }
    core = planner(corpus, settings, length, apart=apart)
    time = core.find(sequence, sweep, 1)
    assert time == begins[sequence]
    assert core.sequences_in(time, time + 1, 1).tolist() == [sequence]


@given(st.data())
def test_what_begins_between_two_times_is_listed_in_order(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    start = data.draw(st.integers(0, corpus.num_samples))
    stop = start + data.draw(st.integers(0, corpus.num_samples))
    begins = [
        (row.time + sum(other.size for other in row.pieces[:column]), piece.sequence)
        for row in model_rows(corpus, settings, length, apart=apart)
        for column, piece in enumerate(row.pieces)
        if piece.first == 0
    ]
    found = planner(corpus, settings, length, apart=apart).sequences_in(start, stop, 1)
    assert found.tolist() == [sequence for time, sequence in begins if start <= time < stop]


@given(st.data())
def test_rows_at_or_after_the_limit_are_left_out(data: st.DataObject) -> None:
    corpus, settings = data.draw(any_timelines())
    length, apart = data.draw(lengths), data.draw(st.booleans())
    limit = data.draw(st.integers(1, 2 * corpus.num_samples))
    expected = [
        row for row in model_rows(corpus, settings, length, apart=apart) if row.time < limit
    ]
    core = planner(corpus, settings, length, limit=limit, apart=apart)
    size = data.draw(st.integers(1, 5 * length))
    rows = []
    while not (plan := core.next(core_request(size))).end_of_data:
        rows += rows_of(plan)
    assert rows == [row.pieces for row in expected]
    again = core.next(core_request(size))
    assert again.end_of_data
    assert again.num_rows == 0


@pytest.mark.parametrize(
    ("window_chunks", "randomize", "num_packs"),
    [(None, True, 64), (100, True, 67), (0, False, 2)],
)
def test_long_lanes_are_cut_into_packs_that_the_model_knows(
    window_chunks: int | None, randomize: bool, num_packs: int
) -> None:
    sizes = np.random.default_rng(3).integers(1, 4, 40_000).tolist()
    corpus = ModelCorpus.of([sizes[i : i + 999] for i in range(0, 40_000, 999)])
    settings = ModelSettings(7, 32, window_chunks, randomize=randomize)
    assert len(list(layouts.pack_ranges(corpus, settings, 3, 0))) == num_packs
    core = planner(corpus, settings, 3, apart=True)
    rows = layouts.packed_sweep(corpus, settings, 3, 64, 0, apart=True)
    check_places(core, rows)


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


def test_sequences_longer_than_a_row_are_refused_or_split() -> None:
    corpus, settings = ModelCorpus.of([[3, 25, 4]]), ModelSettings(num_lanes=1, randomize=False)
    refusing = _core.compose.Planner(
        core_timeline(corpus, settings),
        _core.compose.Packing(10, 64, False, False, 0),
        NO_LIMIT,
    )
    with pytest.raises(ValueError, match="sequence 1 has 25 samples, more than a row of 10"):
        refusing.next(core_request(10))
    rows = next_rows(planner(corpus, settings, 10), TO_SWEEP_END)
    assert rows == [
        (Piece(0, 0, 3), Piece(1, 20, 5)),
        (Piece(1, 0, 10, True),),
        (Piece(1, 10, 10, True),),
        (Piece(2, 0, 4),),
    ]


@pytest.mark.parametrize(
    ("length", "look_ahead", "message"),
    [
        (0, 64, r"row_length must be in \[1, 2\^31\], got 0"),
        (2**31 + 1, 64, r"row_length must be in \[1, 2\^31\], got 2147483649"),
        (8, 0, "look_ahead must be at least 1, got 0"),
    ],
)
def test_rows_that_make_no_sense_are_refused(
    length: int, look_ahead: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        planner(ModelCorpus.of([[1]]), ModelSettings(), length, look_ahead)


def test_a_share_with_too_many_cells_is_refused_and_the_place_stays() -> None:
    core = planner(ModelCorpus.of([[2**20] * 4000]), ModelSettings(num_lanes=1), 2**20)
    core.seek(5 * 2**20)
    with pytest.raises(ValueError, match=r"2\^31 cells or more in rows of 1048576"):
        core.next(core_request(2**31))
    assert core.time == 5 * 2**20
    assert core.next(core_request(2**31, 2, 0)).num_rows == 1024


def test_a_request_that_makes_no_sense_is_refused() -> None:
    core = planner(ModelCorpus.of([[1]]), ModelSettings(), 4)
    for request, message in [
        (core_request(0), "minibatch_size_in_samples must be positive"),
        (core_request(4, 2, 2), "partition_index must be below"),
        (core_request(4, 0, 0), "partition_index must be below"),
    ]:
        with pytest.raises(ValueError, match=message):
            core.next(request)


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
    core = _core.compose.Planner(
        timeline, _core.compose.Packing(2048, 64, False, False, 0), NO_LIMIT
    )
    rows, sequences, counts = 0, 0, []
    while not (plan := core.next(core_request(2048 * 256, 256, 0))).sweeps_ended:
        rows += plan.global_rows
        sequences += plan.num_sequences
        counts.append(plan.num_sequences / plan.global_rows)
    assert sizes.sum() / (rows * 2048) > fill - 256 / rows
    tenth = np.mean(counts[: len(counts) // 10])
    assert 0.95 < tenth / np.mean(counts) < 1.05
