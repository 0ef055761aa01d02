"""Rollback from a loss spike, which leaves out its cause.

snapshot      first suspect    first out of the band     alarm
|.................|...................|....................|
<---------------------------------------------------------- go back
------------------> train again; here trials find the cause, and it is left out
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweephand import LossScaleError
from sweephand.ext.follow.spikes.moments import Moment, Moments, StepPlace
from sweephand.ext.follow.spikes.spike import Spike, SpikeError, SpikeOutcome
from sweephand.ext.follow.spikes.spike_policy import SpikeAction, SpikePolicy
from sweephand.ext.follow.spikes.spike_report import SpikeReport
from sweephand.ext.follow.spikes.spike_trials import SpikeTrials, Suspicion
from sweephand.ext.follow.spikes.spike_watch import Seen, SpikeWatch
from sweephand.extend import (
    Data,
    MemorySaving,
    Snapshot,
    StepGuard,
    TrainingRun,
    event_of,
    on_first,
    reading,
)

DEFAULT_REPORT = "spikes.json"


class Spiked(Exception):
    """A spike was seen, and training must go back."""


class SpikeRollback(StepGuard):
    """Loss-spike rollback: sees spikes, goes back, and leaves out their causes.

    `next_size` returns the size of the next minibatch, and the report goes to the folder of the
    checkpoints unless the policy names another.
    """

    def __init__(
        self,
        run: TrainingRun,
        policy: SpikePolicy,
        next_size: Callable[[], int],
        saving: MemorySaving,
        folder: Path | None,
    ) -> None:
        super().__init__(run.count)
        if not hasattr(run.source, "events"):
            raise ValueError("a spike_policy needs a MinibatchSource, whose events it adds to")
        if policy.has_gradient_norms:
            run.trainer.measure_gradient_norms()
        self._run = run
        self._policy = policy
        self._next_size = next_size
        self._saving = saving
        self._path = folder and folder / DEFAULT_REPORT
        if policy.report is not None:
            self._path = Path(policy.report).expanduser()
        self._suspicion: Suspicion | None = None
        self.moments = Moments(policy.frequency)
        self.watch = SpikeWatch(policy)
        self.report = SpikeReport()

    def check(self) -> None:
        """Raise `Spiked` if a spike was seen."""
        if self.watch.alarm is not None:
            raise Spiked

    @property
    def is_healthy(self) -> bool:
        """True if the last step was."""
        return self.watch.is_healthy

    def is_due(self) -> bool:
        """Return True if the present moment is to be kept."""
        return self.watch.is_healthy and self.moments.is_due(self._run.trainer.consumed.steps)

    def act(self) -> None:
        """Keep the present moment in memory, to go back to it from a spike."""
        if self.watch.is_healthy:  # the results of the last step may have come since
            steps = self._run.count("minibatch")
            snapshot = self._run.capture_session()
            self.moments.keep(Moment(steps, snapshot, self._saving.accepted))

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
        self._begin = self._run.source.position

    def note(self, size: int, minibatch: Data, num_samples: int) -> None:
        """Note the minibatch of the next step, and the size that was requested."""
        step = self._run.trainer.consumed.steps + 1
        end = self._run.source.position
        begin = self._begin
        time = getattr(minibatch, "nominal_time", begin.time)
        self.moments.note(StepPlace(step, begin, size, time, end, num_samples))

    def go_back(self, error: Exception) -> bool:
        """Go back from a spike; return False if it is no spike, or was judged before."""
        is_failed_update = isinstance(error, LossScaleError)
        seen = self.watch.alarm or self._failed("gradient norm" if is_failed_update else "loss")
        if seen is None or seen.step in self.watch.judged:
            return False
        found = self.moments.go_back(seen.step, self._policy.reach)
        if found is None:
            if self.watch.alarm is None:
                return False
            self.watch.alarm = None
            self._run.announce(f"step {seen.step} spikes, and no moment before it is known")
            return True
        moment, places = found
        watch = self.watch.copy()
        self._suspicion = Suspicion(seen, watch, places, is_failed_update, moment.step)
        self._run.restore_session(moment.snapshot)
        self._saving.accepted = moment.accepted
        self._run.begin()
        self._run.announce(f"step {seen.step} spikes: back to step {moment.step}")
        return True

    def _resolve(self) -> None:
        """Find the cause, once training has come to the first suspect again."""
        suspicion = self._suspicion
        if suspicion is None:
            return
        if self._run.source.current_position < suspicion.places[0].begin.time:
            return
        self._suspicion = None
        trials = SpikeTrials(self._run, self._policy, self._next_size, suspicion)
        self._leave_out(suspicion, trials)

    def _failed(self, name: str) -> Seen | None:
        """Return the first step after the last applied step, which has no figure."""
        for place in self.moments.places:
            if place.step > self.watch.last_applied and place.num_samples:
                return Seen(place.step, {name: math.inf}, {name: math.inf})
        return None

    def _leave_out(self, suspicion: Suspicion, trials: SpikeTrials) -> None:
        seen, source = suspicion.seen, self._run.source
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
        source = self._run.source
        stood = source.position
        source.position = place.begin
        planned = next(source.plan(place.size))
        source.position = stood
        return tuple(dict.fromkeys(planned.ids))  # in rows a sequence may have several pieces

    def _action(self, spike: Spike) -> SpikeAction:
        action = self._policy.action
        if not callable(action):
            return action
        answer: SpikeAction = self._run.trainer.model.workers.gather(action(spike))[0]
        if answer not in _OUTCOMES:
            raise ValueError(
                f"the action of a spike must be {', '.join(filter(None, _OUTCOMES))}, "
                f"got {answer!r:.100}"
            )
        return answer

    def _has_too_many(self, outcome: SpikeOutcome) -> bool:
        counted = [one for one in self.report.spikes if one.outcome != "ignored"]
        return outcome != "ignored" and len(counted) >= self._policy.max_spikes

    def _record(self, spike: Spike, action: SpikeAction | None) -> None:
        """Add a spike to the report, and raise if it is the end."""
        self._add(SpikeReport((*self.report.spikes, spike), self._events))
        if self._path is not None:
            path = self._path
            on_first(self._run.trainer.model.workers, lambda: self.report.write(path))
        self._run.announce(str(spike))
        if spike.outcome == "stopped":
            most = self._policy.max_spikes
            why = "as action says" if action == "stop" else f"more than max_spikes={most}"
            raise SpikeError(f"{spike}, {why}: see {self._path or 'session.spike_report'}")

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
        return tuple(event.to_json() for event in self._run.source.events)

    def prepare(self, snapshot: Snapshot) -> None:
        """Continue the report of a checkpoint, and give the source the events that it lacks."""
        with reading("a session"):
            state = snapshot.state["session"].get("spikes")
        if state is not None:
            report = SpikeReport.of_dict(state["report"])
            source = self._run.source
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
