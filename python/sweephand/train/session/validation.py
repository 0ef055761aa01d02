"""Cross-validation, the final test, and learning rates that follow the loss by epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from sweephand.base.checks import check_flag, check_function, check_int, check_number
from sweephand.source.source import MinibatchSource
from sweephand.train.session.saving import Saving
from sweephand.train.session.training_run import (
    NEVER,
    Activity,
    Frequency,
    FrequencySpec,
    Preempted,
    TrainingRun,
    check_source,
)
from sweephand.train.states import decode, reading
from sweephand.train.trainer.trainer import Trainer

ValidationCallback: TypeAlias = Callable[[int, float, int, int], bool | None]


@dataclass(frozen=True)
class CrossValidationConfig:
    """Validation of a session: how often, on which data, and its callback.

    Parameters
    ----------
    minibatch_source : MinibatchSource, optional
        Read from its position to its end, or for ``max_samples``, and then put back.
    frequency : None, int or (int, unit)
        As for `training_session`.
    minibatch_size : int
        In samples.
    callback : callable, optional
        ``callback(index, average_error, num_samples, num_minibatches)`` is called after each
        validation; the error is the metric per label sample, or the loss without a metric, and
        all are 0 without a source. If it returns False, training ends.
    max_samples : int, optional
        Label samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> held_out = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> source = sh.MinibatchSource(held_out, max_sweeps=1)
    >>> config = sh.CrossValidationConfig(source, frequency=(1, "sweep"), minibatch_size=1024)
    >>> config.frequency  # cv_config=config of a training_session
    (1, 'sweep')
    """

    minibatch_source: MinibatchSource | None = None
    frequency: FrequencySpec = None
    minibatch_size: int = 32
    callback: ValidationCallback | None = None
    max_samples: int | None = None

    def __post_init__(self) -> None:
        if self.minibatch_source is not None:
            check_source("minibatch_source", self.minibatch_source)
        Frequency.parse("frequency", self.frequency)
        check_int("minibatch_size", self.minibatch_size)
        check_function("callback", self.callback)
        if self.max_samples is not None:
            check_int("max_samples", self.max_samples)
        if self.minibatch_source is None and self.callback is None:
            raise ValueError("cross-validation needs a minibatch_source or a callback")
        source = self.minibatch_source
        if source is not None and source.is_infinite and self.max_samples is None:
            raise ValueError(
                "the validation source never ends: give it max_sweeps or max_samples, or give "
                "max_samples here"
            )


@dataclass(frozen=True)
class TestConfig:
    """The data on which a session tests the model when training has ended.

    Parameters
    ----------
    minibatch_source : MinibatchSource
        Read from its position to its end, and then put back.
    minibatch_size : int
        In samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> held_out = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> config = sh.TestConfig(sh.MinibatchSource(held_out, max_sweeps=1), minibatch_size=1024)
    >>> config.minibatch_size  # test_config=config of a training_session
    1024
    """

    __test__ = False  # pytest collects classes named Test...

    minibatch_source: MinibatchSource
    minibatch_size: int = 32

    def __post_init__(self) -> None:
        check_source("minibatch_source", self.minibatch_source)
        check_int("minibatch_size", self.minibatch_size)
        if self.minibatch_source.is_infinite:
            raise ValueError("the test source never ends: give it max_sweeps or max_samples")


class Evaluation(NamedTuple):
    """Averages over evaluation data, NaN where there are no label samples."""

    loss: float
    metric: float | None
    num_samples: int
    num_minibatches: int

    def figures(self) -> dict[str, float | int | str]:
        """Return the averages as the figures of a record."""
        return {name: one for name, one in self._asdict().items() if one is not None}


def evaluate(
    run: TrainingRun, source: MinibatchSource, size: int, max_samples: int | None
) -> Evaluation:
    """Evaluate on at most `max_samples` label samples, and put the source back."""
    feed, trainer = run.feed, run.trainer
    before = source.get_checkpoint_state()
    loss, metric = 0.0, None
    seen = minibatches = 0
    try:
        with trainer.drawing_again(Preempted):  # it is evaluated again after the restore
            while max_samples is None or seen < max_samples:
                request = size if max_samples is None else min(size, max_samples - seen)
                minibatch, num_samples = feed.next(source, request)
                if not minibatch:
                    break
                feed.raise_if_preempted()
                minibatches += 1
                if not num_samples:
                    continue
                one_loss, one_metric = trainer.model.evaluate(minibatch)
                seen += num_samples
                loss += one_loss
                if one_metric is not None:
                    metric = one_metric + (metric or 0.0)
    finally:
        source.restore_from_checkpoint(before)
    if not seen:
        return Evaluation(math.nan, None, 0, minibatches)
    return Evaluation(loss / seen, None if metric is None else metric / seen, seen, minibatches)


class Validation(Activity):
    """Validate, and ask the callback for the end of training."""

    name = "validation"
    is_final = True

    def __init__(self, run: TrainingRun, config: CrossValidationConfig | None) -> None:
        often = NEVER if config is None else Frequency.parse("frequency", config.frequency)
        super().__init__(run, often)
        self._config = config
        self._source = None if config is None else config.minibatch_source

    def act(self) -> None:
        """Validate; a callback of any worker may end training."""
        result = self._evaluate() or Evaluation(0.0, None, 0, 0)
        index = self.done()
        callback = None if self._config is None else self._config.callback
        if callback is None:
            return
        error = result.loss if result.metric is None else result.metric
        answer = callback(index, error, result.num_samples, result.num_minibatches)
        if any(self.run.trainer.model.workers.gather(answer is False)):
            self.ended = "the callback of a validation asked for it"

    def epoch_loss(self) -> float:
        """Return the validation loss, or without validation data the training loss."""
        step, loss = self.run.validated or (None, math.nan)
        if self._source is not None and step == self.run.count("minibatch"):
            return loss
        result = self._evaluate()
        return self.run.averages["epoch"].average_loss if result is None else result.loss

    def session_state(self) -> dict[str, Any]:
        """Return why training ends."""
        return {"ended": self.ended}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.ended = decode(str | None, state["ended"], "ended")

    def _evaluate(self) -> Evaluation | None:
        """Return the averages over the validation data; None if there are none."""
        config, source, run = self._config, self._source, self.run
        if config is None or source is None:
            return None
        size = config.minibatch_size
        result = evaluate(run, source, size, config.max_samples)
        run.validated = run.count("minibatch"), result.loss
        run.trainer.report("validation", result.figures())
        return result


class FinalTest(Activity):
    """Test the model at the end."""

    def __init__(self, run: TrainingRun, config: TestConfig | None) -> None:
        super().__init__(run)
        self._config = config

    def is_due_at_end(self) -> bool:
        """Return True if there is something to test, and data for it."""
        return self._config is not None and self.run.count("minibatch") > 0

    def act(self) -> None:
        """Test the model."""
        assert self._config is not None
        source, size = self._config.minibatch_source, self._config.minibatch_size
        result = evaluate(self.run, source, size, None)
        self.run.trainer.report("test", result.figures())


REDUCTION = 0.618
INCREASE = 1.382
LOWEST_RATE = 1e-12  # below it training ends, whatever the floor


@dataclass(frozen=True)
class LearningRateControl:
    """Control of the learning rate by the loss at the end of every epoch.

    c is the validation loss, or the training loss of the epoch without validation data, and p
    that of the last accepted epoch; d = p - c. Control begins when the schedules have reached
    their last value:

    1. If c is NaN or d < 0, and ``load_best``, the epoch is rejected: training goes back to the
       end of the last accepted epoch, or to the start. p stays.
    2. If c is NaN or d <= ``reduce_if_improve_less_than`` * p, rates are multiplied by 0.618.
    3. Otherwise, if d > ``increase_if_improve_more_than`` * p, they are multiplied by 1.382.

    The first epoch has no p: it is rejected and reduces only if c is NaN. With ``load_best`` a
    loss that is not finite ends its epoch with c = NaN.

    Parameters
    ----------
    reduce_if_improve_less_than, increase_if_improve_more_than : float
        Parts of p.
    load_best : bool
        Allow the rejection of epochs.
    continue_reduce : bool
        Reduce after every epoch from the first time that rule 2 holds; the second time ends
        training.
    min_learning_rate : float
        A rate below it, in the unit of its schedule, ends training; so does one below 1e-12.

    Examples
    --------
    >>> import sweephand as sh
    >>> control = sh.LearningRateControl(reduce_if_improve_less_than=0.01, continue_reduce=True)
    >>> control.load_best  # lr_control=control of a training_session
    True
    """

    reduce_if_improve_less_than: float = 0.0
    increase_if_improve_more_than: float = math.inf
    load_best: bool = True
    continue_reduce: bool = False
    min_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("load_best", "continue_reduce"):
                check_flag(name, value)
            elif not check_number(name, value) >= 0:
                raise ValueError(f"{name} must be at least 0, got {value!r}")


@dataclass
class RateController:
    """Decides about the learning rate, epoch by epoch."""

    previous: float = math.inf  # the value of the last accepted epoch
    factor: float = 1.0  # what rates were multiplied by since that epoch
    is_reducing: bool = False  # after every epoch

    def decide(self, value: float, settings: LearningRateControl) -> tuple[bool, float, bool]:
        """Return if an epoch is rejected, the factor of rates, and if training ends."""
        previous = self.previous
        is_first = math.isinf(previous)
        improvement = math.inf if is_first else previous - value
        is_nan = math.isnan(value)
        is_failing = is_nan or (
            not is_first and improvement <= settings.reduce_if_improve_less_than * previous
        )
        is_rejected = settings.load_best and (is_nan or improvement < 0)
        factor = 1.0
        ends = False
        if is_failing or self.is_reducing:
            factor = REDUCTION
            ends = is_failing and self.is_reducing
            self.is_reducing = settings.continue_reduce
        elif not is_first and improvement > settings.increase_if_improve_more_than * previous:
            factor = INCREASE
        if not (is_rejected or is_nan):
            self.previous = value
        self.factor = self.factor * factor if is_rejected else 1.0
        return is_rejected, factor, ends


@dataclass(frozen=True)
class Steering:
    """State of the control of rates, as checkpoints of a session hold it."""

    control: RateController
    accepted: int | None  # the checkpoint of the last accepted epoch
    is_to_accept: bool
    first_rate: float
    ended: str | None


class RateControl(Activity):
    """Judge each epoch by its validation loss, and change the rates.

    Rejected epochs go back to the last accepted one, which `saving` holds.
    """

    name = "control"

    def __init__(
        self,
        run: TrainingRun,
        settings: LearningRateControl | None,
        validation: Validation,
        saving: Saving,
    ) -> None:
        super().__init__(run, NEVER if settings is None else Frequency(1, "epoch"))
        if settings is not None:
            check_steerable(run.trainer)
        self._validation = validation
        self._saving = saving
        self._settings = settings or LearningRateControl(load_best=False)
        self._controller = RateController()

    def begin(self) -> None:
        """Look for the last accepted epoch; without any, accept the present moment."""
        saving, run = self._saving, self.run
        if not self._settings.load_best:
            run.accepted = None
        elif not saving.has_accepted:
            self.run.announce(
                f"checkpoint {run.accepted}, the last accepted epoch, is not there"
            )
            run.accepted = None
        if math.isnan(self.run.first_rate):
            self.run.first_rate = self.run.rate
        saving.is_to_accept |= self._settings.load_best and run.accepted is None

    def act(self) -> None:
        """Judge the epoch that has ended."""
        value = self._validation.epoch_loss()
        self.done()
        if self.run.has_last_rates:
            self._decide(value)
        else:
            if not math.isnan(value):
                self._controller.previous = value
            self._saving.is_to_accept = self._settings.load_best

    def outlive(self, error: FloatingPointError) -> None:
        """Go back from a loss that is not finite, or raise the error if that is impossible."""
        if not (self._settings.load_best and self.run.has_last_rates):
            raise error
        self.run.announce(str(error))
        self._decide(math.nan)

    def session_state(self) -> dict[str, Any]:
        """Return its state, as JSON can hold it."""
        accepted = self.run.accepted if isinstance(self.run.accepted, int) else None
        is_to_accept, first_rate = self._saving.is_to_accept, self.run.first_rate
        control = self._controller
        steering = Steering(control, accepted, is_to_accept, first_rate, self.ended)
        return {"steering": asdict(steering)}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, or raise StateError."""
        with reading("learning-rate control"):
            steering: Steering = decode(Steering, state["steering"])
        self._controller = steering.control
        self.run.accepted, self._saving.is_to_accept = steering.accepted, steering.is_to_accept
        self.run.first_rate, self.ended = steering.first_rate, steering.ended

    def _decide(self, value: float) -> None:
        """Accept or reject an epoch, and change the rates."""
        is_rejected, factor, ends = self._controller.decide(value, self._settings)
        if is_rejected:
            self.run.restore(self._saving.recall())
            self._saving.is_to_accept = False
            factor = self._controller.factor
            seen = self.run.count("sample")
            self.run.announce(f"the loss {value:g} is rejected: back to {seen} samples")
        else:
            self._saving.is_to_accept = self._settings.load_best
        self.run.multiply_rates(factor)
        if ends:
            self.ended = "the loss stopped improving a second time"
        elif self.run.rate < max(self._settings.min_learning_rate, LOWEST_RATE):
            self.ended = f"the learning rate {self.run.rate:g} is below its floor"


def check_steerable(trainer: Trainer) -> None:
    """Raise if something else sets the rates of a learner."""
    if any(learner.pace.schedule is None for learner in trainer.model.learners):
        raise ValueError(
            "a learner without a schedule of learning rates cannot be steered: its rates "
            "are set by others"
        )
