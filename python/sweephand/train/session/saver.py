"""Saving in a session, and the checkpoint that training begins with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from sweephand.dataclass import replace
from sweephand.errors import StateError
from sweephand.events.event import Event
from sweephand.source.events import Events
from sweephand.train.checkpoint.background_writer import CheckpointWriter
from sweephand.train.checkpoint.checkpoint import STATE, Checkpoint, read_json
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore, find
from sweephand.train.checkpoint.folder_lock import FolderLock, refuse_file
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.checkpoint_config import CheckpointConfig
from sweephand.train.trainer.workers import Workers, on_first

logger = logging.getLogger("sweephand")


class Saver:
    """Saver of snapshots by a `CheckpointConfig`; worker 0 writes them.

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
        """True if training may begin with a checkpoint."""
        return self._config.restore is not False

    def begin_with(self, events: Events, say: Callable[[str], None]) -> Checkpoint | None:
        """Return the checkpoint to begin with, or None to begin afresh.

        Those that events have overtaken are passed over, which is said. The folder is ours
        from here to `close`. What goes on from its newest checkpoint is the same run, whose
        older ones are removed; anything else is a new one. It raises if another run saves
        there, if one is required and there is none, or if all are damaged.
        """
        refuse_file(self.store.folder)
        on_first(self._workers, self._lock.acquire)
        restore = self._config.restore
        if restore is False:
            return None
        path = (
            self.store.folder if restore in (True, "auto") else Path(str(restore)).expanduser()
        )
        overtaken = _overtaken(path, events)
        found = find(path, frozenset(overtaken))
        self._say_passed_over(overtaken, found, path, say)
        if found is None and restore != "auto":
            raise FileNotFoundError(
                f"restore={restore!r}, but there is no checkpoint in {path}"
                f"{' that fits the events' if overtaken else ''}"
            )
        if found is not None and found.run is not None and path == self.store.folder:
            self.store = replace(self.store, run=found.run, overtaken=frozenset(overtaken))
            self._writer = CheckpointWriter(self.store)
        return found

    def _say_passed_over(
        self,
        overtaken: Mapping[int, Event],
        found: Checkpoint | None,
        path: Path,
        say: Callable[[str], None],
    ) -> None:
        """Report the checkpoints newer than the restored one, and why they were passed over."""
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
        """Wait for the write in progress, logging a failure, and unlock the folder."""
        try:
            self._writer.wait()
        except (OSError, StateError) as error:
            logger.error("%s", error)
        finally:
            self._lock.release()


def _overtaken(path: Path, events: Events) -> dict[int, Event]:
    """Return the checkpoints of a store that events have overtaken, and one for each."""
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
