"""How a loss scale moves: against torch's GradScaler, Keras' rule and the documented traces."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand.train.learners.arrays import Cause
from sweephand.train.loss_scale.judgement import (
    HostNumbers,
    Judge,
    ScaleSettings,
    advance,
    guard_state,
    read_guard_state,
)

torch = pytest.importorskip("torch")
from sweephand.torch.optimizers import DeviceNumbers  # noqa: E402

DEFAULTS = ScaleSettings(True, 2.0**15, 2000, 2.0, 0.5, 1.0, 2.0**24)
LARGEST = float(torch.finfo(torch.float32).max)

# True is a clean step, False an overflow.
sequences = st.lists(st.booleans(), max_size=60)


class Scale:
    """A scale that moves by the rule: a float, or a tensor as if on a device."""

    is_tensor: ClassVar = False

    def __init__(self, judge: Judge) -> None:
        first, cpu = judge.first(), torch.device("cpu")
        self.judge = judge
        self.on = DeviceNumbers(first, cpu) if self.is_tensor else HostNumbers(first)

    def __getattr__(self, name: str) -> float:
        value: float = getattr(self.on.told(), name)
        return value

    def advance(self, cause: Cause) -> None:
        self.on.write(advance(self.judge.settings, self.on.now(), cause, self.on))

    def state_dict(self) -> dict[str, Any]:
        return guard_state(self.judge, self.on.told())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.on.write(read_guard_state(self.judge, state))


@pytest.fixture(scope="module", autouse=True, params=["floats", "tensors"])
def _numbers(request: pytest.FixtureRequest) -> None:
    Scale.is_tensor = request.param == "tensors"


def scale_of(**settings: Any) -> Scale:
    return Scale(Judge(replace(DEFAULTS, **settings), None, None, True))


def run(rule: Scale, steps: list[bool]) -> list[tuple[float, int]]:
    """Return scale and counter after each step."""
    trace = []
    for is_clean in steps:
        rule.advance(Cause.OK if is_clean else Cause.INF)
        trace.append((rule.scale, rule.counter))
    return trace


@dataclass
class Keras:
    """The rule of tf.keras' LossScaleOptimizer, written down again from its description."""

    scale: float
    growth_steps: int
    good_steps: int = 0

    def step(self, is_clean: bool) -> tuple[float, int]:
        if not is_clean:
            self.good_steps, self.scale = 0, max(self.scale / 2, 1.0)
        elif self.good_steps + 1 >= self.growth_steps:
            self.good_steps, self.scale = 0, self.scale * 2
        else:
            self.good_steps += 1
        return self.scale, self.good_steps


@given(sequences, st.integers(0, 15), st.integers(1, 6))
def test_the_trajectory_is_that_of_keras_rule(
    steps: list[bool], exponent: int, growth_steps: int
) -> None:
    keras = Keras(2.0**exponent, growth_steps)
    ours = scale_of(initial_scale=2.0**exponent, growth_steps=growth_steps, max_scale=LARGEST)
    assert run(ours, steps) == [keras.step(is_clean) for is_clean in steps]


def test_the_defaults() -> None:
    ours = scale_of()
    assert ours.scale == 2**15
    run(ours, [True] * 1999)
    assert (ours.scale, ours.counter) == (2**15, 1999)
    run(ours, [True])
    assert (ours.scale, ours.counter) == (2**16, 0)


def test_it_differs_from_others_past_the_largest_float() -> None:
    # torch and tf.keras drop the growth; Keras 3 becomes infinite and stays so.
    ours = scale_of(initial_scale=2.0**127, growth_steps=1, max_scale=LARGEST)
    ours.advance(Cause.OK)
    assert ours.scale == float(torch.finfo(torch.float32).max)


@pytest.mark.parametrize(
    ("refill", "scales"),
    [
        # Two overflows apart by a clean step: refilled by it, neither backs off.
        ("clean step", [8, 8, 8, 4, 2, 2, 2]),
        ("growth", [8, 8, 4, 2, 1, 1, 1]),
    ],
)
def test_hysteresis_lets_overflows_pass_until_its_credit_is_used(
    refill: str, scales: list[float]
) -> None:
    steps = [False, True, False, False, False, True, False]
    ours = scale_of(initial_scale=8, hysteresis=2, refill=refill)
    assert [scale for scale, _ in run(ours, steps)] == scales


def test_a_growth_refills_the_credit_whatever_the_option() -> None:
    ours = scale_of(initial_scale=8, hysteresis=2, refill="growth", growth_steps=2)
    run(ours, [False, False])
    assert (ours.scale, ours.credit) == (4, 0)
    run(ours, [True, True])
    assert (ours.scale, ours.credit) == (8, 2)
    run(ours, [False])
    assert ours.scale == 8


def test_a_nan_loss_starts_the_count_again_and_leaves_scale_and_credit() -> None:
    ours = scale_of(initial_scale=8, hysteresis=2)
    run(ours, [True])
    ours.advance(Cause.NAN_LOSS)
    assert (ours.scale, ours.counter, ours.credit) == (8, 0, 2)


@given(
    sequences, st.integers(1, 4), st.integers(1, 3), st.sampled_from(["clean step", "growth"])
)
def test_scale_and_state_stay_in_their_bounds(
    steps: list[bool], growth_steps: int, hysteresis: int, refill: str
) -> None:
    ours = scale_of(
        initial_scale=8, growth_steps=growth_steps, hysteresis=hysteresis,
        refill=refill, min_scale=2, max_scale=64,
    )  # fmt: skip
    for scale, counter in run(ours, steps):
        assert 2 <= scale <= 64
        assert 0 <= counter < growth_steps
    assert 0 <= ours.credit <= hysteresis


@given(sequences, sequences, st.integers(1, 4))
def test_a_restored_rule_continues_as_if_nothing_had_happened(
    before: list[bool], after: list[bool], growth_steps: int
) -> None:
    settings = {"initial_scale": 64, "growth_steps": growth_steps, "hysteresis": 2}
    ours, other = scale_of(**settings), scale_of(**settings)
    run(ours, before)
    other.load_state_dict(ours.state_dict())
    assert run(other, after) == run(ours, after)
