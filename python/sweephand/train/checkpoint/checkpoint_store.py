"""Checkpoints on disk: each is a folder that is either complete or absent.

    <store>/checkpoint-00000007/state.json          counters, schedules, random states
                                model.safetensors   weights
                                ...                 what else the model and its learners need
                                manifest.json       size and SHA-256 of every file, its own too,
                                                    and the run that saved it
            .lock                                   who is saving here, while it does
            .writing-00000008-<attempt>             being written, or left by a kill
            .removing-00000006-<attempt>            being removed, or left by a kill

A checkpoint is written into a folder of another name: every file, then the manifest, each
synced; then the folder; then it gets its name, and the store is synced. It is read back before
an older one is removed. So at any moment, and after any kill, the newest checkpoint is whole.
Only checkpoints of the same run are ever removed. REQUIRES for writing: the lock of the store.
"""

import errno
import logging
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from sweephand.errors import StateError
from sweephand.run.writing import sync_folder
from sweephand.train.checkpoint.checkpoint import (
    MANIFEST,
    Checkpoint,
    Contents,
    OtherFormatError,
    number_of,
    read_json,
    write_files,
)
from sweephand.train.checkpoint.folder_lock import refuse_file

logger = logging.getLogger("sweephand")

_LEFTOVER = re.compile(r"\.(writing|removing)-\d{8,}-[0-9a-f]{32}")


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of checkpoints."""

    folder: Path  # it is made at the first save
    keep_last: int | None = 1  # how many of the newest stay; None keeps all
    keep_every: int = 0  # those whose number is a multiple of it stay as well; 0: none
    # what is saved is of this run, and nothing of any other is removed
    run: str = field(default_factory=lambda: uuid4().hex)
    # numbers that cannot be gone on from; they count as older than all others
    overtaken: frozenset[int] = frozenset()

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints, complete or not, in ascending order."""
        if not self.folder.is_dir():
            refuse_file(self.folder)
            return []
        found = (number_of(entry) for entry in self.folder.iterdir())
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.folder / f"checkpoint-{number:08d}"

    def newest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint that is not overtaken, or None.

        Damaged ones are passed over, with a message. StateError is raised if all are damaged,
        OtherFormatError if another version of this library wrote the newest.
        """
        damaged = []
        for number in reversed(self.numbers()):
            if number in self.overtaken:
                continue
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
        """Write a checkpoint, read it back, and only then remove older checkpoints.

        Each of the contents is called with the file of its name, and writes it. Pinned numbers
        stay whatever the settings say. If OSError is raised, the older checkpoints stay.
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
                raise _explained(error, f"{done} {self.folder}") from error
            raise
        return checkpoint

    def _remove_older(self, newest: int, pinned: Collection[int]) -> None:
        if self.keep_last is not None:
            older = [number for number in self.numbers() if number < newest]
            older = [number for number in older if self._is_own(number)]
            older.sort(key=lambda number: (number not in self.overtaken, number))
            for number in older[: max(0, len(older) - self.keep_last + 1)]:
                is_kept = self.keep_every and number % self.keep_every == 0
                if number not in pinned and not is_kept:
                    self._remove(number)
        self._remove_leftovers()

    def remove(self, numbers: Collection[int]) -> None:
        """Remove checkpoints in spite of all settings, and the leftovers of kills.

        REQUIRES the lock. OSError is raised if one cannot be removed, or is a link.
        """
        for number in numbers:
            if self.path(number).is_symlink():
                reason = "a link is not removed: remove what it leads to, and it"
                raise OSError(errno.ELOOP, reason, str(self.path(number)))
            self._remove(number)
            if any(self.folder.glob(f".removing-{number:08d}-*")):
                reason = "the checkpoint cannot be removed"
                raise OSError(errno.EIO, reason, str(self.path(number)))
        self._remove_leftovers()
        sync_folder(self.folder)

    def _remove_leftovers(self) -> None:
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

    def _remove(self, number: int) -> None:
        # Under another name first: a kill must not leave half of it under its own.
        doomed = self.folder / f".removing-{number:08d}-{uuid4().hex}"
        self.path(number).rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def find(path: Path, overtaken: frozenset[int] = frozenset()) -> Checkpoint | None:
    """Return the checkpoint in a folder, the newest complete checkpoint of a store, or None.

    Those of a store that are overtaken are left out. StateError is raised if what is there is
    damaged.
    """
    if path.exists() and not path.is_dir():
        raise StateError(
            f"{path} is a file: a checkpoint is a folder here, and what CNTK saved in files "
            "cannot be read"
        )
    if (path / MANIFEST).exists() or number_of(path) is not None:
        return Checkpoint(path) if path.exists() else None
    return CheckpointStore(path, overtaken=overtaken).newest()


def _explained(error: OSError, what: str) -> OSError:
    """Return an error of the same kind that also names the action that failed."""
    return OSError(
        error.errno,
        f"{what}, those that were there stay: {error.strerror or error}",
        error.filename,
    )
