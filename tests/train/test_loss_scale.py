"""The loss scale around a NumPy learner: stages, results, hooks, state."""

import logging
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import sweephand as sh

STAGES = ["get_scaled_loss", "get_unscaled_gradients", "apply_gradients"]


def make(**options: Any) -> tuple[NDArray, sh.LossScaleOptimizer]:
    weights = np.ones(3, np.float32)
    defaults = {"initial_scale": 8.0, "dynamic_growth_steps": 3}
    return weights, sh.LossScaleOptimizer(
        sh.numpy.Adam({"w": weights}, 0.1), **defaults | options
    )


def step(opt: sh.LossScaleOptimizer, gradient: Any = 1.0, **options: Any) -> sh.StepResult:
    """Take a step with a gradient that is given without its scale."""
    seed = opt.get_scaled_loss(np.float32(1))
    sums = np.full(3, seed, np.float32) * np.asarray(gradient, np.float32)
    return opt.update([sums], 1, **options)


def test_the_parameters_are_those_of_the_learner_alone_for_every_power_of_two() -> None:
    random = np.random.default_rng(0)
    alone = np.ones(3, np.float32)
    learner = sh.numpy.Adam([alone], 0.1)
    weights, opt = make(max_scale=64)
    for _ in range(10):
        gradient = random.standard_normal(3)
        step(opt, gradient)
        learner.update([gradient.astype(np.float32)], 1)
        assert np.array_equal(weights, alone)
    assert opt.loss_scale == 64


def test_what_only_the_scale_keeps_alive_in_float16_reaches_the_weights() -> None:
    tiny = 2.0**-26  # zero in float16
    weights = np.zeros(1, np.float16)
    opt = sh.LossScaleOptimizer(sh.numpy.SGD([weights], 2.0**20))
    scaled = np.array([opt.get_scaled_loss(1.0) * tiny], np.float16)
    result = opt.update([scaled], 1)
    assert weights[0] == -(2.0**-6)
    assert result.gradient_norm == tiny


def test_keras_three_calls_and_update_do_the_same() -> None:
    one, by_update = make()
    other, by_calls = make()
    for _ in range(4):
        step(by_update, [1, 2, 3])
        gradient = np.array([1, 2, 3], np.float32) * by_calls.get_scaled_loss(np.float32(1))
        unscaled = by_calls.get_unscaled_gradients([gradient])
        assert unscaled[0] is gradient
        assert unscaled[0].tolist() == [1, 2, 3]
        assert by_calls.apply_gradients(zip(unscaled, [other], strict=True)).applied
        assert np.array_equal(one, other)
        assert by_update.loss_scale == by_calls.loss_scale


def test_a_skipped_step_changes_nothing_but_the_scale() -> None:
    weights, opt = make(initial_scale=8.0)
    step(opt)
    before, inner = weights.copy(), opt.inner_optimizer.state_dict()
    result = step(opt, [1, math.inf, math.nan])
    after = opt.inner_optimizer.state_dict()
    assert np.array_equal(weights, before)
    assert all(
        np.array_equal(after["arrays"][key], inner["arrays"][key]) for key in inner["arrays"]
    )
    assert after["left"] == inner["left"]
    assert after["pace"]["applied"] == inner["pace"]["applied"]
    assert after["pace"]["consumed"] == {"steps": 2, "samples": 2, "sweeps": 0}
    assert (result.applied, result.cause) == (False, "nan")
    assert (result.num_nan, result.num_inf) == (1, 1)
    assert (result.scale_used, result.scale_next, result.counter) == (8, 4, 0)
    assert result.bad_parameters == ("w",)


@given(st.lists(st.sampled_from(STAGES), max_size=12))
def test_calls_out_of_order_raise_and_name_the_stage(calls: list[str]) -> None:
    weights, opt = make()
    stage = 0
    for call in calls:
        arguments: dict[str, Any] = {
            "get_scaled_loss": 1.0,
            "get_unscaled_gradients": [np.ones(3)],
            "apply_gradients": [(np.ones(3), weights)],
        }
        if call == STAGES[stage]:
            getattr(opt, call)(arguments[call])
            stage = (stage + 1) % 3
        else:
            with pytest.raises(RuntimeError, match=r"cannot .* now: "):
                getattr(opt, call)(arguments[call])


def test_scaling_twice_is_for_accumulation_only() -> None:
    _, opt = make()
    opt.get_scaled_loss(1.0)
    with pytest.raises(RuntimeError, match="cannot scale a loss now: a loss is scaled"):
        opt.get_scaled_loss(1.0)
    opt.discard()
    with opt.accumulate():
        assert [opt.get_scaled_loss(1.0) for _ in range(3)] == [8.0] * 3
    assert opt.update([np.ones(3)], 1).applied
    assert opt.dynamic_counter == 1, "a window counts once"


def test_one_bad_loss_voids_its_window_once() -> None:
    _, opt = make(dynamic_growth_steps=1)
    with opt.accumulate():
        for loss in (1.0, math.nan, 1.0):
            opt.get_scaled_loss(loss)
    result = opt.update([np.ones(3)], 1)
    assert (result.applied, result.cause, result.scale_next) == (False, "nan", 8.0)
    assert step(opt).applied


def test_an_exception_in_a_window_forgets_it() -> None:
    _, opt = make()
    with pytest.raises(TypeError), opt.accumulate():
        opt.get_scaled_loss([opt.get_scaled_loss(math.nan)])
    assert step(opt).applied


def test_a_failed_step_is_ready_for_the_next_and_counts_for_nothing() -> None:
    weights, opt = make()
    opt.get_scaled_loss(1.0)
    with pytest.raises(ValueError, match="shape"):
        opt.update([np.ones(4)], 1)
    opt.get_scaled_loss(1.0)
    unscaled = opt.get_unscaled_gradients([np.ones(3)])
    with pytest.raises(ValueError, match="num_samples"):
        opt.apply_gradients(zip(unscaled, [weights], strict=True), num_samples=0)
    assert opt.dynamic_counter == 0
    assert step(opt).applied


@pytest.mark.parametrize(
    ("loss", "dtype"),
    [
        (np.float16(1), np.float32),
        (np.float32(1), np.float32),
        (np.float64(1), np.float64),
        (np.ones(2, np.float16), np.float32),
        (np.array(1.0), np.float64),
    ],
)
def test_a_loss_is_scaled_in_float32_at_least(loss: Any, dtype: type) -> None:
    scaled = make(initial_scale=2.0**16)[1].get_scaled_loss(loss)
    assert scaled.dtype == dtype
    assert (scaled == 2.0**16).all()


def test_gradients_keep_dtype_place_and_none() -> None:
    _, opt = make()
    opt.get_scaled_loss(1.0)
    halves, columns = np.full(2, 8, np.float16), np.full((3, 4), 8.0)[:, ::2]
    given = [None, halves, columns, np.float32(8)]
    unscaled = opt.get_unscaled_gradients(given)
    assert unscaled[0] is None
    assert unscaled[1] is halves
    assert unscaled[2] is columns
    assert (halves == 1).all()
    assert (columns == 1).all()
    assert type(unscaled[3]) is np.float32
    assert unscaled[3] == 1


def test_a_run_of_skips_ends_in_an_error_that_tells_where() -> None:
    _, opt = make(max_consecutive_skips=3)
    for _ in range(2):
        assert not step(opt, math.inf).applied
    assert step(opt).applied
    for _ in range(2):
        step(opt, math.inf)
    with pytest.raises(sh.LossScaleError, match="step 6 skipped, 3 in a row: inf") as caught:
        step(opt, math.inf)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert "w" in str(error)
    assert (error.step, error.scale, error.cause) == (6, 1.0, "inf")
    assert (error.parameters, error.minibatch_ids) == (("w",), ())
    with pytest.raises(sh.LossScaleError):
        step(opt, math.nan)
    assert step(opt).applied, "it can go on"


def test_a_nan_loss_is_skipped_and_reported_though_gradients_are_finite(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, opt = make()
    step(opt)
    opt.get_scaled_loss(math.nan)
    with caplog.at_level(logging.WARNING, "sweephand"):
        result = opt.update([np.ones(3)], 1)
    assert (result.applied, result.cause) == (False, "nan")
    assert (result.scale_next, result.counter) == (8.0, 0)
    assert "1 in a row: nan" in caplog.text


def test_a_fixed_scale_is_checked_unless_told_otherwise() -> None:
    for check_finite in (True, False):
        weights = np.ones(3, np.float32)
        opt = sh.LossScaleOptimizer(
            sh.numpy.SGD([weights], 0.1), False, 16.0, check_finite=check_finite
        )
        assert (opt.loss_scale, opt.initial_scale) == (16.0, 16.0)
        assert opt.dynamic_counter is opt.dynamic_growth_steps is None
        assert step(opt, math.nan).applied is not check_finite
        assert np.isnan(weights).all() == (not check_finite)
        assert opt.loss_scale == 16.0


def test_several_learners_step_or_skip_together() -> None:
    first, second = np.ones(1, np.float32), np.ones(2, np.float32)
    opt = sh.LossScaleOptimizer(
        [sh.numpy.SGD({"a": first}, 0.5), sh.numpy.Adam({"b": second}, 0.5)]
    )
    assert opt.lr == 0.5
    assert opt.beta_1 == 0.9
    seed = opt.get_scaled_loss(np.float32(1))
    result = opt.update([np.full(1, seed), np.full(2, np.inf)], 1)
    assert result.bad_parameters == ("b",)
    assert first[0] == second[0] == 1
    seed = opt.get_scaled_loss(np.float32(1))
    assert opt.update([np.full(1, seed), np.full(2, seed)], 1).applied
    assert first[0] == second[0] == 0.5


def test_hyperparameters_are_read_and_set_through_the_wrapper() -> None:
    _, opt = make()
    learner = opt.inner_optimizer
    assert (opt.learning_rate, opt.lr, opt.beta_1, opt.betas) == (0.1, 0.1, 0.9, (0.9, 0.999))
    opt.learning_rate = 0.25
    opt.beta_2 = 0.5
    opt.epsilon = 1e-6
    opt.weight_decay = 0.125
    assert (learner.lr, learner.beta_2, learner.eps) == (0.25, 0.5, 1e-6)
    assert learner.weight_decay == 0.125
    with pytest.raises(ValueError, match="beta_1"):
        opt.beta_1 = 1.5
    with pytest.raises(AttributeError, match="beta_1"):
        opt.beta1 = 0.5
    with pytest.raises(AttributeError, match="no attribute 'momentum'"):
        _ = opt.momentum
    for name in ("loss_scale", "dynamic_counter", "initial_scale", "inner_optimizer"):
        with pytest.raises(AttributeError):
            setattr(opt, name, 1)


def test_a_step_of_torch_on_a_numpy_learner_says_what_to_use() -> None:
    _, opt = make()
    opt.get_scaled_loss(1.0)
    for call in (opt.step, opt.unscale_, opt.zero_grad):
        with pytest.raises(TypeError, match="update"):
            call()
    opt.discard()
    with pytest.raises(TypeError, match="update"):
        opt.minimize(1.0)
    assert step(opt).applied


def test_changed_settings_are_told_and_the_new_ones_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, opt = make(dynamic_growth_steps=3)
    _, other = make(dynamic_growth_steps=1)
    step(opt)
    with caplog.at_level(logging.WARNING, "sweephand"):
        other.load_state_dict(opt.state_dict())
    assert "growth_steps was 3 in the checkpoint, is now 1" in caplog.text
    assert other.dynamic_growth_steps == 1
    assert step(other).scale_next == 16.0, "a counter beyond the window grows at once"


def test_a_restored_scale_is_brought_between_its_bounds() -> None:
    _, opt = make(initial_scale=2.0**20)
    _, other = make(max_scale=2.0**10)
    other.load_state_dict(opt.state_dict())
    assert other.loss_scale == 2.0**10


class Workers:
    """Two workers, of which the other one sends what it is told."""

    def __init__(self, *other: float) -> None:
        self.other = np.array(other)
        self.calls = 0

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        self.calls += 1
        return np.maximum(values, self.other)


@pytest.mark.parametrize(
    ("mine", "theirs", "cause"),
    [
        (1, 0, "ok"),
        (1, 1, "inf"),
        (1, 2, "nan"),
        (math.inf, 0, "inf"),
        (math.inf, 2, "nan"),
        (math.inf, 3, "nan"),
    ],
)
def test_all_workers_take_the_worst_cause_by_one_reduction(
    mine: float, theirs: int, cause: str
) -> None:
    workers = Workers(theirs, 8, -8, 0, 0)
    weights, opt = make(reduce=workers)
    result = step(opt, mine)
    assert (result.cause, workers.calls) == (cause, 1)
    assert (weights != 1).all() == result.applied == (cause == "ok")
    assert opt.loss_scale == (8 if theirs == 3 or cause == "ok" else 4)  # 3: its loss is NaN


def test_a_worker_without_gradients_goes_along() -> None:
    for theirs, cause, scale in ((0, "no gradient", 16.0), (1, "inf", 4.0)):
        _, opt = make(reduce=Workers(theirs, 8, -8, 0, 0), dynamic_growth_steps=1)
        opt.get_scaled_loss(1.0)
        opt.get_unscaled_gradients([None])
        result = opt.apply_gradients([])
        assert (result.applied, result.cause, opt.loss_scale) == (False, cause, scale)


@pytest.mark.parametrize("other", [(0, 16, -16, 0, 0), (0, 8, -8, 1, -1)])
def test_workers_that_have_parted_are_an_error(other: tuple) -> None:
    weights, opt = make(reduce=Workers(*other))
    with pytest.raises(RuntimeError, match=r"workers disagree on the (loss scale|counter)"):
        step(opt)
    assert (weights == 1).all()
