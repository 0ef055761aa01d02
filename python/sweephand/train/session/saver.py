"""Saving in a session, and the checkpoint that training begins with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sweephand.errors import StateError
from sweephand.train.checkpoint.background_writer import CheckpointWriter
from sweephand.train.checkpoint.checkpoint import Checkpoint
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore, find
from sweephand.train.checkpoint.folder_lock import FolderLock, refuse_file
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.checkpoint_config import CheckpointConfig
from sweephand.train.trainer.workers import Workers, on_first

logger = logging.getLogger("sweephand")


class Saver:
    """Saves snapshots as a `CheckpointConfig` says; worker 0 writes them.

    `tell` is called with each checkpoint once it is durable.
    """

    def __init__(
        self, config: CheckpointConfig, workers: Workers, tell: Callable[[Checkpoint], None]
    ) -> None:
        assert config.filename is not None
        keep_last = None if config.preserve_all else config.keep_last or 1
        self.store = CheckpointStore(
            Path(config.filename).expanduser(), keep_last, config.keep_every
        )
        self._config = config
        self._workers = workers
        self._tell = tell
        self._writer = CheckpointWriter(self.store)
        self._lock = FolderLock(self.store.folder)

    @property
    def restores(self) -> bool:
        """Whether training may begin with a checkpoint."""
        return self._config.restore is not False

    def begin_with(self) -> Checkpoint | None:
        """Return the checkpoint to begin with, or None to begin afresh.

        The folder is ours from here to `close`. What goes on from its newest checkpoint is the
        same run, whose older ones are removed; anything else is a new one. It raises if another
        run saves there, if one is required and there is none, or if all are damaged.
        """
        refuse_file(self.store.folder)
        on_first(self._workers, self._lock.acquire)
        restore = self._config.restore
        if restore is False:
            return None
        path = (
            self.store.folder if restore in (True, "auto") else Path(str(restore)).expanduser()
        )
        found = find(path)
        if found is None and restore != "auto":
            raise FileNotFoundError(
                f"restore={restore!r}, but there is no checkpoint in {path}"
            )
        if found is not None and found.run is not None and path == self.store.folder:
            self.store = replace(self.store, run=found.run)
            self._writer = CheckpointWriter(self.store)
        return found

    def next_number(self) -> int:
        """Return the number of the next checkpoint, the same on all workers."""
        number = self.store.next_number() if self._workers.rank == 0 else 0
        return self._workers.sum([number])[0]

    def save(self, number: int, snapshot: Snapshot, pinned: int | None) -> None:
        """Begin to save a snapshot, and pin a checkpoint that must stay.

        REQUIRES that the one before was waited for, and a number as `next_number` returned it.
        """
        if self._workers.rank == 0:
            contents = snapshot.contents()
            self._writer.start(number, contents, () if pinned is None else (pinned,))

    def watch(self) -> None:
        """Report a checkpoint that has become durable, or raise why it could not be saved."""
        self._report(self._writer.poll() if self._config.asynchronous else self._writer.wait())

    def wait(self) -> None:
        """Wait for the checkpoint that is being written, then do as `watch`."""
        self._report(self._writer.wait())

    def _report(self, written: Checkpoint | None) -> None:
        if written is not None:
            self._tell(written)

    def close(self) -> None:
        """Wait for what is being written, logging a failure, and unlock the folder."""
        try:
            self._writer.wait()
        except (OSError, StateError) as error:
            logger.error("%s", error)
        finally:
            self._lock.release()
