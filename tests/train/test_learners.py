"""NumPy learners against the formulas written out in plain NumPy."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sweephand as sh

F32 = NDArray[np.float32]
f32 = np.float32
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def constant(rate: float, minibatch_size: int | None = None) -> Any:
    return sh.learning_parameter_schedule(rate, minibatch_size)


# Each oracle takes weights, mean gradient and its own state; all in float32.


def sgd(w: F32, g: F32, rate: f32, decay: f32, state: dict) -> F32:
    return decay * w - rate * g


def momentum(w: F32, g: F32, rate: f32, decay: f32, state: dict) -> F32:
    state["v"] = f32(0.9) * state.get("v", np.zeros_like(w)) + f32(1 - 0.9) * g
    return decay * w - rate * state["v"]


def nesterov(w: F32, g: F32, rate: f32, decay: f32, state: dict) -> F32:
    state["v"] = f32(0.9) * state.get("v", np.zeros_like(w)) + f32(1 - 0.9) * g
    return decay * w - rate * (f32(0.9) * state["v"] + f32(1 - 0.9) * g)


def adam(
    w: F32, g: F32, rate: f32, decay: f32, state: dict,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
) -> F32:  # fmt: skip
    first, second = betas
    state["t"] = state.get("t", 0) + 1
    state["m"] = f32(first) * state.get("m", np.zeros_like(w)) + f32(1 - first) * g
    state["v"] = f32(second) * state.get("v", np.zeros_like(w)) + f32(1 - second) * g * g
    corrected = f32(float(rate) / (1 - first ** state["t"]))
    root = np.sqrt(state["v"]) * f32(1 / math.sqrt(1 - second ** state["t"]))
    return decay * w - corrected * (state["m"] / (root + f32(eps)))


RULES = [
    (sh.numpy.SGD, sgd),
    (sh.numpy.MomentumSGD, momentum),
    (sh.numpy.Nesterov, nesterov),
    (sh.numpy.Adam, adam),
    (sh.numpy.AdamW, adam),
]


def test_every_learner_has_a_formula() -> None:
    kinds = {getattr(sh.numpy, name) for name in sh.numpy.__all__} - {sh.numpy.Learner}
    assert kinds == {kind for kind, _ in RULES}


@pytest.mark.parametrize(("kind", "oracle"), RULES)
@pytest.mark.parametrize("size", [1, 7, 2048, 2049, 70_000])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_update_is_the_formula_in_float32(
    kind: type[sh.numpy.Learner], oracle: Callable, size: int, num_threads: int
) -> None:
    random = np.random.default_rng(size)
    weights = random.standard_normal(size, dtype=np.float32)
    expected = weights.copy()
    learner = kind([weights], 0.01, weight_decay=0.1, num_threads=num_threads)
    state: dict = {}
    for num_samples in (4, 8, 2):  # powers of two: the mean is exact
        sums = random.standard_normal(size, dtype=np.float32)
        learner.update([sums], num_samples)
        mean = sums / f32(num_samples)
        expected = oracle(expected, mean, f32(0.01), f32(1 - 0.01 * 0.1), state)
        assert np.array_equal(weights, expected)


def test_other_constants_of_adam_are_those_of_its_formula() -> None:
    constants: dict[str, Any] = {"betas": (0.5, 0.875), "eps": 1e-3}
    weights, state = np.ones(3, np.float32), {}
    expected, learner = weights.copy(), sh.numpy.Adam([weights], 0.5, **constants)
    for gradient in (np.float32([1, -2, 3]), np.float32([0.1, 0.2, -5])):
        learner.update([gradient], 1)
        expected = adam(expected, gradient, f32(0.5), f32(1), state, **constants)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", [rule[0] for rule in RULES])
@pytest.mark.parametrize("gradient_dtype", DTYPES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_parameters_are_the_rounded_image_of_float32_weights(
    kind: type[sh.numpy.Learner], dtype: type, gradient_dtype: type
) -> None:
    random = np.random.default_rng(1)
    small = random.standard_normal(3000).astype(dtype)
    full = small.astype(np.float32)
    on_small, on_full = kind([small], 0.01), kind([full], 0.01)
    for _ in range(4):
        sums = random.standard_normal(3000).astype(gradient_dtype)
        on_small.update([sums], 4)
        on_full.update([sums.astype(np.float32)], 4)
        is_tie = full.view(np.uint32) & 0xFFFF == 0x8000  # away from zero in bfloat16
        mine, rounded = small.view(np.uint16), full.astype(dtype).view(np.uint16)
        assert np.array_equal(mine[~is_tie], rounded[~is_tie])


def test_many_tensors_are_updated_as_each_alone() -> None:
    random = np.random.default_rng(2)
    together = [random.standard_normal(n, dtype=np.float32) for n in (1, 5000, 3, 70_000)]
    alone = [weights.copy() for weights in together]
    learner = sh.numpy.Adam(together, 0.1)
    learners = [sh.numpy.Adam([weights], 0.1) for weights in alone]
    for _ in range(2):
        sums = [random.standard_normal(w.size, dtype=np.float32) for w in together]
        learner.update(sums, 3)
        for one, gradient in zip(learners, sums, strict=True):
            one.update([gradient], 3)
    assert all(np.array_equal(a, b) for a, b in zip(together, alone, strict=True))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.lists(st.integers(1, 20)))
def test_the_size_of_minibatches_does_not_change_the_move_per_sample(
    sizes: list[int], other_sizes: list[int]
) -> None:
    total = sum(sizes)
    other = [*other_sizes, total - sum(other_sizes)]
    if other[-1] <= 0:
        other = [total]
    per_sample = np.random.default_rng(3).standard_normal((total, 4))

    def train(minibatches: Sequence[int]) -> NDArray[np.float64]:
        weights = np.zeros(4)
        learner = sh.numpy.SGD([weights], constant(0.32, minibatch_size=32))
        begin = 0
        for size in minibatches:
            learner.update([per_sample[begin : begin + size].sum(axis=0)], size)
            begin += size
        assert learner.pace.applied.samples == total
        return weights

    expected = -0.32 / 32 * per_sample.sum(axis=0)
    np.testing.assert_allclose(train(sizes), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(train(other), expected, rtol=1e-12, atol=1e-14)


def test_several_sweeps_in_a_minibatch_all_count() -> None:
    schedule = sh.learning_parameter_schedule([1.0, 0.1, 0.05, 0.01])
    learner = sh.numpy.SGD([np.zeros(1)], schedule)
    learner.update([np.zeros(1)], 30, sweeps_ended=3)
    assert learner.learning_rate == 0.01


def test_a_rate_that_is_set_keeps_its_reference_size() -> None:
    weights = np.zeros(1)
    learner = sh.numpy.SGD([weights], constant(1.0, minibatch_size=4))
    learner.lr = 0.5
    learner.update([np.array([8.0])], num_samples=2)
    assert weights[0] == -0.5 / 4 * 8


def test_a_skipped_step_moves_only_what_follows_the_consumed_samples() -> None:
    for follows, rate in (("applied", 1.0), ("consumed", 0.1)):
        schedule = sh.learning_parameter_schedule([1.0, 0.1], epoch_size=10, follows=follows)
        learner = sh.numpy.SGD([np.zeros(1)], schedule)
        learner.pace.advance(10, 0, applied=False)
        assert learner.learning_rate == rate


def test_a_sweep_that_ends_in_a_skipped_step_counts_at_the_next() -> None:
    learner = sh.numpy.SGD([np.zeros(1)], sh.learning_parameter_schedule([1.0, 0.1]))
    learner.pace.advance(10, 1, applied=False)
    assert learner.learning_rate == 1.0
    learner.update([np.zeros(1)], 10)
    assert learner.learning_rate == 0.1


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    first, second = np.ones(2, np.float32), np.ones(2, np.float32)
    learner = sh.numpy.AdamW([first, second], 0.1)
    learner.update([np.ones(2), None], 1)
    learner.update([None, np.ones(2)], 1)  # its first step, so corrected as one
    assert np.array_equal(first, second)
    assert (first != 1).all()


@pytest.mark.parametrize("kind", [rule[0] for rule in RULES])
def test_a_learner_continues_from_its_state_to_the_last_bit(
    kind: type[sh.numpy.Learner],
) -> None:
    random = np.random.default_rng(4)
    schedule = sh.learning_parameter_schedule([(3, 0.1), 0.02], 8, epoch_size=10)
    gradients = [[random.standard_normal(n) for n in (3, 5, 4)] for _ in range(8)]

    def fresh() -> tuple[list, sh.numpy.Learner]:
        dtypes = [(3, np.float16), (5, np.float32), (4, ml_dtypes.bfloat16)]
        params: list[Any] = [np.ones(size, dtype) for size, dtype in dtypes]
        return params, kind(params, schedule)

    params, learner = fresh()
    for sums in gradients[:4]:
        learner.update(sums, 5)
    state = learner.state_dict()
    arrays = state.pop("arrays")
    state = json.loads(json.dumps(state)) | {"arrays": arrays}
    saved = [array.copy() for array in params]
    for sums in gradients[4:]:
        learner.update(sums, 5)

    other_params, other = fresh()
    for array, values in zip(other_params, saved, strict=True):
        array[...] = values
    other.load_state_dict(state)
    for sums in gradients[4:]:
        other.update(sums, 5)
    assert all(np.array_equal(a, b) for a, b in zip(params, other_params, strict=True))
    assert other.learning_rate == learner.learning_rate
    assert other.state_dict()["pace"] == learner.state_dict()["pace"]


READ_ONLY = np.ones(3)
READ_ONLY.flags.writeable = False
WEIGHTS = np.ones(6)


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ([], ValueError, "at least one parameter"),
        (np.ones(3), TypeError, "sequence or mapping, got ndarray"),
        ([[1.0]], TypeError, "must be an array, got list"),
        ([np.ones(3, int)], TypeError, "float16, bfloat16, float32 or float64"),
        ([np.ones(3, ">f4")], TypeError, ">f4"),
        ([READ_ONLY], ValueError, "writable"),
        ([np.ones((3, 3))[:, 1:]], ValueError, "C-contiguous"),
        ({"a": WEIGHTS, "b": WEIGHTS}, ValueError, "a and b share memory"),
        ({"a": WEIGHTS[:4], "b": WEIGHTS[3:]}, ValueError, "a and b share memory"),
    ],
)
def test_parameters_that_cannot_be_updated_are_refused(
    params: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        sh.numpy.SGD(params, 0.1)


@pytest.mark.parametrize(
    ("gradients", "options", "error", "says"),
    [
        ([np.ones(3)], {}, ValueError, "each of 2 parameters, got 1"),
        ([np.ones(3), np.ones(3)], {}, ValueError, r"of b must have shape \(2,\), got \(3,\)"),
        ([np.ones(3), np.ones(2, int)], {}, TypeError, "gradient of b must be of float16"),
        ([np.ones(3), [1.0, 2.0]], {}, TypeError, "gradient of b must be an array"),
        ([None, None], {}, ValueError, "no parameter has a gradient: a, b"),
        ([np.ones(3), None], {"num_samples": 0}, ValueError, "num_samples must be at least 1"),
        ([np.ones(3), None], {"num_samples": 1.5}, TypeError, "num_samples must be an int"),
        ([np.ones(3), None], {"sweeps_ended": -1}, ValueError, "sweeps_ended"),
    ],
)
def test_gradients_that_do_not_fit_change_nothing(
    gradients: list, options: dict, error: type[Exception], says: str
) -> None:
    params = {"a": np.ones(3), "b": np.ones(2)}
    learner = sh.numpy.SGD(params, 0.1)
    with pytest.raises(error, match=says):
        learner.update(gradients, **{"num_samples": 1, **options})
    assert all((array == 1).all() for array in params.values())
    assert learner.pace.consumed.steps == 0


@settings(max_examples=20)
@given(st.floats(0, 0.999), st.integers(1, 64), st.integers(1, 64))
def test_momentum_is_raised_to_the_share_of_its_reference_size(
    value: float, num_samples: int, minibatch_size: int
) -> None:
    schedule = sh.momentum_schedule(value, minibatch_size=minibatch_size)
    learner = sh.numpy.MomentumSGD([np.zeros(1)], 0.1, schedule, unit_gain=False)
    learner.update([np.array([1.0 * num_samples])], num_samples)
    learner.update([np.array([0.0])], num_samples)
    velocity = learner.state_dict()["arrays"]["velocity/0"][0]
    assert velocity == pytest.approx(value ** (num_samples / minibatch_size), abs=1e-12)
