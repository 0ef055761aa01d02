"""Guards of an optimizer: each step is checked, clipped and taken or skipped; loss scales."""

import logging
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from operator import is_
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from sweephand.base.checks import check_choice, check_flag, check_function, check_int
from sweephand.errors import ArgumentTypeError, LossScaleError, shown
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.arrays import NO_FINDINGS, Cause, Findings
from sweephand.train.learners.learner import Learner, check_counts
from sweephand.train.loss_scale.judgement import (
    NOT_ASKED,
    HostNumbers,
    Judge,
    Judgement,
    Outliers,
    Reduce,
    Refill,
    ScaleSettings,
    StepNumbers,
    StepResult,
    explain,
    guard_state,
    read_guard_state,
)
from sweephand.train.loss_scale.optimizers import NumpyOptimizers, Optimizers, listed

MARK = "_step_guard"  # an optimizer's weak reference to its guard
logger = logging.getLogger("sweephand")

Optimizer = TypeVar("Optimizer")
T = TypeVar("T")

Hook: TypeAlias = Callable[[StepResult], object]
Verdict: TypeAlias = Literal["host", "device"]


class Stage(Enum):
    """The stage that a step has reached."""

    READY = "no loss is scaled"
    SCALED = "a loss is scaled, its gradients are not unscaled"
    UNSCALED = "the gradients are unscaled and wait for the step"


class StepGuard(Generic[Optimizer]):
    """An optimizer that takes good steps and skips bad ones.

    The gradients of each step are checked and clipped in one pass. A step whose gradients or
    loss are NaN or infinite is skipped, and one that is an outlier: parameters, moments, weight
    decay and schedules stay as they are. All workers take or skip a step together.

    `step` is for torch optimizers, `update` for NumPy learners; each raises TypeError for the
    other kind. Methods raise RuntimeError where their stage has not come, ValueError where no
    parameter has a gradient or one is not the inner optimizer's, and `LossScaleError` after too
    many skips in a row.

    The hyperparameters of the inner optimizer are attributes, read and set in every parameter
    group: under their own names and those of Keras (``learning_rate`` or ``lr``, ``beta_1``,
    ``beta_2``, ``epsilon``). Where the groups differ, a tuple of their values is read.

    Parameters
    ----------
    inner_optimizer : torch.optim.Optimizer or a learner of sweephand.numpy, or a list of them
        Several take or skip each step together.
    clip_norm : float, optional
        The norm of the mean gradient, over all parameters, to which a larger one is clipped.
    outliers : Outliers, optional
        The rule by which finite steps are skipped or clipped.
    verdict : {"host", "device"}, optional
        Read the verdict of each step, or leave it on the device of the parameters, the default
        on accelerators: nothing waits then but the reader of a result, and hooks, logs and
        errors come one step late. Optimizers that are not fused need memory for another copy of
        weights and moments then.
    max_consecutive_skips : int, optional
        The skipped step in a row that raises `LossScaleError`; None: never.
    num_threads : int
        Threads that share the pass over gradients in main memory.
    reduce : callable, optional
        Returns the element-wise maximum over all workers of a float64 array; by default that of
        ``torch.distributed`` for torch optimizers.
    on_skip : callable, optional
        Called with the `StepResult` of a step that was skipped.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.ones(2, np.float32)
    >>> guard = sh.StepGuard(sh.numpy.SGD([w], 0.5), clip_norm=1.0)
    >>> guard.update([np.float32([1, np.inf])], num_samples=1).cause
    'inf'
    >>> guard.update([np.float32([3e25, 4e25])], num_samples=1).cause
    'ok'
    >>> w
    array([0.7, 0.6], dtype=float32)
    """

    _is_scaled: ClassVar[bool] = False
    _settings = ScaleSettings()
    _check_finite = True
    _measures_underflow = False
    _nan_loss: Any  # a bool, or a tensor that is still being computed
    _losses: list[Any]  # of the step, if they are watched
    _stage: Stage

    def __init__(
        self,
        inner_optimizer: Optimizer,
        *,
        clip_norm: float | None = None,
        outliers: Outliers | None = None,
        verdict: Verdict | None = None,
        max_consecutive_skips: int | None = 100,
        num_threads: int = 1,
        reduce: Reduce | None = None,
        on_skip: Hook | None = None,
    ) -> None:
        if verdict is not None:
            check_choice("verdict", verdict, "host", "device")
        if reduce is not None:
            if verdict == "device":
                raise ValueError("reduce takes numbers of the host: give verdict='host'")
            verdict = "host"
        optimizers = listed(inner_optimizer)
        if any(isinstance(one, StepGuard) for one in optimizers):
            raise ArgumentTypeError("a guard or loss scale cannot be wrapped in another")
        # What needs no scale has it already.
        self._first_stage = Stage.READY if self._is_scaled else Stage.SCALED
        self._inner: Optimizers = optimizers_of(
            optimizers,
            check_int("num_threads", num_threads),
            check_flag("measure_underflow", self._measures_underflow),
        )
        self._inner_optimizer = inner_optimizer
        self._reduce = check_function("reduce", reduce)
        self._judge = Judge(self._settings, clip_norm, outliers, self._check_finite)
        if max_consecutive_skips is not None:
            check_int("max_consecutive_skips", max_consecutive_skips)
        self._max_consecutive_skips = max_consecutive_skips
        self._on_skip = check_function("on_skip", on_skip)
        self._verdict = verdict
        self._numbers: HostNumbers = self._inner.keep(self._judge.first(), verdict)
        # The last result, unless it is logged, with the function that reads its numbers.
        self._pending: tuple[StepResult, Callable[[], StepNumbers]] | None = None
        self._is_accumulating = False
        self.discard()
        if len({id(one) for one in optimizers}) < len(optimizers):
            raise ValueError("the same optimizer is listed twice")
        for one in optimizers:
            if (other := getattr(one, MARK, lambda: None)()) is not None:
                raise ValueError(
                    f"this optimizer has a {type(other).__name__} already: {shown(one)}"
                )
        for one in optimizers:  # none is another's: a refusal, which may be kept, marks none
            setattr(one, MARK, weakref.ref(self))

    def __getattr__(self, name: str) -> Any:
        """Return a hyperparameter: its value, or a tuple of them where the groups differ."""
        self._check_known(name)
        values = self._inner.read(name)
        return values[0] if all(value == values[0] for value in values) else tuple(values)

    def __dir__(self) -> list[str]:
        """Return the names of attributes, with the hyperparameters."""
        return sorted({*super().__dir__(), *self._inner.hyperparameters()})

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a hyperparameter in every group."""
        if name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            self._check_known(name)
            self._inner.write(name, value)

    def _check_known(self, name: str) -> None:
        # Private names are asked for before there is an inner optimizer, as by pickle.
        known = set() if name.startswith("_") else self._inner.hyperparameters()
        if name not in known:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}; hyperparameters of its "
                f"inner_optimizer are {', '.join(sorted(known))}"
            )

    def __repr__(self) -> str:
        inner = ", ".join(type(one).__name__ for one in listed(self._inner_optimizer))
        scale = f"; loss scale {self.loss_scale:g}" if self._is_scaled else ""
        return f"{type(self).__name__}({inner}{scale})"

    @property
    def inner_optimizer(self) -> Optimizer:
        """The wrapped optimizer, as it was passed in."""
        return self._inner_optimizer

    @property
    def loss_scale(self) -> float:
        """The scale of the next loss; 1 for a guard without one."""
        return float(self._numbers.told().scale)

    @property
    def wants_loss(self) -> bool:
        """True if a step needs its loss: without a scale nothing else says that it is NaN."""
        return not self._is_scaled or self._judge.watches_loss

    def judge_on_host(self) -> None:
        """Read the verdict of each step, as learners do, whose clocks count applied steps."""
        if self._verdict == "device":
            raise ValueError(
                "a learner counts applied steps on the host: leave verdict='device' out"
            )
        self._settle()
        self._numbers = self._inner.keep(self._numbers.told(), "host")

    def join(self, names: Mapping[int, str], maximum: Reduce | None) -> None:
        """Use names by ``id`` for parameters, and unless the user gave one this reduction."""
        self._of_torch().name_parameters(names)
        self._reduce = self._reduce or maximum

    def get_scaled_loss(self, loss: T) -> T:
        """Note the loss of the step, and return it times the scale, in float32 at least.

        A guard without a scale returns it as it is: there `step` takes the loss too.
        """
        if not (self._is_accumulating and self._stage is Stage.SCALED):
            self._expect(self._first_stage, "scale a loss")
        scale = self._numbers.now().scale
        scaled: T = self._inner.scaled(loss, scale) if self._is_scaled else loss
        self._note_loss(loss)
        self._stage = Stage.SCALED
        return scaled

    def observe(self, loss: Any) -> None:
        """Note the loss of the step, in place of those that were noted before."""
        self._losses = []
        self._note_loss(loss)

    def _note_loss(self, loss: Any) -> None:
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        if self._judge.watches_loss:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else loss)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients that the parameters of a torch optimizer hold, and `discard`."""
        self._of_torch().zero_grad(set_to_none)
        self.discard()

    def unscale_(self, num_samples: int = 1) -> None:
        """Check the gradients that parameters hold, and divide them by scale and samples."""
        self._expect(Stage.SCALED, "unscale")
        gradients = self._of_torch().gradients()
        divided = self._unscaled(list(gradients), num_samples)
        if not all(map(is_, gradients, divided)):  # some could not be divided in place
            self._inner.hold(divided)

    def get_unscaled_gradients(self, gradients: Sequence[T | None]) -> list[T | None]:
        """Divide gradients by the scale, check them and return them: one for each parameter.

        They are changed in place, but for those that are scalar, sparse or share memory.
        """
        self._expect(Stage.SCALED, "unscale")
        return self._unscaled(list(gradients), 1)

    def apply_gradients(
        self, pairs: Iterable[tuple[T | None, T]], num_samples: int = 1, sweeps_ended: int = 0
    ) -> StepResult:
        """Take the step with pairs of unscaled gradient and parameter, or skip it.

        To a NumPy learner the gradients are sums over that many samples.
        """
        gradients = self._inner.in_order(pairs)
        if self._stage is Stage.SCALED and not self._is_scaled:
            gradients = self._unscaled(gradients, 1)
        self._expect(Stage.UNSCALED, "apply gradients")
        self._inner.hold(gradients)
        return self.finish(self._inner, num_samples, sweeps_ended)

    def step(self, loss: Any = None) -> StepResult:
        """Take the step with the gradients that the parameters of a torch optimizer hold.

        They are checked and unscaled first if that was not done. A step whose loss is NaN is
        skipped, and `outliers` watch it.
        """
        if callable(loss):
            raise TypeError("a guard takes no closure: optimizers that need one go without it")
        if loss is not None:
            self.observe(loss)
        return self.finish(self._inner, 1, 0)

    def minimize(
        self, loss: Callable[[], T] | T, var_list: Sequence[T] | T | None = None
    ) -> StepResult:
        """Differentiate a loss of torch, or a function's, and step these parameters, or all."""
        scaled = self.get_scaled_loss(loss() if callable(loss) else loss)
        with self._discarding_on_error():
            self._of_torch().differentiate(scaled, var_list)
        return self.step()

    def update(
        self, gradient_sums: Sequence[T | None], num_samples: int, sweeps_ended: int = 0
    ) -> StepResult:
        """Take the step of a NumPy learner, as its ``update``, with sums that carry any scale.

        They are not changed: the scale is removed in float32 on the way into the update, so
        that nothing underflows in float16.
        """
        self._expect(Stage.SCALED, "update")
        with self._discarding_on_error():
            self._note(self._inner.hold_scaled(gradient_sums, self.loss_scale))
        return self.finish(self._inner, num_samples, sweeps_ended)

    def finish(
        self, optimizer: Optimizers | Learner, num_samples: int, sweeps_ended: int
    ) -> StepResult:
        """Let the wrapped optimizers, or the learner around them, take the step or skip it."""
        if self._stage is Stage.SCALED:
            self.unscale_()
        self._expect(Stage.UNSCALED, "step")
        with self._discarding_on_error():
            check_counts(num_samples, sweeps_ended)
            numbers, inner, findings = self._numbers, self._inner, self._findings
            if not numbers.is_captured:
                self._settle()
            needs_norm = self._judge.needs_norm or numbers.is_far
            judged = self._judge.judge(
                numbers,
                inner.cause(findings),
                self._nan_loss,
                inner.norm(findings) if needs_norm else NOT_ASKED,
                sum(self._losses) if self._losses else None,
                self._reduce or inner.reduction(),
                num_samples if inner.holds_sums else 1,
            )
            if numbers.is_far:
                divisor = judged.divisor if self._judge.needs_norm else None
                self._of_torch().take_unless_bad(judged.is_good, divisor)
            else:
                self._check_together(judged)
                if judged.is_good and findings.names:
                    if judged.divisor != 1:
                        inner.clip(judged.divisor)
                    optimizer.take(num_samples, sweeps_ended)
                else:
                    optimizer.skip(num_samples, sweeps_ended)
        self._judge.count(numbers, judged)
        read = numbers.reader()
        result = StepResult(read, findings)
        self.discard()
        if not numbers.is_captured:
            self._pending = result, read
            if not numbers.is_far:
                self._settle()
        return result

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Allow several losses before one step; an exception inside forgets them."""
        before, self._is_accumulating = self._is_accumulating, True
        try:
            with self._discarding_on_error():
                yield
        finally:
            self._is_accumulating = before

    def discard(self) -> None:
        """Forget losses and gradients since the last step, as after a backward that failed."""
        self._stage = self._first_stage
        self._nan_loss = False
        self._losses = []
        self._findings: Findings = NO_FINDINGS

    def state_dict(self) -> dict[str, Any]:
        """Return all but the inner optimizer's state, as JSON can hold it."""
        self._settle()
        return guard_state(self._judge, self._numbers.told())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError and change nothing.

        The settings stay those of this optimizer; where they differ it is logged.
        """
        self._pending = None
        self._numbers.write(read_guard_state(self._judge, state))

    def _settle(self) -> None:
        """Log the last step, which waits for it if it is on a device."""
        if self._pending is None:
            return
        (result, read), self._pending = self._pending, None
        numbers = read()
        self._check_together(numbers)
        if result.is_skipped:
            # Overflows are usual with a scale; a smaller one does not cure the last two causes.
            if not self._is_scaled or numbers.cause >= Cause.NAN_LOSS:
                logger.warning("%s", explain(result, numbers, is_scaled=self._is_scaled))
            if self._on_skip is not None:
                self._on_skip(result)
        limit = self._max_consecutive_skips
        if limit is not None and numbers.skips_in_a_row >= limit:
            raise LossScaleError(
                explain(result, numbers, is_scaled=self._is_scaled),
                int(numbers.steps),
                result.scale_used,
                result.cause,
                result.bad_parameters,
            )

    def _check_together(self, step: Judgement | StepNumbers) -> None:
        if step.parted:
            scale, counter = self._numbers.told()[:2]
            raise RuntimeError(
                "the workers disagree on the loss scale or its counter of applied steps: here "
                f"they are {scale:g} and {counter:g}"
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

    def _of_torch(self) -> Any:
        """Return the optimizers, or raise TypeError where parameters hold no gradients."""
        if self._inner.holds_sums:
            raise TypeError(
                "this is for torch optimizers; NumPy learners take update, or "
                "get_unscaled_gradients and apply_gradients"
            )
        return self._inner

    def _unscaled(self, gradients: list[T | None], num_samples: int) -> list[T | None]:
        """Divide gradients in place, and keep the findings in them."""
        with self._discarding_on_error():
            scale = self._numbers.now().scale
            divisor = scale if num_samples == 1 else scale * num_samples
            self._note(self._inner.divide(gradients, divisor))
        return gradients

    def _note(self, findings: Findings) -> None:
        """Keep the findings until the step is judged."""
        if not (findings.names or self._reduce or self._inner.reduction()):
            names = ", ".join(self._inner.names()[:5])
            raise ValueError(f"no parameter has a gradient: {names}")
        self._findings = findings
        self._stage = Stage.UNSCALED


def optimizers_of(
    optimizers: Sequence[object], num_threads: int, measure_underflow: bool
) -> Optimizers:
    """Return the optimizers of either framework as a guard uses them."""
    learners = [optimizer for optimizer in optimizers if isinstance(optimizer, ArrayLearner)]
    if learners and len(learners) == len(optimizers):
        return NumpyOptimizers(learners, num_threads)
    if optimizers and "torch" in sys.modules:  # else there can be no torch optimizer
        from sweephand.torch.optimizers import TorchOptimizers, are_optimizers

        if are_optimizers(optimizers):
            return TorchOptimizers(optimizers, num_threads, measure_underflow)
    raise ArgumentTypeError(
        "inner_optimizer must be a torch optimizer or a learner of sweephand.numpy, or a list "
        f"of one kind, got {', '.join(map(shown, optimizers)) or 'none'}"
    )


class LossScaleOptimizer(StepGuard[Optimizer]):
    """An optimizer of gradients from a loss that was multiplied by a scale.

    It is a `StepGuard` for float16, in which small gradients vanish: the gradients are divided
    by the scale before the step. The scale backs off where a gradient is NaN or infinite, and
    grows after enough applied steps in a row.

    Each step passes through three stages: `get_scaled_loss`; then `unscale_` or
    `get_unscaled_gradients`, after which gradients may be clipped; then `step` or
    `apply_gradients`. `step` unscales if that was not done; `minimize` does all three.

    Parameters
    ----------
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
    inner_optimizer, clip_norm, outliers, ...
        As for `StepGuard`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> w = np.ones(2, np.float32)
    >>> opt = sh.LossScaleOptimizer(sh.numpy.SGD([w], 0.5), initial_scale=1024)
    >>> seed = opt.get_scaled_loss(1.0)  # the gradient of the scaled loss by the loss
    >>> opt.update([np.array([seed, np.inf], np.float16)], num_samples=1).cause
    'inf'
    >>> opt.loss_scale, w
    (512.0, array([1., 1.], dtype=float32))
    """

    _is_scaled: ClassVar[bool] = True

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
        if not check_flag("dynamic", dynamic) and initial_scale is None:
            raise ValueError("dynamic=False needs an initial_scale")
        if not dynamic and dynamic_growth_steps is not None:
            raise ValueError("dynamic=False takes no dynamic_growth_steps")
        self._settings = ScaleSettings(
            dynamic,
            2.0**15 if initial_scale is None else initial_scale,
            2000 if dynamic_growth_steps is None else dynamic_growth_steps,
            growth_factor,
            backoff_factor,
            min_scale,
            float(np.finfo(np.float32).max) if max_scale is None else max_scale,
            hysteresis,
            refill,
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
