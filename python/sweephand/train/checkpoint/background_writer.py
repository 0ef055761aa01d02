"""Checkpoints written by a thread while training goes on."""

import threading
from collections.abc import Collection

from sweephand.train.checkpoint.checkpoint import Checkpoint, Contents
from sweephand.train.checkpoint.checkpoint_store import CheckpointStore


class CheckpointWriter:
    """Writes one checkpoint at a time into a store.

    Its thread ends with each checkpoint; the interpreter waits for it before it exits.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self._thread: threading.Thread | None = None
        self._written: Checkpoint | None = None
        self._error: BaseException | None = None

    def start(self, number: int, contents: Contents, pinned: Collection[int]) -> None:
        """Begin to write a checkpoint; REQUIRES that the one before was taken by `wait`."""
        self._thread = threading.Thread(
            target=self._write, args=(number, contents, pinned), name="sweephand checkpoint"
        )
        self._thread.start()

    def poll(self) -> Checkpoint | None:
        """Return the checkpoint that has become durable since, if any, or raise why not."""
        if self._thread is None or self._thread.is_alive():
            return None
        return self.wait()

    def wait(self) -> Checkpoint | None:
        """Wait for the checkpoint that is being written, and return it as `poll` does."""
        if self._thread is None:
            return None
        self._thread.join()
        self._thread = None
        written, self._written = self._written, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return written

    def _write(self, number: int, contents: Contents, pinned: Collection[int]) -> None:
        try:
            self._written = self.store.write(number, contents, pinned)
        except BaseException as error:  # raised where it is waited for
            self._error = error
