"""Schedules by formula: closed forms, exact resume, and what is refused."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.small import Heard, line_trainer, source_of_lengths

import sweephand as sh
from sweephand.train.learners.schedules import read_schedule, schedule_state

floors = st.floats(0.0, 1.0)
peaks = st.floats(1e-6, 10.0)


@given(st.integers(1, 10**6), st.integers(1, 10**6), floors, peaks, st.integers(0, 3 * 10**6))
def test_warm_up_and_cosine_are_the_closed_form(
    rising: int, falling: int, floor: float, peak: float, samples: int
) -> None:
    total = rising + falling
    schedule = sh.learning_parameter_schedule(
        peak * sh.warmup(rising).then(sh.cosine(total, floor)), 32
    )
    if samples < rising:
        wanted = peak * samples / rising
    else:
        share = min(1.0, (samples - rising) / falling)
        wanted = peak * (floor + (1 - floor) * (1 + math.cos(math.pi * share)) / 2)
    assert schedule[samples] == pytest.approx(wanted, rel=1e-12, abs=1e-15 * peak)
    assert schedule.at(samples, sweeps=7) == schedule[samples]
    assert schedule.is_last_at(samples, 0) == (samples >= total)
    assert schedule.minibatch_size == 32


@given(
    st.integers(1, 1000),
    st.integers(0, 1000),
    st.integers(1, 1000),
    floors,
    st.integers(0, 4000),
)
def test_warm_up_stable_decay_is_the_closed_form(
    rising: int, stable: int, falling: int, floor: float, samples: int
) -> None:
    total = rising + stable + falling
    formula = sh.warmup_stable_decay(total, rising, falling, floor)
    left = max(0.0, (total - samples) / falling)
    wanted = min(samples / rising, 1.0, floor + (1 - floor) * left)
    if samples < rising:
        wanted = samples / rising
    assert formula(samples) == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_values_where_pieces_meet_are_exact() -> None:
    formula = 0.3 * sh.warmup(10, start=0.5).then(sh.linear(20, 0.1)).then(sh.cosine(30))
    assert [formula(n) for n in (0, 10, 30, 10**12)] == [0.15, 0.3, 0.0, 0.0]
    assert formula(20) == 0.3 * 0.1
    assert formula(25) == pytest.approx(0.015)
    again = 0.3 * sh.warmup(10, start=0.5).then(sh.linear(20, 0.1)).then(sh.cosine(30))
    assert again == formula
    assert hash(again) == hash(formula)


@given(st.integers(1, 1000), st.integers(1, 1000), floors, peaks)
def test_a_state_holds_the_formula_to_the_last_bit(
    rising: int, falling: int, floor: float, peak: float
) -> None:
    formula = peak * sh.warmup(rising).then(sh.cosine(rising + falling, floor))
    for schedule in (
        sh.learning_parameter_schedule(formula, 8, follows="consumed"),
        sh.momentum_schedule(0.9 / peak * formula),
    ):
        assert read_schedule(json.loads(json.dumps(schedule_state(schedule)))) == schedule


def test_writers_are_told_changes_of_a_fiftieth_of_the_highest_rate() -> None:
    heard = Heard()
    decay = sh.warmup(40).then(sh.cosine(200, floor=0.1))
    rates = sh.learning_parameter_schedule(0.02 * decay, minibatch_size=4)
    trainer, source = line_trainer([heard], rates), source_of_lengths([1] * 60)
    for minibatch in source.minibatches(7):
        trainer.train_minibatch(minibatch)
        if trainer.total_number_of_samples_seen > 250:
            break
    told = [record.figures["learning_rate"] for record in heard.of("change")]
    steps = [abs(b - a) for a, b in pairwise(told)]
    assert min(steps[:-1]) >= 0.02 / 50
    assert told[-1] == trainer.model.learners[0].learning_rate
