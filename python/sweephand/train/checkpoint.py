"""Checkpoints on disk: each is a folder that is either complete or absent.

    <store>/checkpoint-00000007/state.json          counters, schedules, random states
                                model.npz           weights
                                ...                 what else the model and its learners need
                                manifest.json       format, version, the run that saved it, size
                                                    and SHA-256 of every file, and its own
            .lock                                   names the run that saves here, and locks it
            .writing-00000008-<attempt>             being written, or left by a kill
            .removing-00000006-<attempt>            being removed, or left by a kill

A checkpoint is written into a folder of another name: every file, then the manifest, each
synced; then the folder; then it gets its name, and the store is synced. It is read back before
an older one is removed. So at any moment, and after any kill, the newest checkpoint is whole.
Only checkpoints of the same run are ever removed. REQUIRES for writing: the lock of the store.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self, TypeAlias, runtime_checkable
from uuid import uuid4

import numpy as np

from sweephand.errors import StateError
from sweephand.run.locks import UNSUPPORTED, FileLock
from sweephand.run.writing import new_file, of_json, sync_folder, to_json
from sweephand.train.states import Sink, open_regular, plain

logger = logging.getLogger("sweephand")


LOCK = ".lock"


class FolderInUseError(BlockingIOError):
    """Another run is saving into the folder."""

    code = "folder-in-use"


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


@cache
def _let_go_in_forks() -> None:
    """Have forked children close the locks, which they would hold on to after their parent."""

    def close() -> None:
        for lock in _held:
            lock.close()

    os.register_at_fork(after_in_child=close)


class FolderLock:
    """The lock on a folder of checkpoints, which is created if it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        """Acquire it."""
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        """Release it."""
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise OSError if the folder cannot be made or written to.

        FolderInUseError names host and process of another run that holds it.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock = FileLock(self._folder / LOCK)
            _let_go_in_forks()
            _held.add(lock)
            self._take(lock)
        except OSError as error:
            self.release()
            if isinstance(error, FolderInUseError):
                raise
            reason = f"no checkpoint can be saved in {self._folder}: {error.strerror or error}"
            raise OSError(error.errno, reason, error.filename) from error

    def release(self) -> None:
        """Release the lock, if it is held; its file stays, and blocks no run."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):  # a run may be ending by an error of its own
                lock.close()

    def _take(self, lock: FileLock) -> None:
        try:
            is_free = lock.take(wait=False)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            logger.warning("%s cannot be locked: see to it that one run uses it", self._folder)
            return
        if not is_free:
            holder = os.pread(lock.fileno(), 300, 0).decode(errors="replace")
            raise FolderInUseError(
                errno.EWOULDBLOCK,
                f"{self._folder} is in use by {holder}, which saves its checkpoints there: "
                "two runs cannot share a folder, give each its own, or end that one first",
            )
        os.ftruncate(lock.fileno(), 0)
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        os.pwrite(lock.fileno(), holder.encode(), 0)


FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.json"

Contents: TypeAlias = Mapping[str, Callable[[Sink], object]]

_NAME = re.compile(r"checkpoint-(\d{8,})")


class OtherFormatError(StateError):
    """A checkpoint is complete, but in a format that this version does not read."""

    code = "other-format"


class Checkpoint:
    """A checkpoint whose files match its manifest, or StateError is raised."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = read_json(folder / MANIFEST)
        if manifest.pop("sha256", None) != _digest(manifest):
            raise StateError(
                f"{folder / MANIFEST} is damaged: it does not have its own SHA-256"
            )
        if manifest.get("format") != FORMAT:
            raise OtherFormatError(
                f"{folder} has the checkpoint format {manifest.get('format')!r} of sweephand "
                f"{manifest.get('sweephand')!r}, this is {_version()}, which reads "
                f"format {FORMAT}"
            )
        self.run: str = manifest["run"]  # which saved it
        for name, wanted in manifest["files"].items():
            try:
                with open_regular(folder / name) as file:
                    size = os.fstat(file.fileno()).st_size
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise StateError(f"{folder / name} cannot be read: {error}") from error
            if {"size": size, "sha256": digest} != wanted:
                raise StateError(
                    f"{folder / name} is damaged: it has {size} bytes of SHA-256 {digest}, the "
                    f"manifest says {wanted}"
                )

    def state(self) -> dict[str, Any]:
        """Return the content of ``state.json``."""
        state: dict[str, Any] = of_json(read_json(self.folder / STATE))
        return state


class HashedFile:
    """A file whose bytes are hashed and counted as they are written."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        self.digest = hashlib.sha256()
        self._file = file
        self.flush = file.flush

    def write(self, data: Any, /) -> int:
        """Add bytes."""
        self._file.write(data)
        self.digest.update(data)
        self.size += (count := memoryview(data).nbytes)
        return count


def write_files(folder: Path, contents: Contents, run: str) -> None:
    """Write the files of a checkpoint and its manifest, and sync them."""
    files = {}
    for name, write in contents.items():
        with new_file(folder / name) as file:
            sink = HashedFile(file)
            write(sink)
            files[name] = {"size": sink.size, "sha256": sink.digest.hexdigest()}
    manifest: dict[str, Any] = {"format": FORMAT, "sweephand": _version()}
    manifest |= {"run": run, "files": files}
    manifest["sha256"] = _digest(manifest)
    with new_file(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1, allow_nan=False).encode())
    sync_folder(folder)


def _version() -> str:
    from importlib.metadata import version  # which takes long to import

    return version("sweephand")


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        json.dumps(manifest, sort_keys=True, allow_nan=False).encode()
    ).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or raise StateError."""
    try:
        with open_regular(path) as file:
            found = json.loads(file.read().decode())
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error}") from error
    except StateError:
        raise
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path} holds no object")
    return found


def number_of(folder: Path) -> int | None:
    """Return the number of a checkpoint by the name of its folder; None for other names."""
    found = _NAME.fullmatch(folder.name)
    return None if found is None else int(found[1])


_LEFTOVER = re.compile(r"\.(writing|removing)-\d{8,}-[0-9a-f]{32}")


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of checkpoints."""

    folder: Path  # it is made at the first save
    keep_last: int | None = 1  # how many of the newest stay; None keeps all
    # what is saved is of this run, and nothing of any other is removed
    run: str = field(default_factory=lambda: uuid4().hex)

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints, complete or not, in ascending order."""
        if not self.folder.is_dir():
            return []
        found = (number_of(entry) for entry in self.folder.iterdir())
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.folder / f"checkpoint-{number:08d}"

    def newest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint, or None; StateError if all are damaged.

        Damaged ones are passed over with a message, but not one of another format.
        """
        damaged = []
        for number in reversed(self.numbers()):
            try:
                return Checkpoint(self.path(number))
            except OtherFormatError:
                raise
            except StateError as error:
                logger.warning("passing over a damaged checkpoint: %s", error)
                damaged.append(str(error))
        if damaged:
            raise StateError(f"all checkpoints in {self.folder} are damaged: {damaged[0]}")
        return None

    def next_number(self) -> int:
        """Return the number of the next checkpoint: one more than the highest."""
        return max(self.numbers(), default=-1) + 1

    def write(
        self, number: int, contents: Contents, pinned: Collection[int] = ()
    ) -> Checkpoint:
        """Write a checkpoint, read it back, and only then remove older ones but those pinned.

        Each of the contents is called with the file of its name, and writes it.
        """
        attempt = self.folder / f".writing-{number:08d}-{uuid4().hex}"
        done = "no checkpoint could be saved in"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True)
                sync_folder(self.folder.parent)
            attempt.mkdir()
            write_files(attempt, contents, self.run)
            attempt.rename(self.path(number))
            done = f"{self.path(number).name} was saved, but a call failed after that in"
            sync_folder(self.folder)
            checkpoint = Checkpoint(self.path(number))
            self._remove_older(number, pinned)
        except BaseException as error:
            shutil.rmtree(attempt, ignore_errors=True)
            if isinstance(error, OSError):
                reason = f"{done} {self.folder}, those that were there stay"
                raise OSError(
                    error.errno, f"{reason}: {error.strerror or error}", error.filename
                ) from error
            raise
        return checkpoint

    def _remove_older(self, newest: int, pinned: Collection[int]) -> None:
        if self.keep_last is not None:
            older = [number for number in self.numbers() if number < newest]
            older = [number for number in older if self._is_own(number)]
            for number in older[: max(0, len(older) - self.keep_last + 1)]:
                if number not in pinned:
                    # Under another name first: a kill must not leave half of it under its own.
                    doomed = self.folder / f".removing-{number:08d}-{uuid4().hex}"
                    self.path(number).rename(doomed)
                    shutil.rmtree(doomed, ignore_errors=True)
        for entry in list(self.folder.iterdir()):
            if _LEFTOVER.fullmatch(entry.name):
                shutil.rmtree(entry, ignore_errors=True)

    def _is_own(self, number: int) -> bool:
        """Return True if a checkpoint is known to be of this run."""
        folder = self.path(number)
        try:
            return not folder.is_symlink() and read_json(folder / MANIFEST)["run"] == self.run
        except (StateError, KeyError):
            return False


def find(path: Path) -> Checkpoint | None:
    """Return the checkpoint in a folder, the newest complete checkpoint of a store, or None.

    StateError is raised if what is there is damaged.
    """
    if path.exists() and not path.is_dir():
        raise StateError(
            f"{path} is a file: a checkpoint is a folder here, and what CNTK saved in files "
            "cannot be read"
        )
    if (path / MANIFEST).exists() or number_of(path) is not None:
        return Checkpoint(path) if path.exists() else None
    return CheckpointStore(path).newest()


class SavedFile(Protocol):
    """The content of one file of a checkpoint, held in main memory."""

    def write(self, sink: Sink, /) -> None:
        """Write it."""


@dataclass(frozen=True)
class Snapshot:
    """The state of training at one moment, which later steps do not change."""

    files: Mapping[str, SavedFile]  # by name: parameters, and what else is large
    state: dict[str, Any]  # all the rest, as JSON can hold it

    def contents(self) -> dict[str, Callable[[Sink], object]]:
        """Return the writer of each file of a checkpoint."""
        return {
            **{name: file.write for name, file in self.files.items()},
            STATE: lambda sink: sink.write(to_json(self.state).encode()),
        }


def check_json(what: str, value: object) -> None:
    """Raise TypeError unless a value survives being written to JSON and read back."""
    try:
        is_same = repr(of_json(json.loads(to_json(value)))) == repr(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be what JSON can hold: {error}") from error
    if not is_same:
        raise TypeError(
            f"{what} must be what JSON can hold (dict by str, list, str, int, float, bool or "
            f"None), got {value!r:.100}"
        )


@runtime_checkable
class HasState(Protocol):
    """An object with a state that JSON can hold."""

    def state_dict(self) -> Any:
        """Return the state."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Continue from a state."""


Stateful: TypeAlias = HasState | np.random.Generator


def capture_states(objects: Mapping[str, Stateful]) -> dict[str, Any]:
    """Return the state of each object, or raise TypeError if JSON cannot hold it."""
    states = {
        name: plain(one.bit_generator.state)
        if isinstance(one, np.random.Generator)
        else one.state_dict()
        for name, one in objects.items()
    }
    check_json("the state of stateful", states)
    return states


def restore_states(objects: Mapping[str, Stateful], states: Mapping[str, Any]) -> None:
    """Restore each object from its state, or raise StateError if other objects were saved."""
    if objects.keys() != states.keys():
        raise StateError(
            f"the checkpoint has the stateful objects {sorted(states)}, here are "
            f"{sorted(objects)}"
        )
    for name, one in objects.items():
        if isinstance(one, np.random.Generator):
            one.bit_generator.state = states[name]
        else:
            one.load_state_dict(states[name])
