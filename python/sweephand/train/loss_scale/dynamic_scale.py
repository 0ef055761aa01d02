"""A loss scale that grows and backs off: numbers only, no gradients."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from sweephand.train.checkpoint.read_state import read_count, reading
from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.scale_settings import ScaleSettings, as_float32, scale_number

Change: TypeAlias = Literal["none", "growth", "backoff", "floor"]


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
        if not self.settings.dynamic or cause is Cause.OUTLIER:
            return "none"  # the gradients of an outlier are finite: the scale is right
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
        """Continue from scale, counter and credit of a state, or raise StateError.

        The settings stay as they are, and so does a fixed scale; a dynamic one is brought
        between its bounds.
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
        grown = as_float32(self.scale * self.settings.growth_factor)
        return self._move(min(grown, self.settings.max_scale), "growth")

    def _back_off(self) -> Change:
        self.credit = max(self.credit - 1, 0)
        if self.credit > 0:
            return "none"
        reduced = as_float32(self.scale * self.settings.backoff_factor)
        if reduced < self.settings.min_scale:
            self.scale = self.settings.min_scale
            return "floor"
        return self._move(reduced, "backoff")

    def _move(self, scale: float, change: Change) -> Change:
        moved = scale != self.scale
        self.scale = scale
        return change if moved else "none"
