"""A training run: its minibatches and activities, and how it goes back to a moment."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

from sweephand.base.checks import check_int
from sweephand.errors import ArgumentTypeError, StateError
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT
from sweephand.source.schedules import Schedule, Spec, StepSchedule, minibatch_size_schedule
from sweephand.source.source import MinibatchSource
from sweephand.train.checkpoint import Snapshot
from sweephand.train.records import Averages, Step
from sweephand.train.states import decode, reading
from sweephand.train.trainer.trained_model import Data
from sweephand.train.trainer.trainer import Trainer

logger = logging.getLogger("sweephand")


FrequencyUnit: TypeAlias = Literal["sample", "minibatch", "sweep", "epoch", "seconds"]
FrequencySpec: TypeAlias = int | tuple[int, FrequencyUnit] | None


@dataclass(frozen=True)
class Frequency:
    """Every ``count`` of a unit."""

    count: int | None  # 0: never; None: once, at the end
    unit: FrequencyUnit = "sample"  # a label sample, over all workers

    @classmethod
    def parse(cls, name: str, spec: object) -> Self:
        """Parse a frequency as `TrainingSession` takes it, or raise TypeError or ValueError."""
        if spec is None or spec == INFINITELY_REPEAT:
            return cls(None)
        if spec == FULL_DATA_SWEEP:
            return cls(1, "sweep")
        if not isinstance(spec, tuple):
            return cls(check_int(name, spec, least=0))
        if len(spec) != 2 or spec[1] not in get_args(FrequencyUnit):
            raise ValueError(
                f"{name} must be None, a number of samples or (n, unit) with a unit of "
                f"{', '.join(get_args(FrequencyUnit))}, got {spec!r}"
            )
        return cls(check_int(name, spec[0], least=0), spec[1])


# EX_TEMPFAIL of sysexits.h: try again later.
PREEMPTED_EXIT_CODE = 75
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Preempted(Exception):
    """The end of training by a signal, in time to save."""


class Preemption:
    """A context in which SIGTERM and SIGUSR1 only set a flag, if that is wanted.

    Outside of the main thread it cannot, which is logged.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._handlers: dict[signal.Signals, Any] = {}
        self.is_requested = False

    def __enter__(self) -> Self:
        """Install the handlers."""
        if self._is_wanted and threading.current_thread() is not threading.main_thread():
            logger.warning("signals reach the main thread only: this run cannot be preempted")
        elif self._is_wanted:
            self._handlers = {one: signal.signal(one, self._request) for one in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for one, handler in self._handlers.items():
            signal.signal(one, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True


class MinibatchFeed:
    """Reads minibatches, and exchanges the counts of all workers at once.

    `watch` is called before each exchange on every worker; what it raises ends training on all.
    """

    def __init__(
        self, trainer: Trainer, preemption: Preemption, watch: Callable[[], object]
    ) -> None:
        self._trainer = trainer
        self._workers = trainer.model.workers
        self._preemption = preemption
        self._watch = watch
        self._is_preempted = False
        self.num_sequences = 0  # of the last minibatch, over all workers
        self._started = time.monotonic()
        self.seconds = 0  # since the start of training, those before a restore included

    def begin_at(self, seconds: int) -> None:
        """Continue counting at a number of seconds."""
        self.seconds = seconds
        self._started = time.monotonic() - seconds

    def next(self, source: MinibatchSource, size: int) -> tuple[Data, int]:
        """Return this worker's share of the next minibatch, and the label samples of all.

        If one of them cannot read its share, all raise why.
        """
        minibatch: Data = {}
        num_samples = 0
        error = None
        try:
            self._watch()
            device, workers = self._trainer.model.device, self._workers
            share = workers.num_partitions, workers.partition_index
            minibatch = source.next_minibatch(size, None, device, *share)
            if minibatch:
                num_samples = self._trainer.count_local_label_samples(minibatch)
        except Exception as caught:
            error = caught
        seconds = int(time.monotonic() - self._started) if self._workers.rank == 0 else 0
        counts, self._is_preempted = self._workers.agree(
            [num_samples, getattr(minibatch, "num_sequences", 0), seconds],
            error=error,
            stop=self._preemption.is_requested,
            minibatch=minibatch,
        )
        num_samples, self.num_sequences, self.seconds = counts
        return minibatch, num_samples

    def raise_if_preempted(self) -> None:
        """Raise `Preempted` on all workers if any of them was asked to leave."""
        alone = self._workers.num_partitions == 1
        if self._is_preempted or (alone and self._preemption.is_requested):
            raise Preempted


NEVER = Frequency(0)


class GoBack(Exception):
    """An activity wants to go back: the session asks it to, by `Activity.go_back`."""


class Activity:
    """Something that a session does at a frequency, or with every step.

    It is due when progress has passed multiples of the frequency since it was done; and if it
    is final at the end, unless it was just done. An activity that a user gives to a session is
    bound to its run when the session is made.
    """

    name: ClassVar[str] = ""  # in checkpoints; empty if they hold no place of it
    is_optional: ClassVar[bool] = False  # it may be missing in a checkpoint
    is_final: ClassVar[bool] = False  # it is done at the end of training, too
    is_after_checkpoint: ClassVar[bool] = False  # it is done after that of its moment
    run: TrainingRun

    def __init__(self, run: TrainingRun | None = None, frequency: Frequency = NEVER) -> None:
        self.every = frequency
        if run is not None:
            Activity.bind(self, run)

    def bind(self, run: TrainingRun) -> None:
        """Begin anew with a run, or raise ValueError if it does not fit."""
        self.run = run
        self.index = 0  # how many multiples were passed when it was last done
        self.ended: str | None = None  # why training is to end, if this activity asks for it
        self._done_at = 0  # in minibatches

    def prepare(self, snapshot: Snapshot) -> None:
        """Prepare for a snapshot of an earlier process, before it is restored."""

    def begin(self) -> None:
        """Begin at the present moment, after a restore, if any."""

    @property
    def is_healthy(self) -> bool:
        """False if the present moment is none to save and to go back to."""
        return True

    @property
    def last_healthy(self) -> Snapshot | None:
        """A moment to save in place of the present one, if that is not healthy."""
        return None

    def before_step(self) -> None:
        """Prepare for a step, before its minibatch is read."""

    def note_minibatch(self, size: int, minibatch: Data, num_samples: int) -> None:
        """Receive the minibatch of the next step, and the size that was requested."""

    def measured(self, step: Step) -> None:
        """Receive the figures of a step."""

    def check(self) -> None:
        """Raise `GoBack` if training must go back."""

    def go_back(self, error: Exception) -> bool:
        """Go back from a failure or a `GoBack`; return False if that is impossible."""
        return False

    def act(self) -> None:
        """Do it at the present moment."""
        raise NotImplementedError

    def finish(self) -> None:
        """Do it at the end of training, if it is due there."""
        if self.is_due_at_end():
            self.act()

    def is_due(self) -> bool:
        """Return True if it is due after a minibatch."""
        return self._passed() != self.index

    def is_due_at_end(self) -> bool:
        """Return True if it is due at the end of training."""
        is_new = self.run.count("minibatch") != self._done_at
        return self.is_final and self.every.count != 0 and is_new

    def done(self) -> int:
        """Mark it as done, and return the index before."""
        before, self.index = self.index, self._passed()
        self._done_at = self.run.count("minibatch")
        return before

    def session_state(self) -> dict[str, Any]:
        """Return the entries that checkpoints of a session hold, as JSON can hold them."""
        return {}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a session."""

    def state_dict(self) -> dict[str, Any]:
        """Return when it was done, as JSON can hold it."""
        return {
            "every": [self.every.count, self.every.unit],
            "index": self.index,
            "done_at": self._done_at,
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a state, or from the present progress if the frequency was another."""
        if state is None and self.is_optional:  # the run that was saved did not have it
            state = {"every": None, "index": 0, "done_at": 0}
        if state is None:
            raise ValueError(f"there is no state of its {self.name}")
        is_same = state["every"] == [self.every.count, self.every.unit]
        index, done_at = (check_int(name, state[name], 0) for name in ("index", "done_at"))
        self.index = index if is_same else self._passed()
        self._done_at = done_at

    def _passed(self) -> int:
        if not self.every.count:
            return 0
        return self.run.count(self.every.unit) // self.every.count


class TrainingRun:
    """State of a session that an epoch or a trial changes."""

    def __init__(
        self,
        trainer: Trainer,
        source: MinibatchSource,
        feed: MinibatchFeed,
        epoch: Frequency,
        sizes: StepSchedule[int],
        max_samples: int = INFINITELY_REPEAT,
    ) -> None:
        self.trainer = trainer
        self.source = source
        self.feed = feed
        self.activities: list[Activity] = []  # what is done between minibatches, in this order
        self.averages = {"epoch": Averages(), "summary": Averages()}
        self.sizes = sizes
        self.size: int | None = None  # of minibatches, once scaling has chosen it
        self.max_samples = max_samples
        self.folder: Path | None = None  # that of checkpoints
        # The last accepted epoch: the number of its checkpoint, or a snapshot.
        self.accepted: int | Snapshot | None = None
        self.has_label_per_sequence = False  # as many label samples as sequences, the last time
        self.validated: tuple[int, float] | None = None  # the last step and its loss
        self.first_rate = math.nan  # that of the first epoch
        self._epoch = epoch

    def count(self, unit: FrequencyUnit) -> int:
        """Return the label samples, minibatches, sweeps, epochs or seconds of training."""
        consumed = self.trainer.consumed
        match unit:
            case "sample":
                return consumed.samples
            case "minibatch":
                return consumed.steps
            case "sweep":
                return consumed.sweeps
            case "seconds":
                return self.feed.seconds
            case "epoch":
                epoch = self._epoch
                return self.count(epoch.unit) // epoch.count if epoch.count else 0

    @property
    def minibatch_size(self) -> int:
        """Samples of a minibatch at the present moment."""
        return self.size or self.sizes.at(self.count("sample"), self.count("sweep"))

    @property
    def has_enough(self) -> bool:
        """True if training has seen all the samples it should."""
        if self.max_samples == FULL_DATA_SWEEP:
            return self.count("sweep") > 0
        return self.count("sample") >= self.max_samples

    def next_size(self) -> int:
        """Return how many samples to request for the next minibatch."""
        return self.request(self.max_samples)

    def request(self, max_samples: int) -> int:
        """Return how many samples to request next, if there are to be so many label samples."""
        size, source = self.minibatch_size, self.source
        if max_samples == FULL_DATA_SWEEP:
            sweep = source.num_samples_per_sweep
            return min(size, sweep - source.current_position % sweep)
        left = max_samples - self.count("sample")  # about one for each sample
        if size <= left or not self.has_label_per_sequence:
            return min(size, left)
        planned = next(source.plan(size), None)  # which has the number of sequences
        if planned is None or planned.shape is not None:
            return left
        return size if planned.num_sequences <= left else int(planned.sizes[:left].sum())

    def measured(self, step: Step) -> None:
        """Add a step to the averages, and pass it on to the activities."""
        for one in self.averages.values():
            one.update(step)
        for activity in self.activities:
            activity.measured(step)

    def announce(self, message: str) -> None:
        """Write a message to the progress writers, or to the log if none of them shows it."""
        if not self.trainer.report("event", {"message": message}):
            logger.warning("%s", message)

    @property
    def rate(self) -> float:
        """The learning rate of the next step; of several learners the highest."""
        return max(learner.learning_rate for learner in self.trainer.model.learners)

    def multiply_rates(self, factor: float) -> None:
        """Multiply the learning rates of all learners, from the next step on."""
        for learner in self.trainer.model.learners:
            learner.pace.factor *= factor

    @property
    def has_last_rates(self) -> bool:
        """True if the schedules of rates have come to their last values."""
        return all(learner.pace.is_last_rate for learner in self.trainer.model.learners)

    def capture(self) -> Snapshot:
        """Return a snapshot of this moment."""
        snapshot = self.trainer.capture()
        snapshot.state["source"] = self.source.get_checkpoint_state()
        snapshot.state["run"] = {
            "actions": {one.name: one.state_dict() for one in self.activities if one.name},
            "figures": {name: asdict(one) for name, one in self.averages.items()},
            "size": self.size,
            "has_label_per_sequence": self.has_label_per_sequence,
            "validated": self.validated,
        }
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot; StateError if it is of another model, corpus or order."""
        state = snapshot.state
        if "run" not in state:
            raise StateError(
                "the checkpoint was not saved by a session: it has no position of a source"
            )
        with reading("a run"):
            run = state["run"]
            size = decode(int | None, run["size"], "size")
            has_label = decode(bool, run["has_label_per_sequence"], "has_label_per_sequence")
            validated = decode(tuple[int, float] | None, run["validated"], "validated")
            before = self.source.get_checkpoint_state()
            self.source.restore_from_checkpoint(state["source"])
            try:
                self.trainer.restore(snapshot)
            except StateError:
                self.source.restore_from_checkpoint(before)
                raise
            for activity in self.activities:
                if activity.name:
                    activity.load_state_dict(run["actions"].get(activity.name))
            figures = {name: decode(Averages, run["figures"][name]) for name in self.averages}
            self.averages |= figures
        self.size, self.has_label_per_sequence, self.validated = size, has_label, validated

    def capture_session(self) -> Snapshot:
        """Return a snapshot for checkpoints, with the states of activities."""
        snapshot = self.capture()
        session = snapshot.state["session"] = {"seconds": self.feed.seconds}
        for activity in self.activities:
            session |= activity.session_state()
        return snapshot

    def restore_session(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of `capture_session`."""
        self.restore(snapshot)
        with reading("a session"):
            state = snapshot.state["session"]
            self.feed.begin_at(decode(int, state["seconds"], "seconds"))
            for activity in self.activities:
                activity.load_session_state(state)

    def begin(self) -> None:
        """Begin at the present moment, after a restore, if any."""
        for activity in self.activities:
            activity.begin()

    @contextmanager
    def without_trace(self, *calls: Callable[[Step], object]) -> Iterator[None]:
        """Call these with each step inside, and go back to the present moment afterwards."""
        before = self.capture()
        try:
            with self.trainer.reporter.reporting_only_to(calls):
                yield
        finally:
            self.restore(before)


SOURCE = ("plan", "next_minibatch", "current_position", "get_checkpoint_state")


def check_source(name: str, value: Any) -> None:
    """Raise `ArgumentTypeError` unless a value can serve a session as its source."""
    missing = [one for one in SOURCE if not hasattr(value, one)]
    if missing or isinstance(value, type):
        raise ArgumentTypeError(
            f"{name} must be a MinibatchSource, got {value!r:.100}, which is a "
            f"{type(value).__name__} and has no {', '.join(missing[:3]) or 'position'}"
        )


def session_sizes(mb_size: Spec[int] | Schedule[int], epoch_size: int) -> StepSchedule[int]:
    """Return a schedule of minibatch sizes; lists and texts count the session's epochs."""
    if isinstance(mb_size, StepSchedule):
        return mb_size
    if isinstance(mb_size, Schedule):
        raise ArgumentTypeError(f"mb_size must give sizes in samples, got {mb_size}")
    schedule = minibatch_size_schedule(mb_size)
    if len(schedule.steps) == 1:
        return schedule
    if epoch_size == INFINITELY_REPEAT:
        raise ValueError(
            f"mb_size={mb_size!r} has a size for each epoch, but with "
            "epoch_size=INFINITELY_REPEAT there is only one"
        )
    return replace(schedule, epoch_size=None if epoch_size == FULL_DATA_SWEEP else epoch_size)
