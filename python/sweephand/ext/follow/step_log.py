"""Log of every step of a run: a folder with a file for each worker.

It is given the step to go back to, so it is part of no checkpoint.
"""

from __future__ import annotations

import errno
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from sweephand import Minibatch
from sweephand.extend import (
    AppendedFile,
    ArgumentTypeError,
    FileLock,
    Observer,
    check_flag,
    check_int,
    check_path,
)
from sweephand.train import Record

if TYPE_CHECKING:
    from sweephand.extend import Workers


_MOST_SECONDS = 5.0  # that records wait to be written
_KEPT = "what it had before stays, and what waits is written when there is room"


class StepFile(ABC):
    """A file of records of steps that is open to be written to, by one process.

    OSError is raised if it cannot be written to, or another process does so; DataError if it is
    damaged. `kind` is the class that users know, and `what` its content, for errors.
    """

    def __init__(self, path: Path, kind: str, what: str) -> None:
        self.path = path
        self.last_step = 0  # also of those that wait to be written; 0 if there is none
        self._since: float | None = None  # when the first waiting record came
        self._file = _open_alone(path, kind, what)
        try:
            self._find_end(None)
        except BaseException:
            self._file.close()
            raise

    @abstractmethod
    def _find_end(self, step: int | None) -> None:
        """Read the end of the file, or of a step; later blocks are overwritten."""

    @abstractmethod
    def _write_waiting(self) -> None:
        """Write the records that wait, if any; those that fail wait on."""

    @abstractmethod
    def rewind(self, step: int) -> None:
        """Drop all records after a step; after step 0 all records."""

    def flush(self, *, to_disk: bool = False) -> None:
        """Write waiting records, to the disk on request; records that fail wait on."""
        if not self._file.lock.is_mine:  # a fork, whose parent will write the same
            return
        self._write_waiting()
        self._since = None
        if to_disk:
            self._file.sync()

    def close(self) -> None:
        """Write waiting records, and close the file."""
        if not self._file.lock.is_open:
            return
        try:
            self.flush()
        finally:
            self._file.close()

    def _flush_if_due(self, *, is_full: bool) -> None:
        """Write waiting records if there are many, or the first came long ago."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if is_full or now - self._since >= _MOST_SECONDS:
            self.flush()


def _open_alone(path: Path, kind: str, what: str) -> AppendedFile:
    """Open a file to append to, and refuse a second writer; OSError if it cannot be written to.

    File systems without locks refuse no writer.
    """
    while True:
        lock = FileLock(path)
        try:
            is_free = lock.take(wait=False)
        except OSError:  # file systems that know no locks
            is_free = True
        if is_free and lock.is_current:
            return AppendedFile(lock, _KEPT)
        lock.close()
        if not is_free:
            reason = (
                f"another run, or another {kind} of this one, writes to this {what}; close "
                "that one, or give each its own"
            )
            raise BlockingIOError(errno.EWOULDBLOCK, reason, str(path))


File = TypeVar("File", bound=StepFile)


class StepLog(Observer, ABC, Generic[File]):
    """Log of every step of a run, in a folder with a file for each worker.

    The arguments are those of `LossLedger`.
    """

    suffix: ClassVar[str]  # of its files
    what: ClassVar[str]  # for errors: "a ledger of losses is a folder"
    kept: ClassVar[str]  # "this ledger has rows up to step 3"

    def __init__(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> None:
        check_path("path", path)
        self._folder = Path(path).expanduser()
        self._overwrite = check_flag("overwrite", overwrite)
        self._step = 0  # the last one that was recorded or gone back to
        self._file: File | None = None  # once it is written to
        self._closing: weakref.finalize[[], StepLog[File]] | None = None
        self._num_partitions, self._partition_index = 1, 0
        self.share(num_data_partitions, partition_index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._folder)!r})"

    @abstractmethod
    def _open_file(self, path: Path) -> File:
        """Return a file to be written to, which is made if it is not there."""

    @property
    def _writes(self) -> bool:
        """True if this worker has a file."""
        return True

    def join(self, workers: Workers) -> bool:
        """Follow each worker, but of those with the same data only the first."""
        self.share(workers.num_partitions, workers.partition_index)
        return workers.counts

    def share(self, num_data_partitions: int, partition_index: int) -> None:
        """Set the number of writing workers and this one's index, before the first step."""
        count = check_int("num_data_partitions", num_data_partitions)
        index = check_int("partition_index", partition_index, 0, count)
        known = self._num_partitions, self._partition_index
        if self._file is not None and (count, index) != known:
            self.close()
        self._num_partitions, self._partition_index = count, index

    def _next_step(self, minibatch: object, step: int | None) -> int:
        """Return the step of a minibatch to be recorded; raise if it is none."""
        if not isinstance(minibatch, Minibatch):
            raise ArgumentTypeError(
                f"minibatch must be one of a source, got a {type(minibatch).__name__}"
            )
        return self._step + 1 if step is None else check_int("step", step, max(self._step, 1))

    def begin(self, step: int) -> None:
        """Prepare for the steps after a step, or raise as `record` does."""
        if self._writes:
            self._ready(step)

    def _ready(self, step: int) -> File:
        """Return the file, ready for the steps after a step."""
        if self._file is None:
            self._open(lambda file: self._prepare(file, step))
            self._step = step
        assert self._file is not None
        return self._file

    def rewind(self, step: int) -> None:
        """Drop the records of all later steps, also of workers that left.

        A trainer calls it when it is restored. Every worker does.
        """
        check_int("step", step, 0)
        has_more = self._file is None or self._file.last_step > step or self._left_files()
        if self._writes and has_more:
            self.close()
            self._open(lambda file: file.rewind(step))
        self._step = step

    def flush(self, *, to_disk: bool = False) -> None:
        """Write waiting records, and return when the disk has them on request."""
        if self._file is not None:
            self._file.flush(to_disk=to_disk)

    def close(self) -> None:
        """Write waiting records, and close the file; the next step opens it again.

        This also happens at the end of the program, and when the object is freed.
        """
        closing, self._closing, self._file = self._closing, None, None
        if closing is not None:
            closing()

    def write(self, record: Record) -> None:
        """Write buffered data where a run writes its progress."""
        if record.kind != "change":
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except OSError as failure:
            if error is None:
                raise
            error.add_note(f"{self.what} could not be closed: {failure}")

    def _open(self, prepare: Callable[[File], None]) -> None:
        """Open this worker's file, and prepare it and those of workers that left."""
        if self._folder.exists() and not self._folder.is_dir():
            reason = f"{self.what} is a folder, this is a file"
            raise NotADirectoryError(errno.ENOTDIR, reason, str(self._folder))
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._left_files():
            with closing(self._open_file(path)) as left:
                prepare(left)
        file = self._open_file(self._folder / f"{self._partition_index}{self.suffix}")
        try:
            prepare(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._closing = weakref.finalize(self, file.close)

    def _left_files(self) -> list[Path]:
        """Return the files of workers that left, which the first worker looks after."""
        found = worker_files(self._folder, self.suffix) if self._partition_index == 0 else {}
        return [path for index, path in found.items() if index >= self._num_partitions]

    def _prepare(self, file: File, step: int) -> None:
        """Refuse, or drop, the records after a step that no run has gone back to."""
        if file.last_step <= step:
            return
        if not self._overwrite:
            reason = (
                f"{self.kept} up to step {file.last_step}: restore the run that wrote "
                f"them (or call rewind({step})), name another folder, or say overwrite=True"
            )
            raise FileExistsError(errno.EEXIST, reason, str(self._folder))
        file.rewind(step)


def worker_files(folder: Path, suffix: str) -> dict[int, Path]:
    """Return the files of a folder by the workers that have written them."""
    found = {
        int(path.name.removesuffix(suffix)): path
        for path in folder.glob(f"*{suffix}")
        if path.name.removesuffix(suffix).isdecimal()
    }
    return dict(sorted(found.items()))
