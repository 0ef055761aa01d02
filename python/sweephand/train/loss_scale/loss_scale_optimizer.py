"""A loss scale around an optimizer, by which small gradients survive in 16 bits."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sweephand.base.checks import check_flag, check_function, check_int
from sweephand.train.learners.finite_check import Cause
from sweephand.train.learners.learner import Learner
from sweephand.train.loss_scale.forwarded_hyperparameters import ForwardsHyperparameters
from sweephand.train.loss_scale.loss_scale import LossScale, Stage
from sweephand.train.loss_scale.optimizers import Optimizers, StepUndone
from sweephand.train.loss_scale.scale_settings import OnNan, Refill, check_settings
from sweephand.train.loss_scale.step_log import Hook, ScaleLog
from sweephand.train.loss_scale.step_result import StepResult
from sweephand.train.loss_scale.worker_agreement import Reduce
from sweephand.train.loss_scale.wrap_optimizers import listed, mark_wrapped, optimizers_of

Optimizer = TypeVar("Optimizer")
T = TypeVar("T")


class LossScaleOptimizer(ForwardsHyperparameters, LossScale, Generic[Optimizer]):
    """An optimizer of gradients from a loss that was multiplied by a scale.

    Small gradients vanish in float16. So the loss is multiplied by a scale, and the gradients
    are divided by it before the step. Where a gradient is NaN or infinite, the step is skipped:
    parameters, moments, weight decay and schedules stay as they are, and the scale backs off.
    After enough applied steps in a row it grows.

    Each step passes through three stages: `get_scaled_loss`; then `unscale_` or
    `get_unscaled_gradients`, after which gradients may be clipped; then `step` or
    `apply_gradients`. Out of order they raise RuntimeError. `step` unscales if that was not
    done; `minimize` does all three.

    The hyperparameters of the inner optimizer are read and set as attributes, in every
    parameter group: under their own names (``betas``, ``eps``, ``weight_decay``) and those of
    Keras (``learning_rate`` or ``lr``, ``beta_1``, ``beta_2``, ``epsilon``). Where the groups
    differ, a tuple with the value of each is read.

    Parameters
    ----------
    inner_optimizer : torch.optim.Optimizer or a learner of sweephand.numpy, or a list of them
        The optimizer of the steps. Several take or skip each step together.
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
    max_consecutive_skips : int, optional
        The skipped step in a row that raises `LossScaleError`; None: never.
    check_finite : bool
        False applies every step; only for a fixed scale.
    measure_underflow : bool
        Also measure `StepResult.underflow` where it needs a pass of its own: on accelerators.
    num_threads : int
        Threads that share the pass over gradients in main memory.
    reduce : callable, optional
        Takes a float64 array of shape (5,) and returns its element-wise maximum over all
        workers; called once a step, so that all skip or none does. By default that of
        ``torch.distributed``, if it is initialised and the optimizer is torch's.
    on_skip, on_growth, on_backoff, on_floor : callable, optional
        Called with the `StepResult` of a step that was skipped, or that made the scale grow,
        back off, or stay at ``min_scale`` when it should back off further.

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

    _inner: Optimizers

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
        optimizers = listed(inner_optimizer)
        self._inner = optimizers_of(
            optimizers,
            check_int("num_threads", num_threads),
            check_flag("measure_underflow", measure_underflow),
        )
        self._inner_optimizer = inner_optimizer
        settings = check_settings(
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
        log = ScaleLog(max_consecutive_skips, on_skip, on_growth, on_backoff, on_floor)
        self._reduce = check_function("reduce", reduce)
        super().__init__(settings, log, check_flag("check_finite", check_finite))
        mark_wrapped(optimizers, self)

    def __repr__(self) -> str:
        inner = ", ".join(type(one).__name__ for one in listed(self._inner_optimizer))
        kind = "dynamic" if self.dynamic else "fixed"
        return f"LossScaleOptimizer({inner}; {kind} scale, now {self.loss_scale:g})"

    @property
    def inner_optimizer(self) -> Optimizer:
        """The wrapped optimizer, as it was passed in."""
        return self._inner_optimizer

    def apply_gradients(
        self,
        pairs: Iterable[tuple[T | None, T]],
        num_samples: int = 1,
        sweeps_ended: int = 0,
        *,
        minibatch_ids: Sequence[str] = (),
    ) -> StepResult:
        """Take the step with unscaled gradients, or skip it.

        Parameters
        ----------
        pairs : iterable of (gradient or None, parameter)
            Gradients as `get_unscaled_gradients` returned them, clipped or not.
        num_samples, sweeps_ended : int
            For a NumPy learner, to which the gradients are sums over that many samples.
        minibatch_ids : sequence of str
            For the result and for errors.

        Raises
        ------
        RuntimeError
            If the gradients were not unscaled.
        ValueError
            If a parameter is not one of the inner optimizer's, or comes twice.
        LossScaleError
            If too many steps in a row were skipped.
        """
        self._expect(Stage.UNSCALED, "apply gradients")
        self._inner.hold(self._inner.in_order(pairs))
        return self.finish(self._inner, num_samples, sweeps_ended, minibatch_ids)

    def step(
        self,
        closure: Callable[[], Any] | None = None,
        *,
        minibatch_ids: Sequence[str] = (),
    ) -> StepResult:
        """Take the step with the gradients that the parameters of a torch optimizer hold.

        They are unscaled first if that was not done.

        Parameters
        ----------
        closure : callable, optional
            For optimizers that evaluate the model several times: it clears the gradients,
            scales the loss, runs backward and returns the loss. If one evaluation is not
            finite, all of the step is undone.
        minibatch_ids : sequence of str
            For the result and for errors.

        Raises
        ------
        RuntimeError
            If no loss was scaled.
        ValueError
            If no parameter has a gradient.
        LossScaleError
            If too many steps in a row were skipped.
        """
        if closure is not None:
            self._expect(Stage.READY, "step with a closure")
            with self._discarding_on_error():
                self._inner.step_with(lambda: self._evaluated(closure))
            return self._record(minibatch_ids)
        if self._stage is Stage.SCALED:
            self.unscale_()
        return self.finish(self._inner, 1, 0, minibatch_ids)

    def minimize(
        self, loss: Callable[[], T] | T, var_list: Sequence[T] | T | None = None
    ) -> StepResult:
        """Scale a loss, differentiate it and take the step: all with torch.

        Parameters
        ----------
        loss : callable or tensor
            The loss, or a function that computes it.
        var_list : tensor or sequence of tensor, optional
            The parameters to change; by default all of the inner optimizer's.

        Raises
        ------
        ValueError
            If one in ``var_list`` is not the inner optimizer's.
        """
        scaled = self.get_scaled_loss(loss() if callable(loss) else loss)
        with self._discarding_on_error():
            self._inner.differentiate(scaled, var_list)
        return self.step()

    def update(
        self,
        gradient_sums: Sequence[T | None],
        num_samples: int,
        sweeps_ended: int = 0,
        *,
        minibatch_ids: Sequence[str] = (),
    ) -> StepResult:
        """Take the step of a NumPy learner with sums of gradients that still carry the scale.

        They are not changed: the scale is removed in float32 on the way into the update, which
        keeps values that would underflow in float16 without the scale.

        Parameters
        ----------
        gradient_sums, num_samples, sweeps_ended
            As for ``update`` of the learner.
        minibatch_ids : sequence of str
            For the result and for errors.

        Raises
        ------
        RuntimeError
            If no loss was scaled, or the gradients are unscaled already.
        TypeError
            If the inner optimizer is torch's: use `sweephand.torch.Learner`.
        LossScaleError
            If too many steps in a row were skipped.
        """
        self._expect(Stage.SCALED, "update")
        with self._discarding_on_error():
            self._judge(self._inner.hold_scaled(gradient_sums, self.loss_scale))
        return self.finish(self._inner, num_samples, sweeps_ended, minibatch_ids)

    def finish(
        self,
        optimizer: Optimizers | Learner,
        num_samples: int,
        sweeps_ended: int,
        minibatch_ids: Sequence[str],
    ) -> StepResult:
        """Let an optimizer take the step or skip it, as its gradients were judged.

        Parameters
        ----------
        optimizer : Optimizers or Learner
            The wrapped optimizers, or the learner around those of torch.
        num_samples, sweeps_ended, minibatch_ids
            As for `apply_gradients`.
        """
        self._expect(Stage.UNSCALED, "step")
        findings, cause = self._verdict
        with self._discarding_on_error():
            if cause is Cause.OK and findings is not None:
                optimizer.take(num_samples, sweeps_ended)
            else:
                optimizer.skip(num_samples, sweeps_ended)
        return self._record(minibatch_ids)

    def _evaluated(self, closure: Callable[[], T]) -> T:
        """Call a closure and unscale its gradients; `StepUndone` if they are not finite."""
        self._stage = Stage.READY
        loss = closure()
        self.unscale_()
        if self._verdict[1] is not Cause.OK:
            raise StepUndone
        return loss
