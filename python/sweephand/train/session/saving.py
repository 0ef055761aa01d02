"""Saved moments of a session: in memory, or as checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sweephand.train.checkpoint.checkpoint import Checkpoint
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.activity import NEVER, Activity
from sweephand.train.session.checkpoint_config import CheckpointConfig
from sweephand.train.session.frequency import Frequency
from sweephand.train.session.preemption import PREEMPTED_EXIT_CODE
from sweephand.train.session.saver import Saver
from sweephand.train.session.step_guard import StepGuard
from sweephand.train.session.training_run import TrainingRun


class MemorySaving(Activity):
    """Keep the last accepted epoch in memory, for a session without checkpoints.

    Attributes
    ----------
    accepted : int, Snapshot or None
        The last accepted epoch, to which a rejected one goes back: the number of a checkpoint,
        or a snapshot.
    is_to_accept : bool
        Whether that becomes the present moment, once it is saved.
    guard : StepGuard
        A moment that is not healthy is not saved.
    """

    name = "checkpoint"
    is_final = True

    def __init__(self, run: TrainingRun, frequency: Frequency = NEVER) -> None:
        super().__init__(run.count, frequency)
        self._run = run
        self.accepted: int | Snapshot | None = None
        self.is_to_accept = False
        self.guard = StepGuard(run.count)

    def restore_first(self, prepare: Callable[[Snapshot], None]) -> None:
        """Restore the checkpoint to begin with, if there is one."""

    def is_due(self) -> bool:
        """Return True if the present moment is to be saved."""
        return (self.is_to_accept or super().is_due()) and self.guard.is_healthy

    def act(self) -> None:
        """Keep the present moment, to go back to it."""
        self._accept(self._run.capture_session())

    @property
    def has_accepted(self) -> bool:
        """True if the last accepted epoch, if there is one, is still there."""
        return True

    def recall(self) -> Snapshot:
        """Return the last accepted epoch; REQUIRES that there is one."""
        assert isinstance(self.accepted, Snapshot)
        return self.accepted

    def watch(self) -> None:
        """Report a checkpoint that has become durable, or raise why it could not be saved."""

    def close(self) -> None:
        """Finish the write in progress."""

    def leave(self) -> NoReturn:
        """Save and exit after a signal."""
        raise AssertionError("signals are heard where there are checkpoints")

    def _accept(self, moment: int | Snapshot) -> None:
        """Remember where the present moment was saved, if it is to be accepted."""
        if self.is_to_accept:
            self.is_to_accept = False
            self.accepted = moment


class Saving(MemorySaving):
    """Save checkpoints, and begin with one."""

    def __init__(self, run: TrainingRun, config: CheckpointConfig) -> None:
        super().__init__(run, Frequency.parse("frequency", config.frequency))
        self._saver = Saver(config, run.trainer.model.workers, self._report)
        self._store: CheckpointStore | None = None  # of whose checkpoints all are ours
        self._is_of_tested = False  # the last checkpoint

    @property
    def store(self) -> CheckpointStore:
        """The store that it saves to."""
        return self._saver.store

    def restore_first(self, prepare: Callable[[Snapshot], None]) -> None:
        """Restore the checkpoint to begin with, if there is one.

        ``prepare`` is called with its snapshot before.
        """
        saver, run = self._saver, self._run
        checkpoint = saver.begin_with(run.source.events, run.announce)
        self._store = saver.store
        if checkpoint is not None:
            snapshot = Snapshot.read(checkpoint, run.trainer.model)
            prepare(snapshot)
            run.restore_session(snapshot)
            run.announce(f"going on from {checkpoint.folder}")
            if checkpoint.folder.parent != saver.store.folder:
                self._store = None  # its other checkpoints are not ours
        elif saver.restores:
            run.announce(f"no checkpoint in {saver.store.folder}: starting afresh")

    def act(self) -> None:
        """Begin to save the present moment."""
        self._saver.wait()
        number = self._saver.next_number()
        self._accept(number)
        self.done()
        self._is_of_tested = self._run.is_tested
        self._write(number, self._run.capture_session())

    def finish(self) -> None:
        """Save the end of training, and wait until it is durable."""
        super().finish()
        self._saver.wait()

    def is_due_at_end(self) -> bool:
        """Return True if training has changed, or was tested, since the last checkpoint."""
        is_newly_tested = self._run.is_tested and not self._is_of_tested
        return super().is_due_at_end() or (is_newly_tested and not self.frequency.is_never)

    @property
    def has_accepted(self) -> bool:
        """True if the last accepted epoch, if there is one, is still there."""
        number = self.accepted
        if not isinstance(number, int):
            return True
        return self._store is not None and self._store.path(number).exists()

    def recall(self) -> Snapshot:
        """Return the last accepted epoch, read again if it is a checkpoint."""
        if not isinstance(self.accepted, int):
            return super().recall()
        self._saver.wait()
        checkpoint = Checkpoint(self._saver.store.path(self.accepted))
        return Snapshot.read(checkpoint, self._run.trainer.model)

    def watch(self) -> None:
        """Report a checkpoint that has become durable, or raise why it could not be saved."""
        self._saver.watch()

    def close(self) -> None:
        """Finish the write in progress, and unlock the folder."""
        self._saver.close()

    def leave(self) -> NoReturn:
        """Save and exit after a signal; due activities are done after the restore."""
        run = self._run
        self._saver.wait()
        snapshot = self.guard.last_healthy or run.capture_session()
        self._write(self._saver.next_number(), snapshot)
        self._saver.wait()
        run.announce(f"preempted at {run.count('sample')} samples, all is saved")
        sys.exit(PREEMPTED_EXIT_CODE)

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._is_of_tested = bool(state["is_tested"])

    def _write(self, number: int, snapshot: Snapshot) -> None:
        pinned = self.accepted if isinstance(self.accepted, int) else None
        self._saver.save(number, snapshot, pinned)

    def _report(self, checkpoint: Checkpoint) -> None:
        self._run.trainer.report("event", {"message": f"saved {checkpoint.folder}"})
