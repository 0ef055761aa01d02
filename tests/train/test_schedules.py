"""Schedules: the value at every position, and what is refused."""

import math
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh

entries = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 100)), min_size=1, max_size=5)


def brute_force(steps: list[tuple[int, int]], epoch_size: int, position: int) -> int:
    """Walk epoch by epoch."""
    for epochs, value in steps[:-1]:
        for _ in range(epochs):
            if position < epoch_size:
                return value
            position -= epoch_size
    return steps[-1][1]


@given(entries, st.integers(1, 7), st.integers(0, 200))
def test_the_value_is_that_of_walking_epoch_by_epoch(
    steps: list[tuple[int, int]], epoch_size: int, position: int
) -> None:
    schedule = sh.minibatch_size_schedule([*steps], epoch_size)
    assert schedule[position] == brute_force(steps, epoch_size, position)


@given(entries, st.integers(1, 7))
def test_a_list_pairs_and_text_say_the_same(
    steps: list[tuple[int, int]], epoch_size: int
) -> None:
    as_text = " + ".join(f"{value}*{epochs}" for epochs, value in steps)
    as_list = [value for epochs, value in steps for _ in range(epochs)]
    schedules = [
        sh.minibatch_size_schedule(spec, epoch_size)
        for spec in ([*steps], as_text, as_text.replace("+", ":"), as_list)
    ]
    for position in range(0, 26 * epoch_size, max(epoch_size // 2, 1)):
        assert len({schedule[position] for schedule in schedules}) == 1


@pytest.mark.parametrize(
    ("spec", "epoch_size", "values"),
    [
        ("1e-1*2 + 5e-2", 10, {19: 0.1, 20: 0.05}),
        ("1e+1 + .5", 10, {9: 10.0, 10: 0.5}),
    ],
)
def test_documented_learning_rates(spec: object, epoch_size: int, values: dict) -> None:
    schedule = sh.learning_parameter_schedule(spec, epoch_size=epoch_size)
    assert {position: schedule[position] for position in values} == values


def test_without_an_epoch_size_the_position_is_in_sweeps() -> None:
    schedule = sh.learning_parameter_schedule([(2, 0.1), 0.01], minibatch_size=32)
    assert [schedule[sweeps] for sweeps in range(4)] == [0.1, 0.1, 0.01, 0.01]
    assert schedule.at(samples=10**9, sweeps=1) == 0.1
    assert schedule.minibatch_size == 32
    same = sh.learning_parameter_schedule([(2, 0.1), 0.01], 32, epoch_size=sh.FULL_DATA_SWEEP)
    assert same == schedule


def test_momentum_decays_alike_per_sample_for_every_size() -> None:
    per_sample = sh.momentum_schedule_per_sample(0.999)
    by_time_constant = sh.momentum_as_time_constant_schedule(-1 / math.log(0.999))
    assert per_sample.minibatch_size == by_time_constant.minibatch_size == 1
    assert by_time_constant[0] == pytest.approx(per_sample[0], rel=1e-12)
    assert sh.momentum_as_time_constant_schedule(2500)[0] == pytest.approx(0.99960008, abs=1e-8)
    assert sh.momentum_as_time_constant_schedule([0, 2500])[0] == 0.0


def test_a_reference_size_of_zero_is_ignored() -> None:
    assert sh.learning_parameter_schedule(0.1, minibatch_size=0).minibatch_size is None
    assert sh.learning_parameter_schedule_per_sample(0.1).minibatch_size == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda epoch_size: sh.learning_parameter_schedule(0.5, epoch_size=epoch_size),
        lambda epoch_size: sh.learning_parameter_schedule_per_sample(0.5, epoch_size),
        lambda epoch_size: sh.momentum_schedule(0.5, epoch_size),
        lambda epoch_size: sh.momentum_schedule_per_sample(0.5, epoch_size),
        lambda epoch_size: sh.momentum_as_time_constant_schedule(0.5, epoch_size),
    ],
)
def test_an_epoch_size_beside_a_single_rate_is_warned_about_as_in_cntk(make: Callable) -> None:
    with pytest.warns(RuntimeWarning, match="no meaning with the single value") as caught:
        schedule = make(100)
    assert caught[0].filename == __file__
    for position in (0, 99, 100, 10**6):
        assert schedule[position] == make(None)[position]


NO_SIZES = (0, 2.5, True, None, [], [8, 0], [8, 2.5], (2, 128), [(1, 2, 3)], [(0, 8), 9],
            [(-1, 8)])  # fmt: skip
NO_TEXTS = ("", "128*", "128**2", "12 8", "1.5", "-3", "a", "128*0 + 3", "8+")
NO_RATES = (-0.1, math.nan, math.inf, "x", None, True, [0.1, -1])
NO_MOMENTA = (-0.1, 1.0, math.nan, "1.5", [0.9, 1])
REFUSED: dict[str, list[Callable[[], object]]] = {
    r"got|cannot read|needs": [
        *(partial(sh.minibatch_size_schedule, bad) for bad in (*NO_SIZES, *NO_TEXTS)),
        *(partial(sh.learning_parameter_schedule, bad) for bad in NO_RATES),
    ],
    "epoch_size": [
        *(
            partial(sh.minibatch_size_schedule, [8, 16], bad)
            for bad in (0, -1, 1.5, None, True, sh.FULL_DATA_SWEEP)
        ),
        *(
            partial(sh.learning_parameter_schedule, [0.1, 0.2], epoch_size=bad)
            for bad in (0, -5, 2.5)
        ),
    ],
    "no meaning with the single value": [lambda: sh.minibatch_size_schedule(8, 100)],
    "must lie in": [partial(sh.momentum_schedule, bad) for bad in NO_MOMENTA],
    "minibatch_size must be": [lambda: sh.learning_parameter_schedule(0.1, minibatch_size=-32)],
    "follows must be": [lambda: sh.learning_parameter_schedule(0.1, follows="time")],
    "time constant": [lambda: sh.momentum_as_time_constant_schedule(-5)],
    "at least 0": [lambda: sh.learning_parameter_schedule(0.1)[-1]],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_refused(words: str) -> None:
    for call in REFUSED[words]:
        with pytest.raises((ValueError, IndexError, TypeError), match=words):
            call()
