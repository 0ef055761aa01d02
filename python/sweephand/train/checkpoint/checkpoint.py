"""One checkpoint on disk: a folder with a manifest of its files.

manifest.json       format, version, the run that saved it, size and SHA-256 of every file,
and its own SHA-256
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sweephand.errors import StateError
from sweephand.run.strict_json import of_json
from sweephand.run.writing import new_file, sync_folder
from sweephand.train.checkpoint.checkpoint_file import HashingSink, Sink, open_regular
from sweephand.train.checkpoint.safetensors_file import unique

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.json"

Contents: TypeAlias = Mapping[str, Callable[[Sink], object]]

_NAME = re.compile(r"checkpoint-(\d{8,})")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*")


class OtherFormatError(StateError):
    """A checkpoint is complete, but in a format that this version does not read."""


class Checkpoint:
    """A checkpoint whose files match its manifest.

    StateError is raised if it is not complete or damaged, OtherFormatError if another version
    of this library wrote it.

    Attributes
    ----------
    run : str or None
        The run that saved it; None if an older version of this library did.
    """

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
        files = manifest.get("files")
        if not isinstance(files, dict):
            raise StateError(f"{folder / MANIFEST} lists no files")
        for name, wanted in files.items():
            _check_file(folder, name, wanted)
        self._files = files
        run = manifest.get("run")
        self.run: str | None = run if isinstance(run, str) else None

    @property
    def number(self) -> int | None:
        """Its number in its store, or None if its folder is named otherwise."""
        return number_of(self.folder)

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file in it, or raise StateError if it has no such file."""
        if name not in self._files:
            raise StateError(f"{self.folder} has no {name}")
        return str(self._files[name]["sha256"])

    def state(self) -> dict[str, Any]:
        """Return the content of ``state.json``."""
        state: dict[str, Any] = of_json(read_json(self.folder / STATE))
        return state


def write_files(folder: Path, contents: Contents, run: str) -> None:
    """Write the files of a checkpoint and its manifest, and sync them."""
    files = {}
    for name, write in contents.items():
        with new_file(folder / name) as file:
            digest = hashlib.sha256()
            sink = HashingSink(digest, file)
            write(sink)
            files[name] = {"size": sink.size, "sha256": digest.hexdigest()}
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


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or raise StateError."""
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


def number_of(folder: Path) -> int | None:
    """Return the number of a checkpoint by the name of its folder; None for other names."""
    found = _NAME.fullmatch(folder.name)
    return None if found is None else int(found[1])
