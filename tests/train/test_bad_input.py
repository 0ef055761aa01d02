"""Every argument that a loss scale must refuse, and how."""

import math
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.errors import ArgumentTypeError


def learner() -> sh.numpy.Learner:
    return sh.numpy.SGD([np.ones(2, np.float32)], 0.1)


BOTH = ArgumentTypeError


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"dynamic": False}, ValueError, "dynamic=False needs an initial_scale"),
        (
            {"dynamic": False, "initial_scale": 8, "dynamic_growth_steps": 3},
            ValueError,
            "takes no dynamic_growth_steps",
        ),
        ({"dynamic": 1}, BOTH, "dynamic must be True or False, got 1"),
        *(
            ({name: bad}, ValueError, f"{name} must")
            for name, values in {
                "initial_scale": (0, -1.0, math.nan, math.inf, 1e39, 1e-46, "8", True),
                "dynamic_growth_steps": (0, -1, 2.5, True, "3"),
                "growth_factor": (1, 0.5, -2, math.nan, math.inf, "2"),
                "backoff_factor": (1, 2, 0, -0.5, math.nan),
                "min_scale": (0,),
                "max_scale": (math.inf,),
                "hysteresis": (0, 1.5),
                "refill": ("never",),
                "max_consecutive_skips": (0, 2.5),
                "check_finite": (0,),
                "measure_underflow": (1,),
                "num_threads": (0,),
                "on_skip": (3,),
                "reduce": ("max",),
                "clip_norm": (0.0,),
                "outliers": (6.0,),
            }.items()
            for bad in values
        ),
        *(
            (bounds, ValueError, "initial_scale must lie between min_scale and max_scale")
            for bounds in (
                {"min_scale": 16, "initial_scale": 8},
                {"initial_scale": 0.5},
                {"initial_scale": 16, "max_scale": 8},
            )
        ),
        ({"check_finite": False}, ValueError, "check_finite=False is for a fixed scale"),
        ({"clipnorm": 1.0}, TypeError, "clipnorm"),
    ],
)
def test_a_bad_argument_is_refused(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        sh.LossScaleOptimizer(learner(), **options)


@pytest.mark.parametrize("inner", [None, "adam", 3, object(), [], [learner(), None], dict])
def test_what_is_no_optimizer_is_refused(inner: object) -> None:
    with pytest.raises(BOTH, match="inner_optimizer must be a torch optimizer or a learner"):
        sh.LossScaleOptimizer(inner)


def test_a_loss_scale_is_not_wrapped_again() -> None:
    opt = sh.LossScaleOptimizer(learner())
    with pytest.raises(BOTH, match="cannot be wrapped"):
        sh.LossScaleOptimizer(opt)


def test_an_optimizer_has_one_loss_scale_at_a_time() -> None:
    inner = learner()
    opt = sh.LossScaleOptimizer(inner)
    with pytest.raises(ValueError, match="has a LossScaleOptimizer already"):
        sh.LossScaleOptimizer(inner)
    other = learner()
    with pytest.raises(ValueError, match="is listed twice"):
        sh.LossScaleOptimizer([other, other])
    with pytest.raises(ValueError, match="has a LossScaleOptimizer already") as refused:
        sh.LossScaleOptimizer([other, inner])
    assert sh.LossScaleOptimizer(other).loss_scale == 2**15, refused  # which is still there
    assert opt.inner_optimizer is inner
    del opt, refused
    assert sh.LossScaleOptimizer(inner).loss_scale == 2**15


@pytest.mark.parametrize("loss", ["1", None, [1.0], True, np.ones(2, int)])
def test_a_loss_that_is_no_number_is_refused(loss: object) -> None:
    opt = sh.LossScaleOptimizer(learner())
    with pytest.raises(BOTH, match="the loss must be"):
        opt.get_scaled_loss(loss)
    assert opt.get_scaled_loss(1.0) == 2**15, "nothing was scaled"


def test_gradients_that_cannot_be_unscaled_are_refused() -> None:
    opt = sh.LossScaleOptimizer(learner())
    read_only = np.ones(2)
    read_only.flags.writeable = False
    for gradient, error, says in [
        (read_only, ValueError, "read-only"),
        (np.ones(2, int), TypeError, "float16, bfloat16, float32 or float64"),
        ([1.0, 2.0], TypeError, "must be an array, got list"),
    ]:
        opt.get_scaled_loss(1.0)
        with pytest.raises(error, match=says):
            opt.get_unscaled_gradients([gradient])


def test_pairs_must_be_of_the_optimizers_parameters() -> None:
    weights = np.ones(2)
    opt = sh.LossScaleOptimizer(sh.numpy.SGD([weights], 0.1))
    opt.get_scaled_loss(1.0)
    (gradient,) = opt.get_unscaled_gradients([np.ones(2)])
    for pairs in ([(gradient, weights.copy())], [(gradient, weights)] * 2):
        with pytest.raises(ValueError, match="not one of the inner optimizer's or comes twice"):
            opt.apply_gradients(pairs)
    assert opt.apply_gradients([(gradient, weights)]).applied, "the gradients still wait"
