"""A loss scale around an optimizer, by which small gradients survive in 16 bits."""

import math
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sweephand.base.checks import check_choice, check_flag, check_int, check_number
from sweephand.train.loss_scale.judgement import (
    Outliers,
    Reduce,
    Refill,
    ScaleSettings,
    scale_number,
)
from sweephand.train.loss_scale.step_guard import Optimizer, Stage, StepGuard, Verdict
from sweephand.train.loss_scale.step_result import Hook


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
    check_finite : bool
        False applies every step; only for a fixed scale.
    measure_underflow : bool
        Also measure `StepResult.underflow` where it needs a pass of its own: on accelerators.
    clip_norm, outliers, verdict, max_consecutive_skips, num_threads, reduce, on_skip
        As for `StepGuard`.

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
        clip_norm: float | None = None,
        outliers: Outliers | None = None,
        verdict: Verdict | None = None,
        max_consecutive_skips: int | None = 100,
        check_finite: bool = True,
        measure_underflow: bool = False,
        num_threads: int = 1,
        reduce: Reduce | None = None,
        on_skip: Hook | None = None,
    ) -> None:
        if not check_flag("dynamic", dynamic):
            if initial_scale is None:
                raise ValueError("dynamic=False needs an initial_scale")
            if dynamic_growth_steps is not None:
                raise ValueError("dynamic=False takes no dynamic_growth_steps")
        check_choice("refill", refill, "clean step", "growth")
        if not 1 < check_number("growth_factor", growth_factor) < math.inf:
            raise ValueError(f"growth_factor must be finite and above 1, got {growth_factor!r}")
        if not 0 < check_number("backoff_factor", backoff_factor) < 1:
            raise ValueError(f"backoff_factor must lie between 0 and 1, got {backoff_factor!r}")
        if dynamic_growth_steps is None:
            dynamic_growth_steps = 2000
        largest = float(np.finfo(np.float32).max)
        bounds = {
            "min_scale": scale_number("min_scale", min_scale),
            "initial_scale": scale_number(
                "initial_scale", 2.0**15 if initial_scale is None else initial_scale
            ),
            "max_scale": scale_number("max_scale", largest if max_scale is None else max_scale),
        }
        for (lower, least), (upper, most) in pairwise(bounds.items()):
            if dynamic and least > most:
                raise ValueError(f"{lower} must not be above {upper}, got {least} and {most}")
        self._settings = ScaleSettings(
            dynamic=dynamic,
            growth_steps=check_int("dynamic_growth_steps", dynamic_growth_steps),
            growth_factor=float(growth_factor),
            backoff_factor=float(backoff_factor),
            hysteresis=check_int("hysteresis", hysteresis),
            refill=refill,
            **bounds,
        )
        self._check_finite = check_flag("check_finite", check_finite)
        if dynamic and not check_finite:
            raise ValueError("check_finite=False is for a fixed scale: give dynamic=False")
        self._measures_underflow = measure_underflow
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
