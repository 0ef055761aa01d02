"""The training session: minibatches in a row, and the activities between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sweephand.base.checks import check_int, check_kind
from sweephand.base.other_names import answers_other_names
from sweephand.errors import LossScaleError
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.schedules import Schedule, Spec
from sweephand.source.source import MinibatchSource
from sweephand.train.records import Averages
from sweephand.train.session.minibatch_scaling import MinibatchGrowth, MinibatchScaling
from sweephand.train.session.saving import CheckpointConfig, Saving
from sweephand.train.session.training_run import (
    Activity,
    Frequency,
    FrequencySpec,
    GoBack,
    MinibatchFeed,
    Preempted,
    Preemption,
    TrainingRun,
    check_source,
    session_sizes,
)
from sweephand.train.session.validation import (
    CrossValidationConfig,
    FinalTest,
    LearningRateControl,
    RateControl,
    TestConfig,
    Validation,
)
from sweephand.train.trainer.trainer import Trainer


class TrainingSession:
    """Training for a number of samples, with saving, validation and control.

    After every minibatch, due actions run in this order: summary, cross-validation,
    learning-rate control, minibatch scaling, ``activities``, checkpoint. An action with a
    frequency of n is due once training has passed a multiple of n; no minibatch is cut there.
    At the end of training every action runs once more, unless it just did.

    Frequencies are None or ``INFINITELY_REPEAT``: once, at the end; 0: never; a number of label
    samples; ``(n, unit)`` with "sample", "minibatch", "sweep", "epoch" or "seconds"; or
    ``FULL_DATA_SWEEP``: every sweep.

    Parameters
    ----------
    trainer : Trainer
    mb_source : MinibatchSource
        It must end, or there must be ``max_samples``.
    mb_size : int, list, str or Schedule
        Samples of a minibatch over all workers, as for `minibatch_size_schedule`; a list or
        text counts the epochs of ``epoch_size``.
    max_samples : int
        Label samples after which training ends; a sequence is never cut. ``FULL_DATA_SWEEP``:
        the first sweep, also of a source with several. By default all data of the source.
    epoch_size : int
        Label samples of an epoch. ``FULL_DATA_SWEEP``: a sweep; ``INFINITELY_REPEAT``: one.
    progress_frequency : None, int or (int, unit)
        Of summaries.
    checkpoint_config : CheckpointConfig, optional
        While there are checkpoints, SIGTERM and SIGUSR1 end the minibatch, save and exit with
        ``PREEMPTED_EXIT_CODE``.
    cv_config : CrossValidationConfig, optional
    lr_control : LearningRateControl, optional
    mb_scaling : MinibatchScaling, optional
    test_config : TestConfig, optional
    activities : Activity, or list of them
        What else is done between minibatches, such as `SpikePolicy` and `CriticalBatchSize`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> trainer = sh.Trainer(model, squared_error, sh.numpy.SGD(model, 0.1))
    >>> source = sh.MinibatchSource(corpus)
    >>> sh.training_session(trainer, source, mb_size=4, max_samples=80).train()
    >>> trainer.total_number_of_samples_seen, round(float(model["mean"][0]), 1)
    (80, 2.5)
    """

    @answers_other_names
    def __init__(
        self,
        trainer: Trainer,
        mb_source: MinibatchSource,
        mb_size: Spec[int] | Schedule[int],
        *,
        max_samples: int = INFINITELY_REPEAT,
        epoch_size: int = FULL_DATA_SWEEP,
        progress_frequency: FrequencySpec = FULL_DATA_SWEEP,
        checkpoint_config: CheckpointConfig | None = None,
        cv_config: CrossValidationConfig | None = None,
        lr_control: LearningRateControl | None = None,
        mb_scaling: MinibatchScaling | None = None,
        test_config: TestConfig | None = None,
        activities: Activity | Sequence[Activity] = (),
    ) -> None:
        check_kind("trainer", trainer, Trainer)
        check_source("mb_source", mb_source)
        check_kind("checkpoint_config", checkpoint_config, CheckpointConfig, optional=True)
        check_kind("cv_config", cv_config, CrossValidationConfig, optional=True)
        check_kind("lr_control", lr_control, LearningRateControl, optional=True)
        check_kind("mb_scaling", mb_scaling, MinibatchScaling, optional=True)
        check_kind("test_config", test_config, TestConfig, optional=True)
        given = activities if isinstance(activities, Sequence) else [activities]
        for one in given:
            check_kind("activities", one, Activity)
        self._trainer = trainer
        self._source = mb_source
        sizes = session_sizes(mb_size, check_int("epoch_size", epoch_size))
        check_int("max_samples", max_samples)
        if mb_source.is_infinite and max_samples == INFINITELY_REPEAT:
            raise ValueError(
                "training would never end: give max_samples, or give the source max_samples or "
                "max_sweeps"
            )
        saves = checkpoint_config is not None and checkpoint_config.filename is not None
        self._preemption = Preemption(is_wanted=saves)
        feed = MinibatchFeed(trainer, self._preemption, lambda: self._saving.watch())
        epoch = Frequency.parse("epoch_size", epoch_size)
        self._run = run = TrainingRun(trainer, mb_source, feed, epoch, sizes, max_samples)
        self._saving = Saving(run, checkpoint_config)
        validation = Validation(run, cv_config)
        self._control = RateControl(run, lr_control, validation, self._saving)
        run.activities = [
            Summaries(run, Frequency.parse("progress_frequency", progress_frequency)),
            validation,
            self._control,
            MinibatchGrowth(run, mb_scaling, sizes),
            EpochEnds(run),
        ]
        self._given = list(given)
        for one in self._given:
            one.bind(run)
        run.activities += [
            *(one for one in self._given if not one.is_after_checkpoint),
            FinalTest(run, test_config),
            self._saving,
            *(one for one in self._given if one.is_after_checkpoint),
        ]

    def train(self) -> None:
        """Train to the end, from the beginning or from a checkpoint.

        FileNotFoundError is raised if a required checkpoint is not there, StateError if all are
        damaged, or of another model, corpus or order, OSError if one cannot be written.
        """
        reporting = self._trainer.reporter.reporting_also_to(self._run.measured)
        try:
            with reporting, self._preemption, self._trainer.model.workers:
                try:
                    self._saving.restore_first()
                    self._run.begin()
                    self._act()  # activities that were due when it was saved
                    while self._goes_on():
                        pass
                    self._finish()
                except Preempted:
                    self._saving.leave()
        finally:
            self._saving.close()

    def _goes_on(self) -> bool:
        """Train a minibatch and do the due activities, or go back; return False at the end."""
        try:
            if self._why_ended is not None or self._run.has_enough or not self._step():
                self._await_step()
                return False
            self._act()
        except (GoBack, FloatingPointError, LossScaleError) as error:
            if any(one.go_back(error) for one in self._given):
                self._act()
            elif isinstance(error, FloatingPointError):
                self._control.outlive(error)
                self._act()
            else:
                raise
        return True

    @property
    def _why_ended(self) -> str | None:
        """Why training ends early, or None."""
        return next(filter(None, (one.ended for one in self._run.activities)), None)

    def _step(self) -> bool:
        """Train one minibatch; return False at the end of data."""
        for one in self._given:
            one.before_step()
        size = self._run.next_size()
        minibatch, num_samples = self._run.feed.next(self._source, size)
        if not minibatch:
            return False
        self._run.has_label_per_sequence = num_samples == self._run.feed.num_sequences
        for one in self._given:
            one.note_minibatch(size, minibatch, num_samples)
        self._trainer.train_minibatch(minibatch, num_samples)
        for one in self._given:
            one.check()
        return True

    def _await_step(self) -> None:
        """Wait for the results of the last step, and raise if training must go back."""
        self._trainer.reporter.await_step()
        for one in self._given:
            one.check()

    def _act(self) -> None:
        """Do the activities that are due between two minibatches."""
        for activity in self._run.activities:
            self._run.feed.raise_if_preempted()
            if activity.is_due():
                self._do(activity.act)
        self._run.feed.raise_if_preempted()

    def _do(self, action: Callable[[], None]) -> None:
        self._await_step()
        action()
        self._trainer.pause()

    def _finish(self) -> None:
        """Do the activities that are due at the end of training."""
        if self._why_ended is not None:
            self._run.announce(f"training ends: {self._why_ended}")
        for activity in self._run.activities:
            self._do(activity.finish)


training_session = TrainingSession  # as CNTK spells it


class Summaries(Activity):
    """Write the averages since the last summary."""

    name = "summary"
    is_final = True

    def act(self) -> None:
        """Write a summary, and begin the next."""
        self.done()
        averages = self.run.averages
        self.run.trainer.report("summary", averages["summary"].figures())
        averages["summary"] = Averages()


class EpochEnds(Activity):
    """Begin new averages at the end of each epoch."""

    name = "epoch"

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run, Frequency(1, "epoch"))

    def act(self) -> None:
        """Begin new averages."""
        self.done()
        self.run.averages["epoch"] = Averages()
