"""Saved moments of a session: in memory, or as checkpoints."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from sweephand.errors import StateError
from sweephand.events.event import Event
from sweephand.source.events import Events
from sweephand.train.checkpoint.checkpoint_store import (
    STATE,
    Checkpoint,
    CheckpointStore,
    FolderLock,
    find,
    read_json,
    refuse_file,
)
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.minibatch_feed import PREEMPTED_EXIT_CODE
from sweephand.train.session.settings import CheckpointConfig, Frequency, Restore
from sweephand.train.session.training_run import NEVER, Activity, TrainingRun
from sweephand.train.trainer.workers import on_first

logger = logging.getLogger("sweephand")


class MemorySaving(Activity):
    """Keep the last accepted epoch in memory, for a session without checkpoints."""

    name = "checkpoint"
    is_final = True

    def __init__(self, run: TrainingRun, frequency: Frequency = NEVER) -> None:
        super().__init__(run, frequency)
        self.is_to_accept = False  # the present moment as the last accepted epoch

    def restore_first(self) -> None:
        """Restore the checkpoint to begin with, if any."""

    def is_due(self) -> bool:
        """Return True if the present moment is to be saved."""
        return (self.is_to_accept or super().is_due()) and self.run.is_healthy

    def act(self) -> None:
        """Keep the present moment, to go back to it."""
        self._accept(self.run.capture_session())

    @property
    def has_accepted(self) -> bool:
        """True if the last accepted epoch, if any, is still there."""
        return True

    def recall(self) -> Snapshot:
        """Return the last accepted epoch. REQUIRES: there is such an epoch."""
        assert isinstance(self.run.accepted, Snapshot)
        return self.run.accepted

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
            self.run.accepted = moment


class Saving(MemorySaving):
    """Save checkpoints, which worker 0 writes while training goes on, and begin from them."""

    def __init__(self, run: TrainingRun, config: CheckpointConfig) -> None:
        super().__init__(run, Frequency.parse("frequency", config.frequency))
        assert config.filename is not None
        keep_last = None if config.preserve_all else config.keep_last or 1
        folder = Path(config.filename).expanduser()
        self.store = CheckpointStore(folder, keep_last, config.keep_every)
        self._config = config
        run.trainer.model.check_savable()
        self._workers = run.trainer.model.workers
        self._lock = FolderLock(folder)
        self._writing: Future[Checkpoint] | None = None
        self._is_store_ours = False  # with all of its checkpoints
        self._is_of_tested = False  # the last checkpoint

    def restore_first(self) -> None:
        """Restore the checkpoint to begin with, if any.

        The folder is locked from here to `close`, or it raises if another run saves there.
        """
        run, restore, folder = self.run, self._config.restore, self.store.folder
        refuse_file(folder)
        on_first(self._workers, self._lock.acquire)
        self.store, checkpoint = first_checkpoint(
            self.store, restore, run.source.events, run.announce
        )
        self._is_store_ours = checkpoint is None or checkpoint.folder.parent == folder
        if checkpoint is not None:
            snapshot = self._read(checkpoint)
            run.prepare(snapshot)
            run.restore_session(snapshot)
            run.announce(f"going on from {checkpoint.folder}")
        elif restore is not False:
            run.announce(f"no checkpoint in {folder}: starting afresh")

    def act(self) -> None:
        """Begin to save the present moment."""
        self._wait()
        number = self._next_number()
        self._accept(number)
        self.done()
        self._is_of_tested = self.run.is_tested
        self._write(number, self.run.capture_session())

    def finish(self) -> None:
        """Save the end of training, and wait until it is durable."""
        super().finish()
        self._wait()

    def is_due_at_end(self) -> bool:
        """Return True if training has changed, or was tested, since the last checkpoint."""
        is_newly_tested = self.run.is_tested and not self._is_of_tested
        return super().is_due_at_end() or (is_newly_tested and not self.every.is_never)

    @property
    def has_accepted(self) -> bool:
        """True if the last accepted epoch, if any, is still there."""
        number = self.run.accepted
        if not isinstance(number, int):
            return True
        return self._is_store_ours and self.store.path(number).exists()

    def recall(self) -> Snapshot:
        """Return the last accepted epoch, read again if it is a checkpoint."""
        if not isinstance(self.run.accepted, int):
            return super().recall()
        self._wait()
        return self._read(Checkpoint(self.store.path(self.run.accepted)))

    def watch(self) -> None:
        """Report a checkpoint that has become durable, or raise why it could not be saved."""
        if self._writing is not None and (
            self._writing.done() or not self._config.asynchronous
        ):
            self._wait()

    def close(self) -> None:
        """Wait for the write in progress, logging a failure, and unlock the folder."""
        try:
            self._written()
        except (OSError, StateError) as error:
            logger.error("%s", error)
        finally:
            self._lock.release()

    def leave(self) -> NoReturn:
        """Save and exit after a signal; due activities are done after the restore."""
        run = self.run
        self._wait()
        snapshot = self.run.last_healthy or run.capture_session()
        self._write(self._next_number(), snapshot)
        self._wait()
        run.announce(f"preempted at {run.count('sample')} samples, all is saved")
        sys.exit(PREEMPTED_EXIT_CODE)

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._is_of_tested = bool(state["is_tested"])

    def _read(self, checkpoint: Checkpoint) -> Snapshot:
        model = self.run.trainer.model
        return Snapshot.read(checkpoint, model, self._config.hyperparameters)

    def _next_number(self) -> int:
        """Return the number of the next checkpoint, the same on all workers."""
        number = self.store.next_number() if self._workers.rank == 0 else 0
        return self._workers.sum([number])[0]

    def _write(self, number: int, snapshot: Snapshot) -> None:
        """Begin to write a snapshot. REQUIRES: the previous snapshot was waited for."""
        if self._workers.rank == 0:
            pinned = (self.run.accepted,) if isinstance(self.run.accepted, int) else ()
            # Its thread ends with the checkpoint; the interpreter waits for it before it exits.
            executor = ThreadPoolExecutor(1, "sweephand checkpoint")
            self._writing = executor.submit(
                self.store.write, number, snapshot.contents(), pinned
            )
            executor.shutdown(wait=False)

    def _wait(self) -> None:
        """Wait for the checkpoint that is being written, then do as `watch`."""
        if (checkpoint := self._written()) is not None:
            self.run.trainer.report("event", {"message": f"saved {checkpoint.folder}"})

    def _written(self) -> Checkpoint | None:
        """Return the checkpoint that was being written, if any, or raise why it failed."""
        writing = self._writing
        if writing is None:
            return None
        writing.exception()  # waits; after an interrupt of it `close` waits again
        self._writing = None
        return writing.result()


def first_checkpoint(
    store: CheckpointStore, restore: Restore, events: Events, say: Callable[[str], None]
) -> tuple[CheckpointStore, Checkpoint | None]:
    """Return the checkpoint to begin with, or None to begin afresh, and the store to save in.

    Those that events have overtaken are passed over, with a message. A run that continues from
    the newest checkpoint of the store is the same run, whose older ones are removed; anything
    else is a new one. It raises if a checkpoint is required and there is none, or if all are
    damaged.
    """
    if restore is False:
        return store, None
    path = store.folder if restore in (True, "auto") else Path(str(restore)).expanduser()
    overtaken = _overtaken(path, events)
    found = find(path, frozenset(overtaken))
    _report_passed_over(overtaken, found, path, say)
    if found is None and restore != "auto":
        raise FileNotFoundError(
            f"restore={restore!r}, but there is no checkpoint in {path}"
            f"{' that fits the events' if overtaken else ''}"
        )
    if found is not None and path == store.folder:
        store = replace(store, run=found.run, overtaken=frozenset(overtaken))
    return store, found


def _report_passed_over(
    overtaken: Mapping[int, Event],
    found: Checkpoint | None,
    path: Path,
    say: Callable[[str], None],
) -> None:
    """Report the checkpoints newer than the restored checkpoint, and why they were skipped."""
    oldest = -1 if found is None or found.number is None else found.number
    newer = sorted(number for number in overtaken if number > oldest)
    if newer:
        name = CheckpointStore(path).path
        event = overtaken[newer[-1]]
        passed = name(newer[0]).name
        if len(newer) > 1:
            passed += f" to {name(newer[-1]).name}"
        say(
            f"passing over {passed}, taken without {event.name!r} at {event.at}, which "
            "changes what came before; they stay, and count as the oldest"
        )


def _overtaken(path: Path, events: Events) -> dict[int, Event]:
    """Return the checkpoints of a store that events have overtaken, with such an event each."""
    store = CheckpointStore(path)
    found = {}
    for number in store.numbers() if events and path.is_dir() else []:
        try:
            source = read_json(store.path(number) / STATE).get("source")
            event = None if source is None else events.overtaking(source)
        except StateError:  # damaged, or of another version: reported when it is read
            continue
        if event is not None:
            found[number] = event
    return found
