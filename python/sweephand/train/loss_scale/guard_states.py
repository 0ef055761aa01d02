"""The states of guards and loss scales, those that other libraries have written included."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from sweephand.base.checks import check_number
from sweephand.errors import StateError
from sweephand.train.checkpoint.read_state import check_keys, read_count, reading
from sweephand.train.loss_scale.judgement import Judge
from sweephand.train.loss_scale.scale_settings import scale_number
from sweephand.train.loss_scale.step_numbers import Statistic, StepNumbers

Reader: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, Any]]

COUNTS = ("counter", "credit", "steps", "applied_steps", "skips_in_a_row")
logger = logging.getLogger("sweephand")


def guard_state(judge: Judge, numbers: StepNumbers) -> dict[str, Any]:
    """Return numbers and settings as JSON can hold them."""
    state: dict[str, Any] = {"scale": numbers.scale, "settings": asdict(judge.settings)}
    state |= {name: int(getattr(numbers, name)) for name in COUNTS}
    if judge.outliers is not None:
        named = zip(judge.outliers.of, numbers.statistics, strict=True)
        state["outliers"] = {of: [int(one.count), *one[1:]] for of, one in named}
    return state


def read_guard_state(
    judge: Judge, state: Mapping[str, Any], present: StepNumbers
) -> StepNumbers:
    """Return the numbers of a state, or raise StateError; an empty one starts afresh.

    The settings stay as they are, and so does a fixed scale; a dynamic one is brought between
    its bounds. Statistics that the state lacks start afresh.
    """
    check_keys("a loss scale", state, ())
    first, rule = judge.first(), judge.settings
    if not state:
        return first
    if (found := read_foreign(state)) is not None:
        state = guard_state(judge, present) | found
    check_keys("a loss scale", state, ("scale", "settings", *COUNTS))
    with reading("a loss scale"):
        scale = scale_number("the scale", state["scale"])
        counts = {name: float(read_count(name, state[name])) for name in COUNTS}
        settings = dict(state["settings"])
    if rule.dynamic:
        scale = min(max(scale, rule.min_scale), rule.max_scale)
        counts["credit"] = min(counts["credit"], rule.hysteresis)
    else:
        scale, counts["counter"], counts["credit"] = first.scale, 0.0, first.credit
    with reading("the statistics of outliers"):
        saved = state.get("outliers", {})
        names = () if judge.outliers is None else judge.outliers.of
        statistics = tuple(_statistic(saved.get(name, Statistic())) for name in names)
    for name, value in asdict(rule).items():
        if (before := settings.get(name, value)) != value:
            logger.warning(
                "loss scale: %s was %r in the checkpoint, is now %r", name, before, value
            )
    return first._replace(scale=scale, **counts, statistics=statistics)


def _statistic(numbers: Any) -> Statistic:
    count, weight, mean, variance = (check_number("a statistic", one) for one in numbers)
    is_count = count >= 0 and count == int(count)
    if not (is_count and 0 <= weight <= 1 and math.isfinite(mean) and 0 <= variance < math.inf):
        raise StateError(f"no statistic has the numbers {list(numbers)}")
    return Statistic(count, weight, mean, variance)


def _apex(state: Mapping[str, Any]) -> tuple[Any, Any]:
    scaler = state["loss_scaler0"]
    return scaler["loss_scale"], scaler["unskipped"]


def _deepspeed(state: Mapping[str, Any]) -> tuple[Any, Any]:
    clean = state["cur_iter"] - state["last_overflow_iter"] - 1
    return state["cur_scale"], clean % state["scale_window"]


# By the keys that identify a library's state: how scale and counter are read from it.
READERS: dict[tuple[str, ...], Reader] = {
    ("scale", "_growth_tracker"): lambda s: (s["scale"], s["_growth_tracker"]),  # torch
    ("dynamic_scale", "step_counter"): lambda s: (
        s["dynamic_scale"],
        s["step_counter"],
    ),  # Keras 3
    ("current_loss_scale", "good_steps"): lambda s: (s["current_loss_scale"], s["good_steps"]),
    ("loss_scaler0",): _apex,
    ("cur_scale", "cur_iter", "last_overflow_iter", "scale_window"): _deepspeed,
}


def read_foreign(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return scale and counter of a state of torch, tf.keras, Keras 3, Apex or DeepSpeed.

    Return None if it is a state of none of them, and raise StateError if it cannot be read.

    Examples
    --------
    >>> read_foreign({"scale": 1024.0, "growth_interval": 2000, "_growth_tracker": 7})
    {'scale': 1024.0, 'counter': 7}
    """
    for keys, reader in READERS.items():
        if not all(key in state for key in keys):
            continue
        with reading(f"a loss scale with {', '.join(keys)}"):
            scale, counter = reader(state)
            return {"scale": float(scale), "counter": int(counter)}
    return None


def check_scales(scales: Sequence[object], saved: Sequence[object]) -> None:
    """Refuse other loss scales than those saved; they may be new where none was saved."""
    if saved and len(saved) != len(scales):
        raise StateError(
            f"the checkpoint has {len(saved)} loss scales, here are {len(scales)}: a run with "
            "one goes on with one, LossScaleOptimizer(optimizer, dynamic=False, "
            "initial_scale=1) if it is not to scale any more"
        )


def restore_scales(scales: Sequence[Any], saved: Sequence[Mapping[str, Any]]) -> None:
    """Continue the loss scales that were saved; those that are new start afresh."""
    for scale, state in zip(scales, saved, strict=False):
        scale.load_state_dict(state)
    for scale in scales[len(saved) :]:
        logger.warning(
            "the checkpoint has no loss scale: this one starts at %g", scale.loss_scale
        )
