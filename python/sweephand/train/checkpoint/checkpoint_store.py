"""Checkpoints on disk: each is a folder that is either complete or absent.

    <store>/checkpoint-00000007/state.json          counters, schedules, random states
                                model.safetensors   weights
                                ...                 what else the model and its learners need
                                manifest.json       size and SHA-256 of every file, its own too,
                                                    and the run that saved it
            .lock                                   who is saving here, while it does
            .writing-00000008-<attempt>             being written, or left behind by a kill
            .removing-00000006-<attempt>            being removed, or left behind by a kill

A checkpoint is written into a folder of another name: every file, then the manifest, each
synced; then the folder; then it gets its name, and the store is synced. It is read back before
an older one is removed. So at any moment, and after any kill, the newest checkpoint is whole.
Only checkpoints of the same run are ever removed. REQUIRES for writing: the lock of the store.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from uuid import uuid4

from sweephand.errors import StateError
from sweephand.train.checkpoint.folder_lock import refuse_file
from sweephand.train.checkpoint.regular_file import open_regular
from sweephand.train.checkpoint.safetensors_file import Sink, unique

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.json"

Contents: TypeAlias = Mapping[str, Callable[[Sink], object]]

logger = logging.getLogger("sweephand")

_NAME = re.compile(r"checkpoint-(\d{8,})")
_LEFTOVER = re.compile(r"\.(writing|removing)-\d{8,}-[0-9a-f]{32}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*")


class OtherFormatError(StateError):
    """A checkpoint is complete, but in a format that this version does not read."""


class Checkpoint:
    """A checkpoint whose files match its manifest.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    run : str or None
        The run that saved it; None if an older version of this library did.

    Raises
    ------
    StateError
        If it is not complete or damaged.
    OtherFormatError
        If another version of this library wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = _read_json(folder / MANIFEST)
        if manifest.pop("sha256", None) != _digest(manifest):
            raise StateError(
                f"{folder / MANIFEST} is damaged: it does not have its own SHA-256"
            )
        if manifest.get("format") != FORMAT:
            raise OtherFormatError(
                f"{folder} has the checkpoint format {manifest.get('format')!r} of sweephand "
                f"{manifest.get('sweephand')!r}, this is {version('sweephand')}, which reads "
                f"format {FORMAT}"
            )
        files = manifest.get("files")
        if not isinstance(files, dict):
            raise StateError(f"{folder / MANIFEST} lists no files")
        for name, wanted in files.items():
            _check_file(folder, name, wanted)
        run = manifest.get("run")
        self.run: str | None = run if isinstance(run, str) else None

    @property
    def number(self) -> int | None:
        """Its number in its store, or None if its folder is named otherwise."""
        return _number(self.folder)

    def state(self) -> dict[str, Any]:
        """Return what ``state.json`` holds."""
        return _read_json(self.folder / STATE)


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of checkpoints.

    Attributes
    ----------
    folder : Path
        It is made at the first save.
    keep_last : int or None
        How many of the newest stay; None keeps all.
    keep_every : int
        Those whose number is a multiple of it stay as well; 0: none.
    run : str
        What is saved is of this run, and nothing of any other is removed.
    """

    folder: Path
    keep_last: int | None = 1
    keep_every: int = 0
    run: str = field(default_factory=lambda: uuid4().hex)

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints, complete or not, in ascending order."""
        if not self.folder.is_dir():
            refuse_file(self.folder)
            return []
        found = (_number(entry) for entry in self.folder.iterdir())
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.folder / f"checkpoint-{number:08d}"

    def newest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint, or None if the store is empty.

        Damaged ones are passed over, with a message.

        Raises
        ------
        StateError
            If there are checkpoints, and all are damaged.
        OtherFormatError
            If another version of this library wrote it.
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
        """Write a checkpoint, read it back, and only then remove older ones.

        Parameters
        ----------
        number : int
            As `next_number` returned it.
        contents : mapping from file name to callable
            Each is called with a file and writes its content.
        pinned : collection of int
            Numbers of checkpoints that stay whatever the settings say.

        Raises
        ------
        OSError
            If a file cannot be written; the checkpoints that were there stay.
        """
        attempt = self.folder / f".writing-{number:08d}-{uuid4().hex}"
        done = "no checkpoint could be saved in"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True)
                sync_folder(self.folder.parent)
            attempt.mkdir()
            _write_files(attempt, contents, self.run)
            attempt.rename(self.path(number))
            done = f"{self.path(number).name} was saved, but a call failed after that in"
            sync_folder(self.folder)
            checkpoint = Checkpoint(self.path(number))
            self._remove_older(number, pinned)
        except BaseException as error:
            shutil.rmtree(attempt, ignore_errors=True)
            if isinstance(error, OSError):
                raise _explained(error, f"{done} {self.folder}") from error
            raise
        return checkpoint

    def _remove_older(self, newest: int, pinned: Collection[int]) -> None:
        if self.keep_last is not None:
            older = [number for number in self.numbers() if number < newest]
            older = [number for number in older if self._is_own(number)]
            for number in older[: max(0, len(older) - self.keep_last + 1)]:
                is_kept = self.keep_every and number % self.keep_every == 0
                if number not in pinned and not is_kept:
                    self._remove(number)
        for entry in list(self.folder.iterdir()):
            if _LEFTOVER.fullmatch(entry.name):
                shutil.rmtree(entry, ignore_errors=True)

    def _is_own(self, number: int) -> bool:
        """Whether a checkpoint is known to be of this run."""
        folder = self.path(number)
        try:
            return not folder.is_symlink() and _read_json(folder / MANIFEST)["run"] == self.run
        except (StateError, KeyError):
            return False

    def _remove(self, number: int) -> None:
        # Under another name first: a kill must not leave half of it under its own.
        doomed = self.folder / f".removing-{number:08d}-{uuid4().hex}"
        self.path(number).rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def find(path: Path) -> Checkpoint | None:
    """Return the checkpoint in a folder, or the newest complete one of a store.

    Returns
    -------
    Checkpoint or None
        None if there is no such folder, or no checkpoint in it.

    Raises
    ------
    StateError
        If what is there is damaged.
    """
    if path.exists() and not path.is_dir():
        raise StateError(
            f"{path} is a file: a checkpoint is a folder here, and what CNTK saved in files "
            "cannot be read"
        )
    if (path / MANIFEST).exists() or _NAME.fullmatch(path.name):
        return Checkpoint(path) if path.exists() else None
    return CheckpointStore(path).newest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _DigestingFile:
    """A file that computes the size and SHA-256 of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._digest.update(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def flush(self) -> None:
        self._file.flush()

    def entry(self) -> dict[str, Any]:
        return {"size": self._size, "sha256": self._digest.hexdigest()}


def _write_files(folder: Path, contents: Contents, run: str) -> None:
    files = {}
    for name, write in contents.items():
        with open_new(folder / name) as file:
            digesting = _DigestingFile(file)
            write(digesting)
            files[name] = digesting.entry()
    manifest: dict[str, Any] = {"format": FORMAT, "sweephand": version("sweephand")}
    manifest |= {"run": run, "files": files}
    manifest["sha256"] = _digest(manifest)
    with open_new(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1).encode())
    sync_folder(folder)


@contextmanager
def open_new(path: Path) -> Iterator[BinaryIO]:
    """Create a file that must not exist yet, and sync it in the end."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _check_file(folder: Path, name: str, wanted: Any) -> None:
    if not _PLAIN_NAME.fullmatch(name):
        raise StateError(f"{folder / MANIFEST} lists a file of the name {name!r}")
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


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            found = json.loads(file.read().decode(), object_pairs_hook=unique)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error}") from error
    except StateError:
        raise
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path} holds no object")
    return found


def _number(folder: Path) -> int | None:
    found = _NAME.fullmatch(folder.name)
    return None if found is None else int(found[1])


def _explained(error: OSError, what: str) -> OSError:
    """Return an error of the same kind that also says what was being done."""
    return OSError(
        error.errno,
        f"{what}, those that were there stay: {error.strerror or error}",
        error.filename,
    )
