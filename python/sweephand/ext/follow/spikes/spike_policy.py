"""Rollback from a loss spike, which leaves out its cause.

snapshot      first suspect    first out of the band     alarm
|.................|...................|....................|
<---------------------------------------------------------- go back
------------------> train again; here trials find the cause, and it is left out
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweephand import LossScaleError
from sweephand.ext.follow.spikes.spike import (
    Seen,
    Spike,
    SpikeAction,
    SpikeError,
    SpikeOutcome,
    SpikeReport,
    SpikeSettings,
    SpikeWatch,
)
from sweephand.ext.follow.spikes.spike_trials import (
    Moment,
    Moments,
    SpikeTrials,
    StepPlace,
    Suspicion,
)
from sweephand.extend import (
    Activity,
    Data,
    GoBack,
    Snapshot,
    TrainingRun,
    event_of,
    on_first,
    reading,
)
from sweephand.train import Step

DEFAULT_REPORT = "spikes.json"


class SpikePolicy(SpikeSettings, Activity):
    """Detection of loss spikes, rollback, and removal of the cause: an activity of a session.

    After every step its figures are compared with the last healthy ones, as a distance above
    their median in robust standard deviations (1.4826 MAD), of logarithms while all are
    positive. Figures beyond ``threshold``, or not finite, are out of the band. A step that a
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
        that spike alone, k of n in about k log2 n + 2 steps, and they are banned from there on;
        if no half spikes, the minibatch is skipped. ``action(spike)`` returns one of these, or
        "ignore" (train on it) or "stop" (raise `SpikeError`). It is called on all workers, and
        the result of the first one counts.
    signal : {"loss", "gradient norm", "both"} or callable
        The figures: the loss per label sample, or the norm of the mean gradient, which takes a
        pass over the gradients of each step. ``signal(step)`` returns a figure of a `Step`,
        or True if it is a spike and False if not; it must be a function of the step alone.
    window : int
        Number of healthy steps in the band; before 32 of them only NaN and infinity are out.
    patience : int
        Steps in a row that must be out of the band, if they are finite.
    reach : int
        Minibatches before the first one out of the band that can have caused it.
    frequency : int
        Minibatches between snapshots, of which two are kept in main memory.
    max_spikes : int
        More of them raise `SpikeError`.
    filename : path, optional
        A JSON file, with a text file beside it; by default ``spikes.json`` in the folder of
        checkpoints. Without either there is `report` alone.

    Attributes
    ----------
    report : SpikeReport
        The spikes of the present run.

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

    is_after_checkpoint = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Activity.__init__(self)
        self.report = SpikeReport()

    def bind(self, run: TrainingRun) -> None:
        """Begin anew with a run, or raise ValueError if its source takes no events."""
        super().bind(run)
        if not hasattr(run.source, "events"):
            raise ValueError("a SpikePolicy needs a MinibatchSource, whose events it adds to")
        if self.has_gradient_norms:
            run.trainer.measure_gradient_norms()
        self._path = run.folder and run.folder / DEFAULT_REPORT
        if self.filename is not None:
            self._path = Path(self.filename).expanduser()
        self._suspicion: Suspicion | None = None
        self.moments = Moments(self.frequency)
        self.watch = SpikeWatch(self)
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
        self._resolve()
        self._begin = self.run.source.position

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
        watch = self.watch.copy()
        self._suspicion = Suspicion(seen, watch, places, is_failed_update, moment.step)
        self.run.restore_session(moment.snapshot)
        self.run.accepted = moment.accepted
        self.run.begin()
        self.run.announce(f"step {seen.step} spikes: back to step {moment.step}")
        return True

    def _resolve(self) -> None:
        """Find the cause, once training has come to the first suspect again."""
        suspicion = self._suspicion
        if suspicion is None:
            return
        if self.run.source.current_position < suspicion.places[0].begin.time:
            return
        self._suspicion = None
        trials = SpikeTrials(self.run, self, suspicion)
        self._leave_out(suspicion, trials)

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
        if self._has_too_many(outcome):
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

    def _has_too_many(self, outcome: SpikeOutcome) -> bool:
        counted = [one for one in self.report.spikes if one.outcome != "ignored"]
        return outcome != "ignored" and len(counted) >= self.max_spikes

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
