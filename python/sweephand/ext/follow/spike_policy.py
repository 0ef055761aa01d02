"""Rollback from a loss spike, which leaves out its cause.

snapshot      first suspect    first out of the band     alarm
|.................|...................|....................|
<---------------------------------------------------------- go back
------------------> train again; here trials find the cause, and it is left out
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from sweephand import LossScaleError
from sweephand.events import Ban
from sweephand.ext.follow.spike import (
    Seen,
    Spike,
    SpikeAction,
    SpikeError,
    SpikeOutcome,
    SpikeReport,
    SpikeSignal,
    SpikeWatch,
)
from sweephand.extend import (
    Activity,
    Data,
    GoBack,
    Position,
    Snapshot,
    TrainingRun,
    check_choice,
    check_int,
    check_number,
    event_of,
    on_first,
    reading,
)
from sweephand.train import Step

DEFAULT_REPORT = "spikes.json"


@dataclass(eq=False)
class SpikePolicy(Activity):
    """Detection of loss spikes, rollback, and removal of the cause: an activity of a session.

    After every step its figures are compared with the last 64 healthy ones, as a distance above
    their median in robust standard deviations (1.4826 MAD), of logarithms while all are
    positive. Figures beyond ``threshold``, or not finite, are out of the band; before 32
    healthy steps only those that are not finite. A step that a
    loss scale skips is no spike; a `LossScaleError` is one.

    After a spike, model, learners, random states, source, ledgers and progress go back to the
    last snapshot, and training repeats up to the first possible cause. There trials, which
    leave no trace, find the minibatch without which the next ones are healthy: the first one
    out of the band, or one of ``reach`` before it, whose update broke the model. If there is
    none, the cause is no minibatch (but a rate that is too high, or another mixture): a new
    band begins there, and nothing is left out.

    The cause is left out by an event of the source, which appears in its list, in checkpoints
    and in the report. All workers decide alike, by the figures of all.

    Parameters
    ----------
    threshold : float
        In robust standard deviations. Among 10^6 healthy steps with log-normal losses of any
        scatter, no loss is above 8.
    action : {"skip", "bisect"} or callable
        "skip": the minibatch is skipped. "bisect": trials with halves of it find the sequences
        that spike alone, k of n in about 2 k log2 n steps, and they are banned from there on;
        if no half spikes, the minibatch is skipped. ``action(spike)`` returns one of these, or
        "ignore" (train on it) or "stop" (raise `SpikeError`). It is called on all workers, and
        the result of the first one counts.
    signal : {"loss", "gradient norm", "both"}
        The figures: the loss per label sample, or the norm of the mean gradient, which takes a
        pass over the gradients of each step.
    reach : int
        Minibatches before the first one out of the band that can have caused it.
    frequency : int
        Minibatches between snapshots, of which two are kept in main memory.
    max_spikes : int
        More of them raise `SpikeError`.

    Attributes
    ----------
    report : SpikeReport
        The spikes of the present run; with checkpoints also ``spikes.json`` in their folder.

    Raises
    ------
    ArgumentTypeError, ValueError
        If an argument is of a wrong type or out of range.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> labels = np.random.default_rng(0).normal(2, 1, 400).astype(np.float32)
    >>> labels[201] = 1e6
    >>> corpus = sh.ArrayDeserializer({"labels": labels})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_error(model, minibatch):
    ...     error = model["mean"] - minibatch["labels"].values
    ...     return float(error @ error), [2 * error.sum(keepdims=True)]
    >>> trainer = sh.Trainer(model, squared_error, sh.numpy.SGD(model, 0.1))
    >>> policy = sh.SpikePolicy(action="bisect")
    >>> sh.training_session(
    ...     trainer, sh.MinibatchSource(corpus, max_sweeps=1, randomize=False), 4,
    ...     activities=[policy]).train()
    >>> policy.report.spikes[0].banned_ids, trainer.total_number_of_samples_seen
    (('array__201',), 399)
    """

    threshold: float = 8.0
    action: Literal["skip", "bisect"] | Callable[[Spike], SpikeAction] = "skip"
    signal: SpikeSignal = "loss"
    reach: int = 4
    frequency: int = 100
    max_spikes: int = 32

    is_after_checkpoint = True

    def __post_init__(self) -> None:
        if not check_number("threshold", self.threshold) > 0:
            raise ValueError(f"threshold must be above 0, got {self.threshold!r}")
        if not callable(self.action):
            check_choice("action", self.action, "skip", "bisect")
        check_choice("signal", self.signal, *get_args(SpikeSignal))
        check_int("reach", self.reach, 0)
        check_int("frequency", self.frequency)
        check_int("max_spikes", self.max_spikes)
        super().__init__()
        self.report = SpikeReport()

    def bind(self, run: TrainingRun) -> None:
        """Begin anew with a run, or raise ValueError if its source takes no events."""
        super().bind(run)
        if not hasattr(run.source, "events"):
            raise ValueError("a SpikePolicy needs a MinibatchSource, whose events it adds to")
        if self.signal != "loss":
            run.trainer.measure_gradient_norms()
        self._path = run.folder and run.folder / DEFAULT_REPORT
        self._suspicion: Suspicion | None = None
        self.moments = Moments(self.frequency)
        self.watch = SpikeWatch(self.threshold, self.signal)
        self.report = SpikeReport()

    def measured(self, step: Step) -> None:
        """Look at a step."""
        self.watch.update(step)

    def check(self) -> None:
        """Raise `GoBack` if a spike was seen."""
        if self.watch.alarm is not None:
            raise GoBack

    @property
    def is_healthy(self) -> bool:
        """True if the last step was."""
        return self.watch.is_healthy

    def is_due(self) -> bool:
        """Return True if the present moment is to be kept."""
        return self.watch.is_healthy and self.moments.is_due(self.run.trainer.consumed.steps)

    def act(self) -> None:
        """Keep the present moment in memory, to go back to it from a spike."""
        if self.watch.is_healthy:  # the results of the last step may have come since
            steps = self.run.count("minibatch")
            snapshot = self.run.capture_session()
            self.moments.keep(Moment(steps, snapshot, self.run.accepted))

    @property
    def last_healthy(self) -> Snapshot | None:
        """The last kept moment, if the present moment is not healthy."""
        return None if self.watch.is_healthy else self.moments.last.snapshot

    def before_step(self) -> None:
        """Leave out the cause of a spike, and note the position of the source.

        Raises
        ------
        SpikeError
            If a callback asks for it, or there are too many.
        """
        suspicion, source = self._suspicion, self.run.source
        if suspicion and source.current_position >= suspicion.places[0].begin.time:
            self._suspicion = None
            self._leave_out(suspicion, SpikeTrials(self.run, self.threshold, suspicion))
        self._begin = source.position

    def note_minibatch(self, size: int, minibatch: Data, num_samples: int) -> None:
        """Note the minibatch of the next step, and the size that was requested."""
        step = self.run.trainer.consumed.steps + 1
        end = self.run.source.position
        begin = self._begin
        time = getattr(minibatch, "nominal_time", begin.time)
        self.moments.note(StepPlace(step, begin, size, time, end, num_samples))

    def go_back(self, error: Exception) -> bool:
        """Go back from a spike; return False if it is no spike, or was judged before."""
        is_failed_update = isinstance(error, LossScaleError)
        seen = self.watch.alarm or self._failed("gradient norm" if is_failed_update else "loss")
        if seen is None or seen.step in self.watch.judged:
            return False
        found = self.moments.go_back(seen.step, self.reach)
        if found is None:
            if self.watch.alarm is None:
                return False
            self.watch.alarm = None
            self.run.announce(f"step {seen.step} spikes, and no moment before it is known")
            return True
        moment, places = found
        watch = copy.deepcopy(self.watch)
        self._suspicion = Suspicion(seen, watch, places, is_failed_update, moment.step)
        self.run.restore_session(moment.snapshot)
        self.run.accepted = moment.accepted
        self.run.begin()
        self.run.announce(f"step {seen.step} spikes: back to step {moment.step}")
        return True

    def _failed(self, name: str) -> Seen | None:
        """Return the first step after the last applied step, which has no figure."""
        for place in self.moments.places:
            if place.step > self.watch.last_applied and place.num_samples:
                return Seen(place.step, {name: math.inf}, {name: math.inf})
        return None

    def _leave_out(self, suspicion: Suspicion, trials: SpikeTrials) -> None:
        seen, source = suspicion.seen, self.run.source
        cause = trials.find_cause()
        place = cause or suspicion.places[-1]
        begin, end = place.nominal_time, place.end.time
        spike = Spike(
            seen.step,
            begin,
            end,
            cause and cause.step,
            self._ids(cause) if cause else (),
            seen.figures,
            seen.z_scores,
            back_to_step=suspicion.back_to_step,
        )
        action: SpikeAction | None = self._action(spike) if cause else None
        banned: Sequence[str] = ()
        if cause and action == "bisect":
            banned = trials.find_spiking(cause, spike.ids)
        outcome: SpikeOutcome = "banned" if banned else _OUTCOMES[action]
        counted = [one for one in self.report.spikes if one.outcome != "ignored"]
        if outcome != "ignored" and len(counted) >= self.max_spikes:
            outcome = "stopped"
        elif outcome == "banned":
            source.events.ban(list(banned), at=begin)
        elif outcome == "skipped":
            source.events.skip(begin, end)
        self._record(
            replace(
                spike,
                outcome=outcome,
                banned_ids=tuple(banned),
                num_trials=trials.num_trials,
            ),
            action,
        )

    def _ids(self, place: StepPlace) -> tuple[str, ...]:
        """Return the sequences of a minibatch, over all workers."""
        source = self.run.source
        before = source.position
        source.position = place.begin
        planned = next(source.plan(place.size))
        source.position = before
        return tuple(dict.fromkeys(planned.ids))  # in rows a sequence may have several pieces

    def _action(self, spike: Spike) -> SpikeAction:
        action = self.action
        if not callable(action):
            return action
        answer: SpikeAction = self.run.trainer.model.workers.gather(action(spike))[0]
        if answer not in _OUTCOMES:
            raise ValueError(
                f"the action of a spike must be {', '.join(filter(None, _OUTCOMES))}, "
                f"got {answer!r:.100}"
            )
        return answer

    def _record(self, spike: Spike, action: SpikeAction | None) -> None:
        """Add a spike to the report, and raise if it is the end."""
        self._add(SpikeReport((*self.report.spikes, spike), self._events))
        if self._path is not None:
            path = self._path
            on_first(self.run.trainer.model.workers, lambda: self.report.write(path))
        self.run.announce(str(spike))
        if spike.outcome == "stopped":
            most = self.max_spikes
            why = "as action says" if action == "stop" else f"more than max_spikes={most}"
            raise SpikeError(f"{spike}, {why}: see {self._path or 'SpikePolicy.report'}")

    def _add(self, report: SpikeReport) -> None:
        self.report = report
        for spike in report.spikes:
            if spike.outcome in ("ignored", "accepted"):
                # After a cause that persists, later figures are at another level.
                is_alone = spike.outcome == "ignored" and spike.cause_step == spike.step
                self.watch.judged[spike.step] = "ignored" if is_alone else "accepted"

    def session_state(self) -> dict[str, Any]:
        """Return the watch's state and the report, as JSON can hold them."""
        report = SpikeReport(self.report.spikes, self._events)
        return {"spikes": {"watch": self.watch.state_dict(), "report": report.to_dict()}}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue to watch from a state; an earlier run may have had no policy."""
        if "spikes" in state:
            self.watch.load_state_dict(state["spikes"]["watch"])

    @property
    def _events(self) -> tuple[Any, ...]:
        return tuple(event.to_json() for event in self.run.source.events)

    def prepare(self, snapshot: Snapshot) -> None:
        """Continue the report of a checkpoint, and give the source the events that it lacks."""
        with reading("a session"):
            state = snapshot.state["session"].get("spikes")
        if state is not None:
            report = SpikeReport.of_dict(state["report"])
            source = self.run.source
            there = Counter(event.digest for event in source.events)
            for event in map(event_of, report.events):
                there[event.digest] -= 1
                if there[event.digest] < 0:
                    source.events.append(event)
            self._add(report)


_OUTCOMES: dict[SpikeAction | None, SpikeOutcome] = {
    "skip": "skipped",
    "bisect": "skipped",
    "ignore": "ignored",
    "stop": "stopped",
    None: "accepted",
}


class Moment(NamedTuple):
    """Moment that training can go back to, after `step` steps.

    `accepted` is what a rejected epoch goes back to from there.
    """

    step: int
    snapshot: Snapshot
    accepted: int | Snapshot | None


class StepPlace(NamedTuple):
    """Place of a step's minibatch in the source."""

    step: int  # from 1
    # of the source before it and after it
    begin: Position
    size: int  # requested samples
    nominal_time: int
    end: Position
    num_samples: int  # label samples over all workers


class Moments:
    """The last two moments that were kept, and the places of all steps since the first."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._kept: list[Moment] = []
        self.places: list[StepPlace] = []

    def is_due(self, step: int) -> bool:
        """Return True if a moment is due: at multiples, which a resumed run shares."""
        return not self._kept or step // self._every != self._kept[-1].step // self._every

    def keep(self, moment: Moment) -> None:
        """Keep a moment to go back to."""
        earlier = [one for one in self._kept if one.step < moment.step]
        self._kept = [*earlier[-1:], moment]
        self._forget(self._kept[0].step + 1, moment.step)

    @property
    def last(self) -> Moment:
        """The last kept moment. REQUIRES: a moment was kept."""
        return self._kept[-1]

    def note(self, place: StepPlace) -> None:
        """Note the place of the next step's minibatch."""
        while self.places and self.places[-1].step >= place.step:  # training went back
            self.places.pop()
        self.places.append(place)

    def go_back(self, step: int, reach: int) -> tuple[Moment, list[StepPlace]] | None:
        """Return the moment to go back to, and the places of a step and `reach` before it.

        Later ones are forgotten. None if it is not known.
        """
        found = [place for place in self.places if place.step <= step][-1 - reach :]
        kept = [one for one in self._kept if found and one.step < found[0].step]
        if not kept:
            return None
        self._kept = kept
        self._forget(0, kept[-1].step)
        return kept[-1], found

    def _forget(self, first: int, last: int) -> None:
        """Forget all places except those of a range of steps."""
        self.places = [place for place in self.places if first <= place.step <= last]


ALONE = 0.5  # of the threshold: one of several that spike together is beyond it

Look: TypeAlias = Callable[[Sequence[str]], float]  # the highest z-score of training on these


def find_spiking(ids: Sequence[str], look: Look, threshold: float) -> list[str]:
    """Return the sequences of a minibatch that spike alone, or none if the rest spikes too.

    One after the other is found by halving what is left, and following the worse half:
    2 log2 n looks lead to the worst sequence, and one shows what the rest does. If there are
    several, each is put back in once. `look` trains some of the sequences without trace.
    """
    rest = list(ids)
    found: list[str] = []
    z_score = math.inf
    while z_score > threshold:
        worst, part = z_score, rest
        while len(part) > 1:
            half = len(part) // 2
            worst, part = max(
                ((look(some), some) for some in (part[:half], part[half:])),
                key=itemgetter(0),
            )
        if worst <= ALONE * threshold or len(found) > len(ids) // 2:
            return []
        found += part
        rest.remove(part[0])
        z_score = look(rest) if rest else -math.inf
    if len(found) > 1:
        for one in list(found):  # it may spike alone, and yet not in a group
            if look([*rest, one]) <= threshold:
                found.remove(one)
                rest.append(one)
    return found


# A model is healthy if this many of the next minibatches are: a few may be damaged themselves.
HEALTHY, NEXT = 2, 5
CALM = 0.5  # of the threshold: surely healthy, and not at the border of another level


class Suspicion(NamedTuple):
    """A suspected spike, and the minibatches that may be its cause, the last where it was seen.

    The watch has the band of then.
    """

    seen: Seen
    watch: SpikeWatch
    places: Sequence[StepPlace]
    needs_updates: bool
    back_to_step: int


class SpikeTrials:
    """Trials of the minibatches of a suspicion, which leave no trace.

    REQUIRES that the run is where the first of them begins. Any of them may be the cause.
    `num_trials` counts trained minibatches.
    """

    def __init__(
        self,
        run: TrainingRun,
        threshold: float,
        suspicion: Suspicion,
    ) -> None:
        self._run = run
        self._threshold = threshold
        self._suspicion = suspicion
        self._places = suspicion.places
        self.num_trials = 0

    def find_cause(self) -> StepPlace | None:
        """Return the last minibatch without which the next ones are healthy, or None."""
        return next(filter(self._recovers_without, reversed(self._places)), None)

    def find_spiking(self, cause: StepPlace, ids: Sequence[str]) -> list[str]:
        """Return the sequences of a minibatch that spike alone; see `find_spiking`."""
        index = self._places.index(cause)
        after = self._places[index + 1 :]

        def look(kept: Sequence[str]) -> float:
            left_out = tuple(sorted(set(ids).difference(kept)))
            self._run.source.position = cause.begin
            with self._run.source.events.trying(Ban(ids=left_out, at=cause.nominal_time)):
                return self._look(after)

        with self._trained(self._places[:index]):
            return find_spiking(ids, look, self._threshold)

    def _recovers_without(self, left_out: StepPlace) -> bool:
        """Return True if the run is healthy at the spike once a minibatch is left out."""
        *before, last = self._places
        with self._trained([one for one in before if one is not left_out]) as is_trained:
            if not is_trained:
                return False
            source, asked, healthy = self._run.source, 0, 0
            source.position = last.end if left_out is last else last.begin
            while asked < NEXT and healthy < HEALTHY:
                planned = next(source.plan(self._run.next_size()), None)
                if planned is None:
                    break
                asked += 1
                healthy += self._look() <= CALM * self._threshold
                source.position = planned.next_position
        return healthy >= min(asked, HEALTHY)

    def _look(self, after: Sequence[StepPlace] = ()) -> float:
        """Return the highest z-score of the next minibatches, trained without trace."""
        steps: list[Step] = []
        with self._run.without_trace(steps.append):
            try:
                self._step()
                self._train(after)
            except (FloatingPointError, LossScaleError):
                return math.inf
        return max(map(self._z_score, steps), default=-math.inf)

    @contextmanager
    def _trained(self, places: Sequence[StepPlace]) -> Iterator[bool]:
        """Train minibatches, and go back afterwards; False if that failed."""
        with self._run.without_trace():
            try:
                self._train(places)
                is_trained = True
            except (FloatingPointError, LossScaleError):
                is_trained = False
            yield is_trained

    def _train(self, places: Sequence[StepPlace]) -> None:
        for place in places:
            self._run.source.position = place.begin
            self._step()

    def _step(self) -> None:
        """Train the next minibatch, and wait for its results."""
        run = self._run
        run.feed.raise_if_preempted()
        minibatch, num_samples = run.feed.next(run.source, self._run.next_size())
        run.has_label_per_sequence = num_samples == run.feed.num_sequences
        self.num_trials += 1
        run.trainer.train_minibatch(minibatch, num_samples)
        run.trainer.reporter.await_step()

    def _z_score(self, step: Step) -> float:
        """Return the highest z-score of a step."""
        if not step.applied and (self._suspicion.needs_updates or not math.isfinite(step.loss)):
            return math.inf
        scores = self._suspicion.watch.look(step).z_scores
        if not step.applied:  # it has no gradient
            scores.pop("gradient norm", None)
        return max(scores.values(), default=-math.inf)
