"""A guard around an optimizer: each step is checked, clipped and then taken or skipped."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from operator import is_
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from sweephand.base.checks import check_flag, check_function, check_int, check_number
from sweephand.errors import ArgumentTypeError, shown
from sweephand.train.learners.array_learner import ArrayLearner
from sweephand.train.learners.arrays import Findings
from sweephand.train.learners.learner import Learner, check_counts
from sweephand.train.loss_scale.judgement import (
    NOT_ASKED,
    HostNumbers,
    Judge,
    Judgement,
    Outliers,
    Reduce,
    ScaleSettings,
    StepNumbers,
    guard_state,
    read_guard_state,
)
from sweephand.train.loss_scale.optimizers import NumpyOptimizers, Optimizers, listed
from sweephand.train.loss_scale.step_result import GuardLog, Hook, StepResult

MARK = "_step_guard"  # an optimizer's weak reference to its guard

Optimizer = TypeVar("Optimizer")
T = TypeVar("T")

Verdict: TypeAlias = Literal["host", "device"]


class Stage(Enum):
    """The stage that a step has reached."""

    READY = "no loss is scaled"
    SCALED = "a loss is scaled, its gradients are not unscaled"
    UNSCALED = "the gradients are unscaled and wait for the step"


class StepGuard(Generic[Optimizer]):
    """An optimizer that takes good steps and skips bad ones.

    The gradients of each step are checked, and clipped if that is asked for, in one pass. A
    step whose gradients or loss are NaN or infinite is skipped, and one that is an outlier:
    parameters, moments, weight decay and schedules stay as they are. All workers take or skip
    a step together. `LossScaleOptimizer` is a guard that also scales the loss, for float16.

    `step` takes the gradients that the parameters of a torch optimizer hold, `update` those
    that are given to a NumPy learner; each raises TypeError for the other kind. Methods raise
    RuntimeError where their stage has not come, ValueError where no parameter has a gradient or
    one is not the inner optimizer's, and `LossScaleError` after too many skips in a row.

    The hyperparameters of the inner optimizer are read and set as attributes, in every
    parameter group: under their own names (``betas``, ``eps``, ``weight_decay``) and those of
    Keras (``learning_rate`` or ``lr``, ``beta_1``, ``beta_2``, ``epsilon``). Where the groups
    differ, a tuple with the value of each is read.

    Parameters
    ----------
    inner_optimizer : torch.optim.Optimizer or a learner of sweephand.numpy, or a list of them
        The optimizer of the steps. Several take or skip each step together.
    clip_norm : float, optional
        The largest norm of the mean gradient, over all parameters; a larger one is clipped to
        it. Finite gradients of any size are clipped.
    outliers : Outliers, optional
        The rule by which finite steps are skipped or clipped.
    verdict : {"host", "device"}, optional
        Read the verdict of each step, or leave it on the device, where the parameters are, the
        default on accelerators: nothing waits then, attributes of a result wait when they are
        read, and hooks, logs and errors come one step late. Optimizers that are not fused need
        memory for another copy of weights and moments then.
    max_consecutive_skips : int, optional
        The skipped step in a row that raises `LossScaleError`; None: never.
    num_threads : int
        Threads that share the pass over gradients in main memory.
    reduce : callable, optional
        Takes a float64 array of shape (5,), or with `outliers` longer, and returns its
        element-wise maximum over all workers; called once a step, so that all skip or none
        does. By default that of ``torch.distributed``, if it is initialised and the optimizer
        is torch's.
    on_skip : callable, optional
        Called with the `StepResult` of a step that was skipped.

    Examples
    --------
    >>> import numpy as np
    >>> import sweephand as sh
    >>> w = np.ones(2, np.float32)
    >>> guard = sh.StepGuard(sh.numpy.SGD([w], 0.5), clip_norm=1.0)
    >>> guard.update([np.float32([1, np.inf])], num_samples=1).cause
    'inf'
    >>> guard.update([np.float32([3e25, 4e25])], num_samples=1).cause
    'ok'
    >>> w
    array([0.7, 0.6], dtype=float32)
    """

    _inner: Optimizers
    _first_stage: ClassVar[Stage] = Stage.SCALED  # what needs no scale has it already
    _settings = ScaleSettings()
    _check_finite = True
    _measures_underflow = False
    _numbers: HostNumbers
    _stage: Stage
    _nan_loss: Any  # whether a loss was NaN: a bool, or a tensor that is still being computed
    _losses: list[Any]  # of the step, if they are watched
    _findings: Findings | None

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
        if clip_norm is not None and not check_number("clip_norm", clip_norm) > 0:
            raise ValueError(f"clip_norm must be positive, got {clip_norm!r}")
        if not isinstance(outliers, Outliers | None):
            raise ArgumentTypeError(f"outliers must be an Outliers, got {shown(outliers)}")
        if verdict not in (None, "host", "device"):
            raise ValueError(f"verdict must be 'host' or 'device', got {verdict!r}")
        if reduce is not None:
            if verdict == "device":
                raise ValueError("reduce takes numbers of the host: give verdict='host'")
            verdict = "host"
        optimizers = listed(inner_optimizer)
        if any(isinstance(one, StepGuard) for one in optimizers):
            raise ArgumentTypeError("a guard or loss scale cannot be wrapped in another")
        self._inner = optimizers_of(
            optimizers,
            check_int("num_threads", num_threads),
            check_flag("measure_underflow", self._measures_underflow),
        )
        self._inner_optimizer = inner_optimizer
        self._reduce = check_function("reduce", reduce)
        self._judge = Judge(self._settings, clip_norm, outliers, self._check_finite)
        self._log = GuardLog(
            max_consecutive_skips, on_skip, is_scaled=self._first_stage is Stage.READY
        )
        self._verdict = verdict
        self._numbers = self._inner.keep(self._judge.first(), verdict)
        # The last result, unless it is logged, with the function that reads its numbers.
        self._pending: tuple[StepResult, Callable[[], StepNumbers]] | None = None
        self._is_accumulating = False
        self.discard()
        for one in optimizers:
            if (other := getattr(one, MARK, lambda: None)()) is not None:
                raise ValueError(
                    f"this optimizer has a {type(other).__name__} already: {shown(one)}"
                )
        for one in optimizers:
            setattr(one, MARK, weakref.ref(self))

    def __getattr__(self, name: str) -> Any:
        """Return a hyperparameter: its value, or a tuple of them where the groups differ."""
        if name.startswith("_") or name not in self._inner.hyperparameters():
            raise AttributeError(self._unknown(name))
        values = self._inner.read(name)
        return values[0] if all(value == values[0] for value in values) else tuple(values)

    def __dir__(self) -> list[str]:
        """Return the names of attributes, with the hyperparameters."""
        return sorted({*super().__dir__(), *self._inner.hyperparameters()})

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a hyperparameter in every group."""
        if name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name in self._inner.hyperparameters():
            self._inner.write(name, value)
        else:
            raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        kind = type(self).__name__
        if name.startswith("_"):
            return f"{kind} has no attribute {name!r}"
        return (
            f"{kind} has no attribute or hyperparameter {name!r}. opt.inner_optimizer has "
            f"{', '.join(sorted(self._inner.hyperparameters()))}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._described()})"

    def _described(self) -> str:
        return ", ".join(type(one).__name__ for one in listed(self._inner_optimizer))

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
        return self._first_stage is Stage.SCALED or self._judge.watches_loss

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, which are keyed by ``id``, for parameters in results and errors."""
        self._inner.name_parameters(names)

    def judge_on_host(self) -> None:
        """Read the verdict of each step, as learners do, whose clocks count applied steps."""
        if self._verdict == "device":
            raise ValueError(
                "a learner counts applied steps on the host: leave verdict='device' out"
            )
        self._settle()
        self._numbers = self._inner.keep(self._numbers.told(), "host")

    def agree_by(self, maximum: Reduce | None) -> None:
        """Judge steps with all workers by this reduction, unless the user gave another."""
        self._reduce = self._reduce or maximum

    def get_scaled_loss(self, loss: T) -> T:
        """Note the loss of the step, and return it as the backward pass takes it.

        `LossScaleOptimizer` returns it times the scale, in float32 or its own type if that is
        wider. Others return it as it is, and do not need this call: `step` takes the loss too.
        """
        if not (self._is_accumulating and self._stage is Stage.SCALED):
            self._expect(self._first_stage, "scale a loss")
        is_scaled = self._first_stage is Stage.READY
        scaled: T = self._inner.scaled(loss, self._numbers.now().scale) if is_scaled else loss
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        if self._judge.watches_loss:
            self._losses.append(_value(loss))
        self._stage = Stage.SCALED
        return scaled

    def observe(self, loss: Any) -> None:
        """Note the loss of the step, in place of those that were noted before."""
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        self._losses = [_value(loss)] if self._judge.watches_loss else []

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients that the parameters of a torch optimizer hold, and `discard`."""
        self._of_torch().zero_grad(set_to_none)
        self.discard()

    def unscale_(self, num_samples: int = 1) -> None:
        """Check the gradients that the parameters hold, and divide them by scale and samples.

        `step` does it; do it before to look at the gradients or change them.
        """
        self._expect(Stage.SCALED, "unscale")
        gradients = self._of_torch().gradients()
        divided = self._unscaled(list(gradients), num_samples)
        if not all(map(is_, gradients, divided)):  # some could not be divided in place
            self._inner.hold(divided)

    def get_unscaled_gradients(self, gradients: Sequence[T | None]) -> list[T | None]:
        """Divide gradients by the scale in place, check them and return them.

        There is a gradient or None for each parameter, in their order. A scalar or sparse one
        is replaced, and one of torch that shares memory with another, or in itself.
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
        """Take the step with pairs of unscaled gradient and parameter, or skip it.

        To a NumPy learner the gradients are sums over that many samples. The ids are for the
        result and for errors.
        """
        gradients = self._inner.in_order(pairs)
        if self._stage is self._first_stage is Stage.SCALED:
            gradients = self._unscaled(gradients, 1)
        self._expect(Stage.UNSCALED, "apply gradients")
        self._inner.hold(gradients)
        return self.finish(self._inner, num_samples, sweeps_ended, minibatch_ids)

    def step(
        self,
        loss: Any = None,
        *,
        minibatch_ids: Sequence[str] = (),
    ) -> StepResult:
        """Take the step with the gradients that the parameters of a torch optimizer hold.

        They are checked and unscaled first if that was not done. A step whose loss is NaN is
        skipped, and `outliers` watch it. The ids are for the result and for errors.
        """
        if callable(loss):
            raise TypeError("a guard takes no closure: optimizers that need one go without it")
        if loss is not None:
            self.observe(loss)
        return self.finish(self._inner, 1, 0, minibatch_ids)

    def minimize(
        self, loss: Callable[[], T] | T, var_list: Sequence[T] | T | None = None
    ) -> StepResult:
        """Differentiate a loss, or what a function returns, and take the step: all with torch.

        The parameters to change are by default all of the inner optimizer's.
        """
        scaled = self.get_scaled_loss(loss() if callable(loss) else loss)
        with self._discarding_on_error():
            self._of_torch().differentiate(scaled, var_list)
        return self.step()

    def update(
        self,
        gradient_sums: Sequence[T | None],
        num_samples: int,
        sweeps_ended: int = 0,
        *,
        minibatch_ids: Sequence[str] = (),
    ) -> StepResult:
        """Take the step of a NumPy learner with sums of gradients, which carry any scale.

        They are not changed: the scale is removed in float32 on the way into the update, which
        keeps values that would underflow in float16 without the scale. All else is as for
        ``update`` of the learner; the ids are for the result and for errors.
        """
        self._expect(Stage.SCALED, "update")
        with self._discarding_on_error():
            self._note(self._inner.hold_scaled(gradient_sums, self.loss_scale))
        return self.finish(self._inner, num_samples, sweeps_ended, minibatch_ids)

    def finish(
        self,
        optimizer: Optimizers | Learner,
        num_samples: int,
        sweeps_ended: int,
        minibatch_ids: Sequence[str],
    ) -> StepResult:
        """Let the wrapped optimizers, or the learner around them, take the step or skip it.

        The gradients that torch holds are unscaled first if that was not done.
        """
        if self._stage is Stage.SCALED:
            self.unscale_()
        self._expect(Stage.UNSCALED, "step")
        with self._discarding_on_error():
            check_counts(num_samples, sweeps_ended)
            if not self._numbers.is_captured:
                self._settle()
            judged = self._judged(num_samples if self._inner.holds_sums else 1)
            if self._numbers.is_far:
                divisor = judged.divisor if self._judge.needs_norm else None
                self._of_torch().take_unless_bad(judged.is_good, divisor)
            elif not judged.is_good or self._findings is None:
                optimizer.skip(num_samples, sweeps_ended)
            elif judged.divisor == 1:
                optimizer.take(num_samples, sweeps_ended)
            else:
                self._inner.clip(judged.divisor)
                optimizer.take(num_samples, sweeps_ended)
        return self._record(judged, minibatch_ids)

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Allow several losses before one step; their gradients add up.

        An exception inside forgets them.
        """
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
        self._findings = None

    def state_dict(self) -> dict[str, Any]:
        """Return scale, counts, settings and statistics of outliers as JSON can hold them.

        The state of the inner optimizer is its own: save it beside this one.
        """
        self._settle()
        return guard_state(self._judge, self._numbers.told())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of this class.

        The settings stay those of this optimizer; where they differ it is logged. StateError is
        raised if a key is missing or a value impossible; nothing is changed then.
        """
        self._pending = None
        self._numbers.write(read_guard_state(self._judge, state))

    def _settle(self) -> None:
        """Log the last step, which waits for it if it is on a device."""
        last, self._pending = self._pending, None
        if last is not None:
            result, read = last
            self._check_together(read())
            self._log.add(result, read())

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
                "this is for torch optimizers, whose parameters hold gradients; NumPy learners "
                "take update, or get_unscaled_gradients and apply_gradients"
            )
        return self._inner

    def _unscaled(self, gradients: list[T | None], num_samples: int) -> list[T | None]:
        """Divide gradients in place, and keep the findings in them."""
        with self._discarding_on_error():
            scale = self._numbers.now().scale
            divisor = scale if num_samples == 1 else scale * num_samples
            self._note(self._inner.divide(gradients, divisor))
        return gradients

    def _note(self, findings: Findings | None) -> None:
        """Keep the findings until the step is judged."""
        if findings is None and self._reduction() is None:
            names = ", ".join(self._inner.names()[:5])
            raise ValueError(f"no parameter has a gradient: {names}")
        self._findings = findings
        self._stage = Stage.UNSCALED

    def _reduction(self) -> Reduce | None:
        return self._reduce or self._inner.reduction()

    def _judged(self, num_samples: int) -> Judgement:
        """Judge the step, whose gradients are sums over that many samples, with all workers."""
        findings, numbers, inner = self._findings, self._numbers, self._inner
        needs_norm = self._judge.needs_norm or numbers.is_far
        judged = self._judge.judge(
            numbers,
            inner.cause(findings),
            self._nan_loss,
            inner.norm(findings) if needs_norm else NOT_ASKED,
            sum(self._losses) if self._losses else None,
            self._reduction(),
            num_samples,
        )
        if not numbers.is_far:
            self._check_together(judged)
        return judged

    def _record(self, judged: Judgement, minibatch_ids: Sequence[str]) -> StepResult:
        """Count a step, log it unless that waits, and prepare the next step."""
        self._judge.count(self._numbers, judged)
        read = self._numbers.reader()
        result = StepResult(read, self._findings, tuple(minibatch_ids))
        self.discard()
        if not self._numbers.is_captured:
            self._pending = result, read
            if not self._numbers.is_far:
                self._settle()
        return result


def _value(loss: Any) -> Any:
    """Return a loss without the graph that a tensor of torch carries."""
    return loss.detach() if hasattr(loss, "detach") else loss


def optimizers_of(
    optimizers: Sequence[object], num_threads: int, measure_underflow: bool
) -> Optimizers:
    """Return the optimizers of either framework as a guard uses them.

    ArgumentTypeError is raised for an object that is no optimizer, ValueError if one is listed
    twice.
    """
    if len({id(optimizer) for optimizer in optimizers}) < len(optimizers):
        raise ValueError("the same optimizer is listed twice")
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
