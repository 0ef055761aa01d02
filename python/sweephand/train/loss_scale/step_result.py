"""The outcome of one guarded step."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sweephand.train.learners.finite_check import Cause, Findings

CauseName: TypeAlias = Literal["ok", "inf", "nan", "outlier", "no gradient"]
CAUSES: dict[Cause, CauseName] = {
    Cause.OK: "ok",
    Cause.INF: "inf",
    Cause.NAN: "nan",
    Cause.NAN_LOSS: "nan",
    Cause.OUTLIER: "outlier",
}


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step.

    Attributes
    ----------
    applied : bool
        True if the parameters were changed.
    cause : {"ok", "inf", "nan", "outlier", "no gradient"}
        The cause over all workers; "no gradient" means that a worker had no gradient while
        other workers could take the step. An outlier may have been clipped and applied.
    scale_used, scale_next : float
        The loss scale of this step and of the next.
    counter : int
        Applied steps in a row since the scale last changed.
    minibatch_ids : tuple of str
        The sequences of the minibatch, if they were given.
    findings : Findings or None
        Source of the properties below, which on an accelerator wait for it when they are read.

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

    applied: bool
    cause: CauseName
    scale_used: float
    scale_next: float
    counter: int
    minibatch_ids: tuple[str, ...] = ()
    findings: Findings | None = field(default=None, repr=False, compare=False)
    norm: float | None = field(default=None, repr=False, compare=False)

    @property
    def is_skipped(self) -> bool:
        """True if the step was skipped, and counts as such: "no gradient" does not."""
        return not self.applied and self.cause in ("inf", "nan", "outlier")

    @property
    def gradient_norm(self) -> float:
        """The norm of the unscaled gradients before clipping; 0 if this worker had none.

        It is that of all shards if the guard clips or watches it, else of this worker's.
        """
        if self.norm is not None:
            return self.norm
        return 0.0 if self.findings is None else self.findings.gradient_norm

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
