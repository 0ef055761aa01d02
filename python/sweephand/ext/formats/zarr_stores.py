"""Zarr stores: arrays of version 2 and 3, decoded by zarr chunk by chunk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Deserializer, StaleError, StreamDef
from sweephand.ext.formats.array_units import (
    TEXT,
    ArrayGroup,
    ArrayUnits,
    StoredArray,
    element_of,
)
from sweephand.extend import (
    AnyPath,
    FileList,
    Files,
    Look,
    OptionalModule,
    PathLike,
    RemotePath,
    RowIds,
    SampleType,
    SourceFile,
    StreamsLike,
    Wanted,
    as_path,
    folders_like,
    is_glob,
    list_paths,
    printable,
    read_file,
    refuse_irregular,
)

zarr = OptionalModule("zarr", extra="zarr")
_storage = OptionalModule("zarr.storage", extra="zarr")

_METADATA = ("zarr.json", ".zgroup", ".zarray")
_ROOT = "values"  # the name of the array of a store that is an array


class ZarrDeserializer(ArrayUnits):
    """Serve the arrays of Zarr stores: each row is a sequence of one sample.

    Chunks are decoded by zarr, about 8 MiB at a time, with any codecs and shards. No index is
    kept: the metadata are sufficient.

    Parameters
    ----------
    stores : str, path, or sequence of them
        Folders, patterns of them, or URLs. Several are one corpus.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all arrays with as many sequences as the largest one. ``field`` is the path,
        such as "train/x"; a store that is a single array has "values". Texts are ``bytes``.
    offsets : dict of str, optional
        By the path of an array that of its offsets: the row with which each sequence begins,
        and the end. By default ``NAME_offsets`` has those of ``NAME``.
    ids
        As in `ParquetDeserializer`.

    Raises
    ------
    DataError
        If metadata or chunks are damaged; if an array is not there, cannot be served, or has
        another number of sequences, or is of another type in another store.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.ZarrDeserializer("train.zarr", ["x", "y"])  # doctest: +SKIP
    """

    format = "zarr 1"
    decoder = zarr

    def __init__(
        self,
        stores: Files,
        streams: StreamsLike | None = None,
        *,
        offsets: Mapping[str, str] | None = None,
        ids: RowIds | None = None,
    ) -> None:
        self._groups: dict[tuple[str, int], _Group] = {}
        paths = [path for one in list_paths(stores) for path in _expand(one)]
        files: list[SourceFile] = [_store_at(path) for path in paths]
        super().__init__(FileList(files), streams, offsets=offsets, index=None, ids=ids)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that open it in another process."""
        return {**super().__getstate__(), "_groups": {}}

    def _refuse_pointer(self, file: SourceFile) -> None:
        """Do nothing, as a store is a folder."""

    @contextmanager
    def open_group(self, file: SourceFile) -> Iterator[ArrayGroup]:
        """Open a store once in a process, or take it as it was opened before."""
        key = file.spec, os.getpid()
        if key not in self._groups:
            place = open_folder(Path(file.spec)) if file.is_here else file.spec
            self._groups[key] = _Group(zarr.open(place, mode="r"))
        yield self._groups[key]


@dataclass(frozen=True)
class ZarrStore(SourceFile):
    """A store as a file of the corpus: its tag is of the metadata at its root."""

    root: AnyPath

    @property
    def is_here(self) -> bool:
        """True if its bytes are on this machine."""
        return not isinstance(self.root, RemotePath)

    @property
    def spec(self) -> str:
        """The path or URL of the store."""
        return os.fspath(self.root)

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Refuse it: a store is no run of bytes."""
        raise DataError("a store is read by its arrays", self.path, offset)

    def check_unchanged(self) -> None:
        """Raise StaleError if the metadata are not those that were read first."""
        if _store_at(self.root).tag != self.tag:
            raise StaleError("the metadata of the store changed since it was opened", self.path)


def is_zarr(look: Look) -> bool:
    """Return True if a folder is a store."""
    return metadata_at(look.path) is not None


def metadata_at(path: AnyPath) -> AnyPath | None:
    """Return the metadata file at the root of a store; None if there is none.

    A remote store is looked at if its URL says that it is one.
    """
    if isinstance(path, RemotePath) and path.suffix != ".zarr":
        return None
    return next((path / name for name in _METADATA if (path / name).is_file()), None)


def _expand(place: PathLike) -> list[AnyPath]:
    if not is_glob(place):
        return [as_path(place)]
    found: list[AnyPath] = [path for path in folders_like(place) if metadata_at(path)]
    if not found:
        raise FileNotFoundError(f"no Zarr store matches the pattern {os.fspath(place)!r}")
    return found


def _store_at(path: AnyPath) -> ZarrStore:
    metadata = metadata_at(path)
    if metadata is None:
        names = ", ".join(_METADATA)
        raise FileNotFoundError(
            f"there is no Zarr store {str(path)!r}: none of {names} is in it"
        )
    content = read_file(metadata)
    tag = hashlib.sha256(content).hexdigest()
    return ZarrStore(str(path), printable(path.name), len(content), tag, path)


class _Group(ArrayGroup):
    """A store that is open, whose metadata are read once."""

    def __init__(self, root: Any) -> None:
        is_array = isinstance(root, zarr.Array)
        self._root = None if is_array else root
        self._known: dict[str, Any] = {_ROOT: root} if is_array else {}

    def paths(self) -> list[str]:
        """Return the paths of the arrays with rows."""
        if self._root is not None:
            self._known |= dict(self._root.members(max_depth=None))
        known = sorted(self._known.items())
        return [path for path, one in known if isinstance(one, zarr.Array) and one.shape]

    def get(self, path: str) -> StoredArray | None:
        """Return the array at a path, or None."""
        if path not in self._known:
            self._known[path] = None if self._root is None else self._root.get(path)
        found = self._known[path]
        if not isinstance(found, zarr.Array):
            return None
        coded = found.metadata
        codecs = (getattr(coded, "compressor", None), *(getattr(coded, "filters", None) or ()))
        if any(getattr(one, "codec_id", None) == "pickle" for one in codecs):
            raise ValueError("it holds pickled objects, which are never loaded")
        return found

    def element(self, array: StoredArray, definition: StreamDef) -> SampleType:
        """Return the type of an element: a number or a text."""
        return TEXT if array.dtype.hasobject else element_of(array.dtype)


def open_folder(path: Path) -> Any:
    """Return a read-only zarr store over a folder that checks the files it reads.

    A file that changed since it was first read is a StaleError, one that is no regular file a
    DataError, as is one outside of the folder that metadata name. What was absent counts as a
    file: a chunk without one holds the fill value.
    """
    return _kind()(_storage.LocalStore(path, read_only=True))


@cache
def _kind() -> Any:
    class Folder(_storage.WrapperStore):  # type: ignore[misc, name-defined]
        def __init__(self, store: Any) -> None:
            super().__init__(store)
            self._seen: dict[str, int] = {}

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            self._look_at(key)
            found = await super().get(key, prototype, byte_range)
            self._look_at(key)
            return found

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            return [await self.get(key, prototype, part) for key, part in key_ranges]

        def _look_at(self, key: str) -> None:
            path = self._store.root / key
            if key.startswith("/") or ".." in key.split("/"):
                raise DataError(f"the store names {key!r}, which is outside of it", str(path))
            tag = _tag_of(path)
            if self._seen.setdefault(key, tag) != tag:
                raise StaleError("the file changed since it was first read", str(path))

    return Folder


def _tag_of(path: Path) -> int:
    """Return a fingerprint of a file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    refuse_irregular(str(path), status.st_mode)
    return hash((status.st_size, status.st_mtime_ns, status.st_ino))


def open_stores(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of stores, which need no index."""
    return wanted.open_files(
        lambda stores, streams, index: ZarrDeserializer(stores, streams), files
    )
