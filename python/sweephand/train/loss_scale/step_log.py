"""The log of guarded steps: counts, hooks and warnings."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sweephand.base.checks import check_function, check_int
from sweephand.errors import LossScaleError
from sweephand.train.loss_scale.dynamic_scale import Change
from sweephand.train.loss_scale.step_result import StepResult

Hook: TypeAlias = Callable[[StepResult], object]
logger = logging.getLogger("sweephand")


class GuardLog:
    """Counts steps, calls hooks, and raises when too many in a row are skipped.

    The arguments are those of `StepGuard` and `LossScaleOptimizer`.
    """

    def __init__(
        self,
        max_consecutive_skips: int | None,
        on_skip: Hook | None,
        on_growth: Hook | None = None,
        on_backoff: Hook | None = None,
        on_floor: Hook | None = None,
        *,
        is_scaled: bool = False,
    ) -> None:
        self._is_scaled = is_scaled
        if max_consecutive_skips is not None:
            check_int("max_consecutive_skips", max_consecutive_skips)
        self._max_consecutive_skips = max_consecutive_skips
        self._on_skip = check_function("on_skip", on_skip)
        self._on_change: dict[Change, Hook | None] = {
            "growth": check_function("on_growth", on_growth),
            "backoff": check_function("on_backoff", on_backoff),
            "floor": check_function("on_floor", on_floor),
        }
        self._steps = self._applied_steps = self._skips_in_a_row = 0

    def add(self, result: StepResult, change: Change, *, is_reported: bool) -> None:
        """Count a step, and call the hooks that it concerns."""
        is_skipped = result.is_skipped
        self._steps += 1
        self._applied_steps += not is_skipped
        self._skips_in_a_row = self._skips_in_a_row + 1 if is_skipped else 0
        if is_reported:
            logger.warning("%s", self._describe(result))
        if is_skipped and self._on_skip is not None:
            self._on_skip(result)
        if (hook := self._on_change.get(change)) is not None:
            hook(result)
        limit = self._max_consecutive_skips
        if limit is not None and self._skips_in_a_row >= limit:
            raise LossScaleError(
                self._describe(result),
                self._steps,
                result.scale_used,
                result.cause,
                result.bad_parameters,
                result.minibatch_ids,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "steps": self._steps,
            "applied_steps": self._applied_steps,
            "skips_in_a_row": self._skips_in_a_row,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the counts of a state, or from 0 where it lacks them."""
        self._steps = state.get("steps", 0)
        self._applied_steps = state.get("applied_steps", 0)
        self._skips_in_a_row = state.get("skips_in_a_row", 0)

    def _describe(self, result: StepResult) -> str:
        """Describe a skipped step: its cause, its place, and a remedy."""
        where = f"first bad parameters: {', '.join(result.bad_parameters) or 'none here'}"
        if result.minibatch_ids:
            where += f"; minibatch: {', '.join(result.minibatch_ids[:5])}"
        at = f" at loss scale {result.scale_used:g}" if self._is_scaled else ""
        lower = ", or a lower min_scale," if self._is_scaled else ""
        advice = {
            "nan": "no scale cures NaN, look for its source in the data or the model",
            "inf": f"a smaller learning rate or clipping{lower} may help",
            "outlier": "look at its data; Outliers(action='clip') takes such steps",
        }[result.cause]
        return (
            f"step {self._steps} skipped, {self._skips_in_a_row} in a row: {result.cause}{at}; "
            f"{where}; {advice}"
        )
