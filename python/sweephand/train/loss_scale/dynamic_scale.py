"""A loss scale that grows and backs off: numbers only, no gradients."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sweephand.checks import check_flag, check_int, check_number
from sweephand.train.checkpoint.read_state import read_count, reading
from sweephand.train.learners.finite_check import Cause

DEFAULT_SCALE = 2.0**15
DEFAULT_GROWTH_STEPS = 2000
LARGEST = float(np.finfo(np.float32).max)

Refill: TypeAlias = Literal["clean step", "growth"]
OnNan: TypeAlias = Literal["back off", "report"]
Change: TypeAlias = Literal["none", "growth", "backoff", "floor"]


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


def check_settings(
    *,
    dynamic: object,
    initial_scale: object,
    dynamic_growth_steps: object,
    growth_factor: object,
    backoff_factor: object,
    min_scale: object,
    max_scale: object,
    hysteresis: object,
    refill: Refill,
    nan: OnNan,
) -> ScaleSettings:
    """Check the arguments of a `LossScaleOptimizer` and fill in the defaults.

    Raises
    ------
    ArgumentTypeError
        If an argument is of a wrong type.
    ValueError
        If one is out of its range, or two contradict each other.
    """
    dynamic = check_flag("dynamic", dynamic)
    if not dynamic and initial_scale is None:
        raise ValueError("dynamic=False needs an initial_scale")
    if not dynamic and dynamic_growth_steps is not None:
        raise ValueError("dynamic=False takes no dynamic_growth_steps")
    if refill not in ("clean step", "growth"):
        raise ValueError(f"refill must be 'clean step' or 'growth', got {refill!r}")
    if nan not in ("back off", "report"):
        raise ValueError(f"nan must be 'back off' or 'report', got {nan!r}")
    settings = ScaleSettings(
        dynamic=dynamic,
        initial_scale=scale_number("initial_scale", _default(initial_scale, DEFAULT_SCALE)),
        growth_steps=check_int(
            "dynamic_growth_steps", _default(dynamic_growth_steps, DEFAULT_GROWTH_STEPS)
        ),
        growth_factor=check_number("growth_factor", growth_factor),
        backoff_factor=check_number("backoff_factor", backoff_factor),
        min_scale=scale_number("min_scale", min_scale),
        max_scale=scale_number("max_scale", _default(max_scale, LARGEST)),
        hysteresis=check_int("hysteresis", hysteresis),
        refill=refill,
        nan=nan,
    )
    if not 1 < settings.growth_factor < math.inf:
        raise ValueError(f"growth_factor must be finite and above 1, got {growth_factor!r}")
    if not 0 < settings.backoff_factor < 1:
        raise ValueError(f"backoff_factor must lie between 0 and 1, got {backoff_factor!r}")
    if dynamic:
        for lower, upper in (("min_scale", "initial_scale"), ("initial_scale", "max_scale")):
            if getattr(settings, lower) > getattr(settings, upper):
                raise ValueError(
                    f"{lower} must not be above {upper}, "
                    f"got {getattr(settings, lower)} and {getattr(settings, upper)}"
                )
    return settings


class DynamicScale:
    """A loss scale, and the counts that decide when it moves.

    Attributes
    ----------
    settings : ScaleSettings
    scale : float
        A float32.
    counter : int
        Applied steps in a row since the scale last changed, or would have but for its ceiling.
    credit : int
        Overflows that are let pass until one halves the scale.
    """

    def __init__(self, settings: ScaleSettings) -> None:
        self.settings = settings
        self.scale = settings.initial_scale
        self.counter = 0
        self.credit = settings.hysteresis

    def advance(self, cause: Cause) -> Change:
        """Count one step, and return how the scale moved."""
        if not self.settings.dynamic:
            return "none"
        if cause is Cause.OK:
            return self._clean()
        self.counter = 0
        is_reported = cause is Cause.NAN and self.settings.nan == "report"
        return "none" if is_reported or cause is Cause.NAN_LOSS else self._back_off()

    def state_dict(self) -> dict[str, Any]:
        """Return scale, counter, credit and settings as JSON can hold them."""
        return {
            "scale": self.scale,
            "counter": self.counter,
            "credit": self.credit,
            "settings": asdict(self.settings),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from scale, counter and credit of a state; the settings stay as they are.

        A fixed scale stays as it is too; a dynamic one is brought between its bounds.

        Raises
        ------
        StateError
            If a value is missing or none that a scale, counter or credit can have.
        """
        with reading("a loss scale"):
            scale = scale_number("the scale", state["scale"])
            counter = read_count("the counter", state["counter"])
            credit = read_count("the hysteresis credit", state["credit"])
        if self.settings.dynamic:
            self.scale = min(max(scale, self.settings.min_scale), self.settings.max_scale)
            self.counter = counter
            self.credit = min(credit, self.settings.hysteresis)

    def _clean(self) -> Change:
        self.counter += 1
        if self.settings.refill == "clean step":
            self.credit = self.settings.hysteresis
        if self.counter < self.settings.growth_steps:
            return "none"
        self.counter = 0
        self.credit = self.settings.hysteresis
        grown = min(_float32(self.scale * self.settings.growth_factor), self.settings.max_scale)
        return self._move(grown, "growth")

    def _back_off(self) -> Change:
        self.credit = max(self.credit - 1, 0)
        if self.credit > 0:
            return "none"
        reduced = _float32(self.scale * self.settings.backoff_factor)
        if reduced < self.settings.min_scale:
            self.scale = self.settings.min_scale
            return "floor"
        return self._move(reduced, "backoff")

    def _move(self, scale: float, change: Change) -> Change:
        moved = scale != self.scale
        self.scale = scale
        return change if moved else "none"


def scale_number(name: str, value: object) -> float:
    """Return a loss scale as the float32 it is: positive and finite."""
    scale = _float32(check_number(name, value))
    if not 0 < scale < math.inf:
        raise ValueError(f"{name} must be a positive and finite float32, got {value!r}")
    return scale


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):  # an overflow is infinite, and its user asks
        return float(np.float32(value))


def _default(value: object, default: object) -> object:
    return default if value is None else value
