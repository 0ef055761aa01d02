"""Saved moments of a session, in memory or as checkpoints, and their settings."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from sweephand.base.checks import check_choice, check_flag, check_int, check_path
from sweephand.errors import ArgumentTypeError, StateError
from sweephand.train.checkpoint import (
    Checkpoint,
    CheckpointStore,
    FolderLock,
    Snapshot,
    find,
)
from sweephand.train.learners.learner import Restored
from sweephand.train.session.training_run import (
    NEVER,
    PREEMPTED_EXIT_CODE,
    Activity,
    Frequency,
    FrequencySpec,
    TrainingRun,
)
from sweephand.train.trainer.workers import on_first

logger = logging.getLogger("sweephand")


Restore: TypeAlias = Literal["auto"] | bool | str | Path


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints of a session: where and how often it saves, and how it restores.

    Parameters
    ----------
    filename : path or None
        The folder of the checkpoints, in which one run at a time saves. None: no checkpoints.
    frequency : None, int or (int, unit)
        As for `training_session`.
    restore : {"auto", True, False} or path
        The checkpoint to begin with. "auto": the newest whole one, or none, with a message.
        True: the newest one, and an error if there is none. A path: that one. False: none.
    preserve_all : bool
        Never remove a checkpoint.
    hyperparameters : {"checkpoint", "given"}
        Which schedules and hyperparameters hold after a restore: those of the checkpoint, with
        a warning for each that differs, or those that the learners were made with.
    keep_last : int, optional
        Number of the newest checkpoints to keep, 1 by default. The one of the last accepted
        epoch is kept too, those of other runs are never removed.

    Examples
    --------
    >>> import sweephand as sh
    >>> config = sh.CheckpointConfig("runs/first", frequency=(10, "minibatch"), keep_last=2)
    >>> config.restore
    'auto'
    """

    filename: str | Path | None
    frequency: FrequencySpec = None
    restore: Restore = "auto"
    preserve_all: bool = False
    keep_last: int | None = None
    hyperparameters: Restored = "checkpoint"

    def __post_init__(self) -> None:
        Frequency.parse("frequency", self.frequency)
        if self.filename is not None:
            check_path("filename", self.filename)
        if self.restore == "" or not isinstance(self.restore, bool | str | PathLike):
            raise ArgumentTypeError(
                f"restore must be 'auto', True, False or a path, got {self.restore!r}"
            )
        if self.filename is None and (self.frequency is not None or self.restore != "auto"):
            raise ValueError("a checkpoint frequency or restore needs a filename")
        if self.preserve_all and self.keep_last is not None:
            raise ValueError("give preserve_all or keep_last, not both")
        if self.keep_last is not None:
            check_int("keep_last", self.keep_last)
        check_flag("preserve_all", self.preserve_all)
        check_choice("hyperparameters", self.hyperparameters, "checkpoint", "given")


class Saving(Activity):
    """Save checkpoints, which worker 0 writes while training goes on, and begin from them.

    Without a folder only the last accepted epoch is kept, in memory.
    """

    name = "checkpoint"
    is_final = True

    def __init__(self, run: TrainingRun, config: CheckpointConfig | None) -> None:
        if config is None or config.filename is None:
            super().__init__(run, NEVER)
            self.store: CheckpointStore | None = None
        else:
            super().__init__(run, Frequency.parse("frequency", config.frequency))
            run.folder = Path(config.filename).expanduser()
            keep_last = None if config.preserve_all else config.keep_last or 1
            self.store = CheckpointStore(run.folder, keep_last)
            self._restore, self._hyperparameters = config.restore, config.hyperparameters
            self._lock = FolderLock(run.folder)
            run.trainer.model.check_savable()
        self.is_to_accept = False  # the present moment as the last accepted epoch
        self._workers = run.trainer.model.workers
        self._writing: Future[Checkpoint] | None = None
        self._is_store_ours = False  # with all of its checkpoints

    def restore_first(self) -> None:
        """Lock the folder until `close`, and restore the checkpoint to begin with, if any.

        A run that continues from the newest checkpoint of the store is the same run, whose
        older ones are removed; anything else is a new one.
        """
        if self.store is None:
            return
        run, restore, folder = self.run, self._restore, self.store.folder
        on_first(self._workers, self._lock.acquire)
        checkpoint = None
        if restore is not False:
            path = folder if restore in (True, "auto") else Path(str(restore)).expanduser()
            checkpoint = find(path)
            if checkpoint is None and restore != "auto":
                raise FileNotFoundError(
                    f"restore={restore!r}, but there is no checkpoint in {path}"
                )
            if checkpoint is not None and path == folder:
                self.store = replace(self.store, run=checkpoint.run)
        self._is_store_ours = checkpoint is None or checkpoint.folder.parent == folder
        if checkpoint is not None:
            snapshot = run.trainer.read(checkpoint, self._hyperparameters)
            for one in run.activities:
                one.prepare(snapshot)
            run.restore_session(snapshot)
            run.announce(f"going on from {checkpoint.folder}")
        elif restore is not False:
            run.announce(f"no checkpoint in {folder}: starting afresh")

    def is_due(self) -> bool:
        """Return True if the present moment is to be saved."""
        is_wanted = self.is_to_accept or super().is_due()
        return is_wanted and all(one.is_healthy for one in self.run.activities)

    def act(self) -> None:
        """Begin to save the present moment."""
        if self.store is None:
            self._accept(self.run.capture_session())
            return
        self._wait()
        number = self._next_number(self.store)
        self._accept(number)
        self.done()
        self._write(self.store, number, self.run.capture_session())

    def finish(self) -> None:
        """Save the end of training, and wait until it is durable."""
        super().finish()
        self._wait()

    @property
    def has_accepted(self) -> bool:
        """True if the last accepted epoch, if any, is still there."""
        number = self.run.accepted
        if self.store is None or not isinstance(number, int):
            return True
        return self._is_store_ours and self.store.path(number).exists()

    def recall(self) -> Snapshot:
        """Return the last accepted epoch. REQUIRES: there is such an epoch."""
        accepted = self.run.accepted
        if isinstance(accepted, Snapshot):
            return accepted
        assert self.store is not None
        assert accepted is not None
        self._wait()
        checkpoint = Checkpoint(self.store.path(accepted))
        return self.run.trainer.read(checkpoint, self._hyperparameters)

    def watch(self) -> None:
        """Report a checkpoint that has become durable, or raise why it could not be saved."""
        if self._writing is not None and self._writing.done():
            self._wait()

    def close(self) -> None:
        """Wait for the write in progress, logging a failure, and unlock the folder."""
        try:
            self._wait()
        except (OSError, StateError) as error:
            logger.error("%s", error)
        finally:
            if self.store is not None:
                self._lock.release()

    def leave(self) -> NoReturn:
        """Save and exit after a signal; due activities are done after the restore."""
        assert self.store is not None  # else no signal is heard
        self._wait()
        healthy = filter(None, (one.last_healthy for one in self.run.activities))
        snapshot = next(healthy, None) or self.run.capture_session()
        self._write(self.store, self._next_number(self.store), snapshot)
        self._wait()
        self.run.announce(f"preempted at {self.run.count('sample')} samples, all is saved")
        sys.exit(PREEMPTED_EXIT_CODE)

    def _accept(self, moment: int | Snapshot) -> None:
        """Remember where the present moment was saved, if it is to be accepted."""
        if self.is_to_accept:
            self.is_to_accept = False
            self.run.accepted = moment

    def _next_number(self, store: CheckpointStore) -> int:
        """Return the number of the next checkpoint, the same on all workers."""
        own = store.next_number() if self._workers.rank == 0 else 0
        return int(self._workers.gather(own)[0])

    def _write(self, store: CheckpointStore, number: int, snapshot: Snapshot) -> None:
        """Begin to write a snapshot. REQUIRES: the previous snapshot was waited for."""
        if self._workers.rank == 0:
            pinned = (self.run.accepted,) if isinstance(self.run.accepted, int) else ()
            # Its thread ends with the checkpoint; the interpreter waits for it before it exits.
            executor = ThreadPoolExecutor(1, "sweephand checkpoint")
            self._writing = executor.submit(store.write, number, snapshot.contents(), pinned)
            executor.shutdown(wait=False)

    def _wait(self) -> None:
        """Wait for the checkpoint that is being written, then do as `watch`."""
        if (writing := self._writing) is not None:
            writing.exception()  # waits; after an interrupt of it `close` waits again
            self._writing = None
            saved = writing.result().folder
            self.run.trainer.report("event", {"message": f"saved {saved}"})
