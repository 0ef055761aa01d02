"""The settings of a loss scale, checked."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sweephand.base.checks import check_flag, check_int, check_number

Refill: TypeAlias = Literal["clean step", "growth"]
OnNan: TypeAlias = Literal["back off", "report"]


@dataclass(frozen=True)
class ScaleSettings:
    """The settings of a loss scale, as `check_settings` makes them."""

    dynamic: bool
    initial_scale: float
    growth_steps: int
    growth_factor: float
    backoff_factor: float
    min_scale: float
    max_scale: float
    hysteresis: int
    refill: Refill
    nan: OnNan


# Of a guard without a loss scale.
NO_SCALE = ScaleSettings(False, 1.0, 1, 2.0, 0.5, 1.0, 1.0, 1, "clean step", "back off")


def check_settings(*, refill: Refill, nan: OnNan, **given: object) -> ScaleSettings:
    """Check the arguments of a `LossScaleOptimizer` and fill in the defaults."""
    if not check_flag("dynamic", given["dynamic"]):
        if given["initial_scale"] is None:
            raise ValueError("dynamic=False needs an initial_scale")
        if given["dynamic_growth_steps"] is not None:
            raise ValueError("dynamic=False takes no dynamic_growth_steps")
    if refill not in ("clean step", "growth"):
        raise ValueError(f"refill must be 'clean step' or 'growth', got {refill!r}")
    if nan not in ("back off", "report"):
        raise ValueError(f"nan must be 'back off' or 'report', got {nan!r}")
    values: dict[str, Any] = {
        name: check(name, _DEFAULTS.get(name) if given[name] is None else given[name])
        for name, check in _CHECKS.items()
    }
    growth_steps = values.pop("dynamic_growth_steps")
    settings = ScaleSettings(growth_steps=growth_steps, refill=refill, nan=nan, **values)
    if not 1 < settings.growth_factor < math.inf:
        raise ValueError(
            f"growth_factor must be finite and above 1, got {given['growth_factor']!r}"
        )
    if not 0 < settings.backoff_factor < 1:
        raise ValueError(
            f"backoff_factor must lie between 0 and 1, got {given['backoff_factor']!r}"
        )
    if settings.dynamic:
        for lower, upper in (("min_scale", "initial_scale"), ("initial_scale", "max_scale")):
            if values[lower] > values[upper]:
                raise ValueError(
                    f"{lower} must not be above {upper}, "
                    f"got {values[lower]} and {values[upper]}"
                )
    return settings


def scale_number(name: str, value: object) -> float:
    """Return a loss scale as the float32 it is: positive and finite."""
    scale = as_float32(check_number(name, value))
    if not 0 < scale < math.inf:
        raise ValueError(f"{name} must be a positive and finite float32, got {value!r}")
    return scale


def as_float32(value: float) -> float:
    """Return the nearest float32, which is infinite for a number that is too large."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "dynamic": check_flag,
    "initial_scale": scale_number,
    "dynamic_growth_steps": check_int,
    "growth_factor": check_number,
    "backoff_factor": check_number,
    "min_scale": scale_number,
    "max_scale": scale_number,
    "hysteresis": check_int,
}
_DEFAULTS = {
    "initial_scale": 2.0**15,
    "dynamic_growth_steps": 2000,
    "max_scale": float(np.finfo(np.float32).max),
}
