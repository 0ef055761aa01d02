"""The outcome of one guarded step."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from sweephand.train.learners.finite_check import Findings
from sweephand.train.loss_scale.step_numbers import StepNumbers

CauseName: TypeAlias = Literal["ok", "inf", "nan", "outlier", "no gradient"]
# By their number; the fourth is a loss that is NaN.
CAUSES: tuple[CauseName, ...] = ("ok", "inf", "nan", "nan", "outlier")


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
