"""The log of guarded steps: hooks, warnings, and the error after too many skips."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sweephand.base.checks import check_function, check_int
from sweephand.errors import LossScaleError
from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.step_numbers import CHANGES, StepNumbers
from sweephand.train.loss_scale.step_result import StepResult

Hook: TypeAlias = Callable[[StepResult], object]
logger = logging.getLogger("sweephand")


class GuardLog:
    """Calls hooks by their name, and raises when too many steps in a row are skipped.

    Skips of the causes in `reported` are logged at once.
    """

    def __init__(
        self,
        max_consecutive_skips: int | None,
        hooks: Mapping[str, Hook | None],
        reported: tuple[Cause, ...],
        *,
        is_scaled: bool,
    ) -> None:
        if max_consecutive_skips is not None:
            check_int("max_consecutive_skips", max_consecutive_skips)
        self._max_consecutive_skips = max_consecutive_skips
        self._hooks = {name: check_function(name, hook) for name, hook in hooks.items()}
        self._reported, self._is_scaled = reported, is_scaled

    def add(self, result: StepResult, numbers: StepNumbers) -> None:
        """Call the hooks that a step concerns, and raise if it was one skip too many."""
        if result.is_skipped and int(numbers.cause) in self._reported:
            logger.warning("%s", self._describe(result, numbers))
        names = ["on_skip"] * result.is_skipped + [f"on_{CHANGES[int(numbers.change)]}"]
        for name in names:
            if (hook := self._hooks.get(name)) is not None:
                hook(result)
        limit = self._max_consecutive_skips
        if limit is not None and numbers.skips_in_a_row >= limit:
            raise LossScaleError(
                self._describe(result, numbers),
                int(numbers.steps),
                result.scale_used,
                result.cause,
                result.bad_parameters,
                result.minibatch_ids,
            )

    def _describe(self, result: StepResult, numbers: StepNumbers) -> str:
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
            f"step {int(numbers.steps)} skipped, {int(numbers.skips_in_a_row)} in a row: "
            f"{result.cause}{at}; {where}; {advice}"
        )
