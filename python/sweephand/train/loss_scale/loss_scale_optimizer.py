"""A loss scale around an optimizer, by which small gradients survive in 16 bits."""

from typing import ClassVar

from sweephand.base.checks import check_flag
from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.outliers import Outliers
from sweephand.train.loss_scale.scale_settings import OnNan, Refill, check_settings
from sweephand.train.loss_scale.step_guard import Optimizer, Stage, StepGuard, Verdict
from sweephand.train.loss_scale.step_log import Hook
from sweephand.train.loss_scale.step_numbers import Reduce


class LossScaleOptimizer(StepGuard[Optimizer]):
    """An optimizer of gradients from a loss that was multiplied by a scale.

    Small gradients vanish in float16. So the loss is multiplied by a scale, and the gradients
    are divided by it before the step. Where a gradient is NaN or infinite, the step is skipped:
    parameters, moments, weight decay and schedules stay as they are, and the scale backs off.
    After enough applied steps in a row it grows.

    Each step passes through three stages: `get_scaled_loss`; then `unscale_` or
    `get_unscaled_gradients`, after which gradients may be clipped; then `step` or
    `apply_gradients`. Out of order they raise RuntimeError. `step` unscales if that was not
    done; `minimize` does all three. All else is as for `StepGuard`.

    Parameters
    ----------
    inner_optimizer : torch.optim.Optimizer or a learner of sweephand.numpy, or a list of them
        The optimizer of the steps.
    dynamic : bool
        Let the scale change. A fixed one also checks gradients and skips steps.
    initial_scale : float, optional
        2**15 by default; needed if the scale is fixed. Powers of two are exact.
    dynamic_growth_steps : int, optional
        Applied steps in a row after which the scale grows; 2000 by default.
    growth_factor, backoff_factor : float
        Factors on the scale when it grows and when it backs off.
    min_scale, max_scale : float
        The bounds of the scale; ``max_scale=None`` is the largest float32.
    hysteresis : int
        The overflow that makes the scale back off: 1 is each, 2 the second, ...
    refill : {"clean step", "growth"}
        Event that resets the count of overflows.
    nan : {"back off", "report"}
        Back off after NaN gradients as after infinite ones, or leave the scale alone and log
        them at once. A NaN loss is always skipped and logged, and leaves the scale alone.
    check_finite : bool
        False applies every step; only for a fixed scale.
    measure_underflow : bool
        Also measure `StepResult.underflow` where it needs a pass of its own: on accelerators.
    on_growth, on_backoff, on_floor : callable, optional
        Called with the `StepResult` of a step that made the scale grow, back off, or stay at
        ``min_scale`` when it should back off further.
    clip_norm, outliers, verdict, max_consecutive_skips, num_threads, reduce, on_skip
        As for `StepGuard`.

    Raises
    ------
    ArgumentTypeError
        (a TypeError and a ValueError) If an argument is of a wrong type, or the inner optimizer
        is not an optimizer or has a loss scale already.
    ValueError
        If an argument is out of its range, two contradict each other, or an optimizer is
        wrapped twice.

    Examples
    --------
    >>> import numpy as np
    >>> import sweephand as sh
    >>> w = np.ones(2, np.float32)
    >>> opt = sh.LossScaleOptimizer(sh.numpy.SGD([w], 0.5), initial_scale=1024)
    >>> seed = opt.get_scaled_loss(1.0)  # the gradient of the scaled loss by the loss
    >>> opt.update([np.array([seed, np.inf], np.float16)], num_samples=1).cause
    'inf'
    >>> opt.loss_scale, w
    (512.0, array([1., 1.], dtype=float32))
    """

    _first_stage: ClassVar[Stage] = Stage.READY

    def __init__(
        self,
        inner_optimizer: Optimizer,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        min_scale: float = 1.0,
        max_scale: float | None = 2.0**24,
        hysteresis: int = 1,
        refill: Refill = "clean step",
        nan: OnNan = "back off",
        clip_norm: float | None = None,
        outliers: Outliers | None = None,
        verdict: Verdict | None = None,
        max_consecutive_skips: int | None = 100,
        check_finite: bool = True,
        measure_underflow: bool = False,
        num_threads: int = 1,
        reduce: Reduce | None = None,
        on_skip: Hook | None = None,
        on_growth: Hook | None = None,
        on_backoff: Hook | None = None,
        on_floor: Hook | None = None,
    ) -> None:
        self._settings = check_settings(
            dynamic=dynamic,
            initial_scale=initial_scale,
            dynamic_growth_steps=dynamic_growth_steps,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            min_scale=min_scale,
            max_scale=max_scale,
            hysteresis=hysteresis,
            refill=refill,
            nan=nan,
        )
        self._check_finite = check_flag("check_finite", check_finite)
        if dynamic and not check_finite:
            raise ValueError("check_finite=False is for a fixed scale: give dynamic=False")
        self._measures_underflow = measure_underflow
        self._on_change = {
            "on_growth": on_growth, "on_backoff": on_backoff, "on_floor": on_floor,
        }  # fmt: skip
        # What a smaller scale does not cure; that it makes others is usual.
        self._reported = (Cause.NAN,) * (nan == "report") + (Cause.NAN_LOSS, Cause.OUTLIER)
        super().__init__(
            inner_optimizer,
            clip_norm=clip_norm,
            outliers=outliers,
            verdict=verdict,
            max_consecutive_skips=max_consecutive_skips,
            num_threads=num_threads,
            reduce=reduce,
            on_skip=on_skip,
        )

    def _described(self) -> str:
        kind = "dynamic" if self.dynamic else "fixed"
        return f"{super()._described()}; {kind} scale, now {self.loss_scale:g}"

    @property
    def dynamic(self) -> bool:
        """True if the scale moves."""
        return self._settings.dynamic

    @property
    def initial_scale(self) -> float:
        """The scale of the first loss."""
        return self._settings.initial_scale

    @property
    def dynamic_counter(self) -> int | None:
        """Applied steps in a row since the scale last changed; None if it is fixed."""
        return int(self._numbers.told().counter) if self.dynamic else None

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Applied steps in a row after which the scale grows; None if it is fixed."""
        return self._settings.growth_steps if self.dynamic else None
