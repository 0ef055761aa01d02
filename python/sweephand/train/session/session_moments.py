"""The moments of a session: saved as checkpoints, gone on from, and gone back to."""

from __future__ import annotations

import logging
import sys

from sweephand.checks import check_flag
from sweephand.source.source import MinibatchSource
from sweephand.train.checkpoint.checkpoint import Checkpoint
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore
from sweephand.train.checkpoint.read_state import read_count, read_optional, read_text, reading
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.evaluation import Evaluator
from sweephand.train.session.preemption import PREEMPTED_EXIT_CODE
from sweephand.train.session.saver import Saver
from sweephand.train.session.steering import Steering
from sweephand.train.session.training_run import TrainingRun
from sweephand.train.spikes.healer import Healer
from sweephand.train.spikes.moments import Moment
from sweephand.train.trainer.trainer import Trainer

logger = logging.getLogger("sweephand")


class SessionMoments:
    """Saves a session, goes on from what was saved, and goes back to earlier moments."""

    _ended: str | None
    _evaluator: Evaluator
    _healer: Healer | None
    _run: TrainingRun
    _saver: Saver | None
    _source: MinibatchSource
    _steering: Steering
    _store: CheckpointStore | None = None  # of whose checkpoints all are ours
    _trainer: Trainer

    def _begin(self) -> None:
        """Restore the checkpoint to begin with, if there is one."""
        if self._saver is not None:
            store = self._store = self._saver.store
            checkpoint = self._saver.begin_with(self._source.events, self._say)
            if checkpoint is not None:
                snapshot = Snapshot.read(checkpoint, self._trainer.model)
                if self._healer is not None:
                    self._healer.continue_from(snapshot)
                self._restore(snapshot)
                self._say(f"going on from {checkpoint.folder}")
                if checkpoint.folder.parent != store.folder:
                    self._store = None  # its other checkpoints are not ours
            elif self._saver.restores:
                self._say(f"no checkpoint in {store.folder}: starting afresh")
        self._steering.begin(self._is_there)

    def _is_there(self, number: int) -> bool:
        """Whether there still is a checkpoint of this session."""
        return self._store is not None and self._store.path(number).exists()

    def _keep(self) -> None:
        """Keep the present moment in memory, to go back to from a spike."""
        assert self._healer is not None
        if not self._healer.watch.is_healthy:
            return
        steps = self._run.count("minibatch")
        self._healer.moments.keep(Moment(steps, self._capture(), self._steering.accepted))

    def _return_to(self, moment: Moment) -> None:
        """Go back to a moment that was kept."""
        self._restore(moment.snapshot)
        self._steering.accepted = moment.accepted
        self._steering.begin(self._is_there)

    def _leave(self) -> None:
        """Save and exit after a signal; what is due is done after the restore."""
        assert self._saver is not None
        self._wait_for_saver()
        healthy = None if self._healer is None else self._healer.last_healthy
        self._write(self._saver, self._saver.next_number(), healthy)
        self._wait_for_saver()
        self._say(f"preempted at {self._run.count('sample')} samples, all is saved")
        sys.exit(PREEMPTED_EXIT_CODE)

    def _save(self) -> None:
        """Save the present moment, in memory if there are no checkpoints."""
        if self._saver is None:
            self._steering.accept(self._capture())
            return
        self._wait_for_saver()
        number = self._saver.next_number()
        self._steering.accept(number)
        self._run.done("checkpoint")
        self._write(self._saver, number)

    def _write(self, saver: Saver, number: int, snapshot: Snapshot | None = None) -> None:
        pinned = self._steering.accepted
        snapshot = snapshot or self._capture()
        saver.save(number, snapshot, pinned if isinstance(pinned, int) else None)

    def _read(self, number: int) -> Snapshot:
        """Read a checkpoint again that this session has saved."""
        assert self._saver is not None
        self._wait_for_saver()
        checkpoint = Checkpoint(self._saver.store.path(number))
        return Snapshot.read(checkpoint, self._trainer.model)

    def _wait_for_saver(self) -> None:
        if self._saver is not None:
            self._saver.wait()

    def _watch_saver(self) -> None:
        if self._saver is not None:
            self._saver.watch()

    def _tell_saved(self, checkpoint: Checkpoint) -> None:
        self._trainer.tell("event", {"message": f"saved {checkpoint.folder}"})

    def _say(self, message: str) -> None:
        """Write a message to the progress writers, or to the log if none of them shows it."""
        if not self._trainer.tell("event", {"message": message}):
            logger.warning("%s", message)

    def _capture(self) -> Snapshot:
        snapshot = self._run.capture()
        snapshot.state["session"] = {
            "seconds": self._run.feed.seconds,
            "steering": self._steering.state_dict(),
            "ended": self._ended,
            "is_tested": self._evaluator.is_tested,
        }
        if self._healer is not None:
            snapshot.state["session"]["spikes"] = self._healer.state_dict()
        return snapshot

    def _restore(self, snapshot: Snapshot) -> None:
        """Go on from where a session was saved."""
        self._run.restore(snapshot)
        with reading("a session"):
            state = snapshot.state["session"]
            ended = read_optional(read_text, "ended", state["ended"])
            is_tested = check_flag("is_tested", state["is_tested"])
            self._run.feed.begin_at(read_count("seconds", state["seconds"]))
            self._steering.load_state_dict(state["steering"])
            if self._healer is not None and "spikes" in state:  # an earlier run had no policy
                self._healer.watch.load_state_dict(state["spikes"]["watch"])
        self._ended, self._evaluator.is_tested = ended, is_tested
