"""The outcome of one guarded step, its log, and the error after too many skips."""

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from sweephand.base.checks import check_function, check_int
from sweephand.errors import LossScaleError
from sweephand.train.learners.arrays import Cause, Findings
from sweephand.train.loss_scale.judgement import StepNumbers

CauseName: TypeAlias = Literal["ok", "inf", "nan", "outlier", "no gradient"]
# By their number; the fourth is a loss that is NaN.
CAUSES: tuple[CauseName, ...] = ("ok", "inf", "nan", "nan", "outlier")
logger = logging.getLogger("sweephand")


class StepResult:
    """The outcome of one step, whose attributes wait for an accelerator when they are read.

    Attributes
    ----------
    minibatch_ids : tuple of str
        The sequences of the minibatch, if they were given.
    findings : Findings or None
        Source of the counts and of `underflow`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> learner = sh.numpy.SGD({"w": np.zeros(2, np.float32)}, 0.1)
    >>> optimizer = sh.LossScaleOptimizer(learner, initial_scale=8)
    >>> loss = optimizer.get_scaled_loss(1.0)
    >>> result = optimizer.update([np.float32([np.inf, 1])], 1)
    >>> result.applied, result.cause, result.scale_used, result.scale_next
    (False, 'inf', 8.0, 4.0)
    """

    def __init__(
        self,
        read: Callable[[], StepNumbers],
        findings: Findings | None,
        minibatch_ids: tuple[str, ...],
    ) -> None:
        self._read = read
        self.findings = findings
        self.minibatch_ids = minibatch_ids

    def __repr__(self) -> str:
        return (
            f"StepResult(applied={self.applied}, cause={self.cause!r}, "
            f"scale_used={self.scale_used}, scale_next={self.scale_next}, "
            f"counter={self.counter}, minibatch_ids={self.minibatch_ids})"
        )

    @property
    def applied(self) -> bool:
        """True if the parameters were changed."""
        return bool(self._read().is_good) and self.findings is not None

    @property
    def cause(self) -> CauseName:
        """The cause over all workers.

        "no gradient" means that a worker had no gradient while other workers could take the
        step. An outlier may have been clipped and applied.
        """
        cause = int(self._read().cause)
        return CAUSES[cause] if self.findings is not None or cause else "no gradient"

    @property
    def scale_used(self) -> float:
        """The loss scale of this step."""
        return float(self._read().scale_used)

    @property
    def scale_next(self) -> float:
        """The loss scale of the next step."""
        return float(self._read().scale)

    @property
    def counter(self) -> int:
        """Applied steps in a row since the scale last changed."""
        return int(self._read().counter)

    @property
    def is_skipped(self) -> bool:
        """True if the step was skipped, and counts as such: "no gradient" does not."""
        return not self._read().is_good

    @property
    def gradient_norm(self) -> float:
        """The norm of the unscaled gradients before clipping; 0 if this worker had none.

        It is that of all shards if the guard clips or watches it, else of this worker's.
        """
        norm = self._read().norm
        if self.findings is None:
            return 0.0
        return self.findings.gradient_norm if norm < 0 else norm

    @property
    def num_nan(self) -> int:
        """Elements of this worker's gradients that are NaN.

        On an accelerator they are counted when this is first read: at least one for each such
        gradient that is not there any more.
        """
        return 0 if self.findings is None else self.findings.num_nan

    @property
    def num_inf(self) -> int:
        """Elements of this worker's gradients that are infinite, scaled or unscaled."""
        return 0 if self.findings is None else self.findings.num_inf

    @property
    def underflow(self) -> float:
        """The share of gradient elements that were too small.

        They are zero or subnormal as a float16 while scaled, or became zero when unscaled. A
        share that falls when the scale rises shows that the scale is too low.
        """
        return 0.0 if self.findings is None else self.findings.underflow

    @property
    def bad_parameters(self) -> tuple[str, ...]:
        """The first few parameters whose gradient is not finite."""
        return () if self.findings is None else self.findings.bad_parameters


Hook: TypeAlias = Callable[[StepResult], object]


class GuardLog:
    """Calls the hook of skips, logs them, and raises when too many are in a row.

    With a loss scale, skips of infinite gradients are usual, and not logged.
    """

    def __init__(
        self, max_consecutive_skips: int | None, on_skip: Hook | None, *, is_scaled: bool
    ) -> None:
        if max_consecutive_skips is not None:
            check_int("max_consecutive_skips", max_consecutive_skips)
        self._max_consecutive_skips = max_consecutive_skips
        self._on_skip = check_function("on_skip", on_skip)
        self._is_scaled = is_scaled

    def add(self, result: StepResult, numbers: StepNumbers) -> None:
        """Log a step, and raise if it was one skip too many."""
        if result.is_skipped:
            # A smaller scale does not cure the last two causes.
            if not self._is_scaled or numbers.cause >= Cause.NAN_LOSS:
                logger.warning("%s", self._describe(result, numbers))
            if self._on_skip is not None:
                self._on_skip(result)
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
