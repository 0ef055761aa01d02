"""A loss scale around an optimizer, so that small gradients survive in 16 bits."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from typing import Any, Generic, TypeVar, overload

from sweephand.checks import check_flag, check_function, check_int
from sweephand.train.checkpoint.read_state import check_keys, read_count, reading
from sweephand.train.learners.finite_check import Cause, Findings
from sweephand.train.learners.hyperparameters import PassesHyperparametersOn
from sweephand.train.learners.learner import Learner
from sweephand.train.loss_scale.dynamic_scale import (
    DynamicScale,
    OnNan,
    Refill,
    check_settings,
)
from sweephand.train.loss_scale.foreign_states import read_foreign
from sweephand.train.loss_scale.optimizers import Optimizers, StepUndone
from sweephand.train.loss_scale.step_log import Hook, StepLog
from sweephand.train.loss_scale.step_result import CauseName, StepResult
from sweephand.train.loss_scale.worker_agreement import Reduce, agree
from sweephand.train.loss_scale.wrap_optimizers import listed, mark_wrapped, optimizers_of

Optimizer = TypeVar("Optimizer")
T = TypeVar("T")
logger = logging.getLogger("sweephand")

CAUSES: dict[Cause, CauseName] = {
    Cause.OK: "ok",
    Cause.INF: "inf",
    Cause.NAN: "nan",
    Cause.NAN_LOSS: "nan",
}


class Stage(Enum):
    """The stage that a step has reached."""

    READY = "no loss is scaled"
    SCALED = "a loss is scaled, its gradients are not unscaled"
    UNSCALED = "the gradients are unscaled and wait for the step"


class LossScaleOptimizer(PassesHyperparametersOn, Generic[Optimizer]):
    """An optimizer whose gradients come from a loss that was multiplied by a scale.

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
        What takes the steps. Several take or skip each step together.
    dynamic : bool
        Whether the scale moves. A fixed one is checked and skipped all the same.
    initial_scale : float, optional
        2**15 by default; needed if the scale is fixed. Powers of two are exact.
    dynamic_growth_steps : int, optional
        Applied steps in a row after which the scale grows; 2000 by default.
    growth_factor, backoff_factor : float
        What the scale is multiplied by when it grows and when it backs off.
    min_scale, max_scale : float
        The bounds of the scale; ``max_scale=None`` is the largest float32.
    hysteresis : int
        The overflow that makes the scale back off: 1 is each, 2 the second, ...
    refill : {"clean step", "growth"}
        When the count of overflows starts again.
    nan : {"back off", "report"}
        Whether NaN gradients back off as infinite ones do, or leave the scale alone and are
        logged at once. A NaN loss is always skipped and logged, and leaves the scale alone.
    max_consecutive_skips : int, optional
        The skipped step in a row that raises `LossScaleError`; None: never.
    check_finite : bool
        False applies whatever comes; only for a fixed scale.
    measure_underflow : bool
        Also measure `StepResult.underflow` where that costs a pass of its own: on accelerators.
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
        is none or has a loss scale already.
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
    _stage: Stage
    _nan_loss: Any  # whether a loss was NaN: a bool, or a tensor that is still being computed
    _verdict: tuple[Findings | None, Cause]

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
        self._names: Sequence[str] = ()  # of the model's parameters, if they were told
        self._scale = DynamicScale(
            check_settings(
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
        )
        self._log = StepLog(
            max_consecutive_skips,
            on_skip=on_skip,
            on_growth=on_growth,
            on_backoff=on_backoff,
            on_floor=on_floor,
        )
        self._check_finite = check_flag("check_finite", check_finite)
        if dynamic and not check_finite:
            raise ValueError("check_finite=False is for a fixed scale: give dynamic=False")
        self._reduce = check_function("reduce", reduce)
        self._is_accumulating = False
        self.discard()
        mark_wrapped(optimizers, self)

    @property
    def inner_optimizer(self) -> Optimizer:
        """The wrapped optimizer, as it was passed in."""
        return self._inner_optimizer

    @property
    def dynamic(self) -> bool:
        """Whether the scale moves."""
        return self._scale.settings.dynamic

    @property
    def loss_scale(self) -> float:
        """The scale of the next loss."""
        return self._scale.scale

    @property
    def initial_scale(self) -> float:
        """The scale of the first loss."""
        return self._scale.settings.initial_scale

    @property
    def dynamic_counter(self) -> int | None:
        """Applied steps in a row since the scale last changed; None if it is fixed."""
        return self._scale.counter if self.dynamic else None

    @property
    def dynamic_growth_steps(self) -> int | None:
        """Applied steps in a row after which the scale grows; None if it is fixed."""
        return self._scale.settings.growth_steps if self.dynamic else None

    @property
    def is_unscaled(self) -> bool:
        """Whether gradients are unscaled and wait for the step."""
        return self._stage is Stage.UNSCALED

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, which are keyed by ``id``, for parameters in results and errors.

        A `Trainer` does so with the names in its model.
        """
        own = zip(self._inner.parameters(), self._inner.names(), strict=True)
        self._names = [names.get(id(parameter), name) for parameter, name in own]

    @overload
    def get_scaled_loss(self, loss: Callable[[], T]) -> Callable[[], T]: ...

    @overload
    def get_scaled_loss(self, loss: T) -> T: ...

    def get_scaled_loss(self, loss: Any) -> Any:
        """Return the loss times the scale, in float32 or the type of the loss if that is wider.

        Parameters
        ----------
        loss : tensor, array, float or callable
            A callable becomes one that returns its scaled result.

        Raises
        ------
        RuntimeError
            If a loss was scaled before and no step was taken since, outside of `accumulate`.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        if not (self._is_accumulating and self._stage is Stage.SCALED):
            self._expect(Stage.READY, "scale a loss")
        scaled = self._inner.scaled(loss, self.loss_scale)
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        self._stage = Stage.SCALED
        return scaled

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Allow several losses to be scaled before one step; their gradients add up.

        An exception inside forgets them.
        """
        before, self._is_accumulating = self._is_accumulating, True
        try:
            with self._discarding_on_error():
                yield
        finally:
            self._is_accumulating = before

    def discard(self) -> None:
        """Forget what was scaled since the last step, as after a backward that failed."""
        self._stage = Stage.READY
        self._nan_loss = False
        self._verdict = None, Cause.OK

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients that the parameters of a torch optimizer hold, and `discard`."""
        self._inner.zero_grad(set_to_none)
        self.discard()

    def unscale_(self, num_samples: int = 1) -> None:
        """Divide the gradients that the parameters hold by the scale, and check them.

        Parameters
        ----------
        num_samples : int
            Divide by this too, in the same pass: sums of gradients become means.

        Raises
        ------
        RuntimeError
            If no loss was scaled, or the gradients are unscaled already.
        ValueError
            If no parameter has a gradient.
        TypeError
            If the parameters are NumPy arrays, which hold no gradients.
        """
        self._expect(Stage.SCALED, "unscale")
        self._inner.hold(self._unscaled(self._inner.gradients(), num_samples))

    def get_unscaled_gradients(self, gradients: Sequence[T | None]) -> list[T | None]:
        """Divide gradients by the scale in place, check them and return them.

        Parameters
        ----------
        gradients : sequence of array or tensor, or None
            A gradient for each parameter, in their order, or for some of them.

        Returns
        -------
        list
            The same objects, None where None was given. A scalar or sparse one is replaced, and
            one of torch that shares memory with another, or in itself.

        Raises
        ------
        RuntimeError
            If no loss was scaled, or gradients were unscaled already.
        ValueError
            If all are None.
        """
        self._expect(Stage.SCALED, "unscale")
        return self._unscaled(list(gradients), 1)

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
        self._inner.hold(self._in_order(pairs))
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
        self, loss: Callable[[], T] | T, var_list: Sequence[T] | None = None
    ) -> StepResult:
        """Scale a loss, differentiate it and take the step: all with torch.

        Parameters
        ----------
        loss : callable or tensor
            The loss or what computes it.
        var_list : sequence of tensor, optional
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

        They are left as they are: the scale is taken out in float32 on the way into the
        update, so that what only the scale keeps alive in float16 is not lost.

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
            self._stage = Stage.UNSCALED
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

    def state_dict(self) -> dict[str, Any]:
        """Return scale, counter, hysteresis credit, settings and clocks as JSON can hold them.

        The state of the inner optimizer is its own: save it beside this one.
        """
        return self._scale.state_dict() | self._log.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of this class, or of torch, tf.keras, Keras, Apex, DeepSpeed.

        The settings stay those of this optimizer; where they differ it is logged. An empty
        state starts afresh, with a warning.

        Raises
        ------
        StateError
            If a key is missing or a value impossible; nothing is changed then.
        """
        check_keys("a loss scale", state, ())
        if not state:
            warnings.warn("an empty loss-scale state: starting afresh", stacklevel=2)
            self._scale = DynamicScale(self._scale.settings)
            self._log.load_state_dict({})
            return
        if (found := read_foreign(state)) is not None:
            state = self.state_dict() | found
        check_keys("a loss scale", state, self.state_dict())
        with reading("a loss scale"):
            counts = {key: read_count(key, state[key]) for key in self._log.state_dict()}
            settings = dict(state["settings"])
        self._scale.load_state_dict(state)
        self._log.load_state_dict(counts)
        for name, value in asdict(self._scale.settings).items():
            if (before := settings.get(name, value)) != value:
                logger.warning(
                    "loss scale: %s was %r in the checkpoint, is now %r", name, before, value
                )

    def _expect(self, stage: Stage, doing: str) -> None:
        if self._stage is not stage:
            raise RuntimeError(
                f"cannot {doing} now: {self._stage.value} "
                "(discard() or zero_grad() start a step again)"
            )

    @contextmanager
    def _discarding_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def _unscaled(self, gradients: list[Any], num_samples: int) -> list[Any]:
        """Divide gradients in place, and keep the verdict on them."""
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        names = self._names or self._inner.names()
        if len(names) != len(gradients):
            names = [f"gradient {i}" for i in range(len(gradients))]
        with self._discarding_on_error():
            findings = None
            if present:
                divided, findings = self._inner.divided(
                    [names[i] for i in present],
                    [gradients[i] for i in present],
                    self.loss_scale * num_samples,
                )
                for i, gradient in zip(present, divided, strict=True):
                    gradients[i] = gradient
            self._judge(findings)
        self._stage = Stage.UNSCALED
        return gradients

    def _judge(self, findings: Findings | None) -> None:
        """Decide, together with all workers, whether the step is taken."""
        reduce = self._reduce or self._inner.reduction()
        if findings is None and reduce is None:
            raise ValueError(
                "no parameter has a gradient: "
                f"{', '.join((self._names or self._inner.names())[:5])}"
            )
        cause = Cause.OK
        if self._check_finite:
            cause = findings.cause if findings is not None else Cause.OK
            cause = Cause.NAN_LOSS if self._nan_loss else cause
        if reduce is not None:
            cause = agree(cause, self.loss_scale, self._scale.counter, reduce)
        self._verdict = findings, cause

    def _evaluated(self, closure: Callable[[], T]) -> T:
        """Call a closure and unscale its gradients; `StepUndone` if they are not finite."""
        self._stage = Stage.READY
        loss = closure()
        self.unscale_()
        if self._verdict[1] is not Cause.OK:
            raise StepUndone
        return loss

    def _in_order(self, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
        """Return the gradients in the order of the parameters."""
        places = {id(parameter): i for i, parameter in enumerate(self._inner.parameters())}
        gradients: list[Any] = [None] * len(places)
        for gradient, parameter in pairs:
            place = places.pop(id(parameter), None)
            if place is None:
                raise ValueError(
                    "a parameter is not one of the inner optimizer's or comes twice: "
                    f"shape {tuple(parameter.shape)}"
                )
            gradients[place] = gradient
        return gradients

    def _record(self, minibatch_ids: Sequence[str]) -> StepResult:
        """Update the scale and the log by the step, and make ready for the next one."""
        findings, cause = self._verdict
        self.discard()
        scale = self.loss_scale
        change = self._scale.advance(cause)
        has_gradient = findings is not None
        result = StepResult(
            applied=cause is Cause.OK and has_gradient,
            cause=CAUSES[cause] if cause is not Cause.OK or has_gradient else "no gradient",
            scale_used=scale,
            scale_next=self.loss_scale,
            counter=self._scale.counter,
            minibatch_ids=tuple(minibatch_ids),
            findings=findings,
        )
        is_reported = cause is Cause.NAN_LOSS or self._scale.settings.nan == "report"
        self._log.add(result, change, is_reported=is_reported and cause >= Cause.NAN)
        return result
