"""A loss scale: the stages of a step under it, its gradients, and the decision on the step."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from operator import is_
from typing import Any, TypeVar, cast

from sweephand.train.checkpoint.read_state import check_keys, read_count, reading
from sweephand.train.learners.finite_check import Cause, Findings
from sweephand.train.loss_scale.dynamic_scale import DynamicScale
from sweephand.train.loss_scale.foreign_states import read_foreign
from sweephand.train.loss_scale.optimizers import Optimizers
from sweephand.train.loss_scale.scale_settings import ScaleSettings
from sweephand.train.loss_scale.step_log import ScaleLog
from sweephand.train.loss_scale.step_result import CauseName, StepResult
from sweephand.train.loss_scale.worker_agreement import Reduce, agree

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


class LossScale:
    """A loss scale with the optimizers whose losses and gradients it scales.

    A subclass sets the optimizers before all else.
    """

    _inner: Optimizers
    _reduce: Reduce | None
    _stage: Stage
    _nan_loss: Any  # whether a loss was NaN: a bool, or a tensor that is still being computed
    _verdict: tuple[Findings | None, Cause]

    def __init__(self, settings: ScaleSettings, log: ScaleLog, check_finite: bool) -> None:
        if settings.dynamic and not check_finite:
            raise ValueError("check_finite=False is for a fixed scale: give dynamic=False")
        self._scale = DynamicScale(settings)
        self._log = log
        self._check_finite = check_finite
        self._is_accumulating = False
        self.discard()

    @property
    def dynamic(self) -> bool:
        """True if the scale moves."""
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
        """True if gradients are unscaled and wait for the step."""
        return self._stage is Stage.UNSCALED

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, which are keyed by ``id``, for parameters in results and errors.

        A `Trainer` does so with the names in its model.
        """
        self._inner.name_parameters(names)

    def agree_by(self, maximum: Reduce | None) -> None:
        """Judge steps with all workers by this reduction, unless the user gave another."""
        self._reduce = self._reduce or maximum

    def get_scaled_loss(self, loss: T) -> T:
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
            return cast(T, lambda: self.get_scaled_loss(loss()))
        if not (self._is_accumulating and self._stage is Stage.SCALED):
            self._expect(Stage.READY, "scale a loss")
        scaled = self._inner.scaled(loss, self.loss_scale)
        self._nan_loss = self._nan_loss | self._inner.is_nan(loss)
        self._stage = Stage.SCALED
        return cast(T, scaled)

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
        gradients = self._inner.gradients()
        divided = self._unscaled(list(gradients), num_samples)
        if not all(map(is_, gradients, divided)):  # some could not be divided in place
            self._inner.hold(divided)

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
        """Forget losses scaled since the last step, as after a backward that failed."""
        self._stage = Stage.READY
        self._nan_loss = False
        self._verdict = None, Cause.OK

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

    def _unscaled(self, gradients: list[T | None], num_samples: int) -> list[T | None]:
        """Divide gradients in place, and keep the verdict on them."""
        with self._discarding_on_error():
            self._judge(self._inner.divide(gradients, self.loss_scale * num_samples))
        return gradients

    def _judge(self, findings: Findings | None) -> None:
        """Judge the step by its gradients, together with all workers."""
        reduce = self._reduce or self._inner.reduction()
        if findings is None and reduce is None:
            names = ", ".join(self._inner.names()[:5])
            raise ValueError(f"no parameter has a gradient: {names}")
        cause = Cause.OK
        if self._check_finite:
            cause = findings.cause if findings is not None else Cause.OK
            cause = Cause.NAN_LOSS if self._nan_loss else cause
        if reduce is not None:
            cause = agree(cause, self.loss_scale, self._scale.counter, reduce)
        self._verdict = findings, cause
        self._stage = Stage.UNSCALED

    def _record(self, minibatch_ids: Sequence[str]) -> StepResult:
        """Update the scale and the log by the step, and prepare the next step."""
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
