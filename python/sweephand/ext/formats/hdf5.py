"""HDF5 files: bare data sets are read in place, all other data sets by h5py.

A row of any length is stored as ``length (4 bytes) | address of its heap | number in that
heap``. The library believes the length: one flipped bit, and it converts 2^32 elements of
nothing for minutes. So lengths that the file contradicts are refused before they are read.

Links, virtual data sets and external raw bytes name other files, and HDF5 would open whatever
is named there, or take this file for it. So links are followed here, one by one, and none to
another file is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import StreamDef
from sweephand.ext.formats.array_units import (
    TEXT,
    ArrayGroup,
    ArrayUnits,
    Offsets,
    Places,
    StoredArray,
    element_of,
)
from sweephand.extend import (
    Files,
    Keep,
    LocalFile,
    OptionalModule,
    RangeReader,
    RowIds,
    SampleType,
    SourceFile,
    StreamsLike,
    open_regular,
)

h5py = OptionalModule("h5py", extra="hdf5")
_HEAD = 1 << 16  # bytes of a request for HDF5's own metadata
_MOST_LINKS = 64  # soft ones on the way to a data set


class HDF5Deserializer(ArrayUnits):
    """Serve the data sets of HDF5 files: each row is a sequence of one sample.

    Data sets without filters are mapped into memory and read in place, in any order; if one of
    the streams is compressed, all are read by h5py, about 8 MiB at a time. Files are never
    locked, and writers are not disturbed; a file that changes is an error.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Several are one corpus.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all data sets with as many sequences as the largest one. ``field`` is the
        path, such as "train/x". Texts are ``bytes``. Rows of any length ("vlen") are sequences;
        those of uint8 one sample of ``bytes``, or, with a ``dtype``, sequences of numbers too.
    offsets : str or dict of str, optional
        The data set with the begin of each sequence, and the end: for all data sets with as
        many rows as its last number, or by a dict from the path of a data set to that of its
        offsets. By default ``NAME_offsets`` has those of ``NAME``.
    index, ids
        As in `ParquetDeserializer`.
    external_files : bool
        Also serve data sets with raw bytes in other files ("external storage"), from local
        files: such a data set may name any file of this machine. Links to other files and
        virtual data sets are refused in any case.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If a file is damaged; if a data set is missing, cannot be served, has another number of
        sequences, or has another type in another file.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.HDF5Deserializer("train.h5", ["x", "y"])  # doctest: +SKIP
    """

    format = "hdf5 2"
    decoder = h5py

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        *,
        offsets: Offsets | None = None,
        index: Keep = "auto",
        ids: RowIds | None = None,
        external_files: bool = False,
    ) -> None:
        self._external_files = external_files
        super().__init__(files, streams, offsets=offsets, index=index, ids=ids)
        self.options = {**self.options, "external files": external_files}

    @contextmanager
    def open_group(self, file: SourceFile) -> Iterator[ArrayGroup]:
        """Open a file without HDF5's own file lock, as this package reads the bytes."""
        with (
            BufferedReader(RangeReader(file), _HEAD) as source,
            h5py.File(source, "r") as opened,
        ):
            may_read = self._external_files and isinstance(file, LocalFile)
            yield _Group(opened, file, str(Path(file.path).parent) if may_read else None)


class _Group(ArrayGroup):
    """An HDF5 file that is open."""

    def __init__(self, file: Any, source: SourceFile, folder: str | None) -> None:
        self._file = file
        self._source = source
        self._folder = folder  # of raw bytes in other files, if they may be read

    def get(self, path: str) -> StoredArray | None:
        """Return the data set at a path of this file, or None."""
        try:
            found: Any = find_object(self._file, path)
        except ValueError:
            return None
        return self._checked(found) if _is_array(found) else None

    def _checked(self, array: Any) -> StoredArray:
        is_checked = array.dtype.kind == "O"
        return RowsOfAnyLength(array, self._source) if is_checked else array

    def array(self, path: str) -> StoredArray:
        """Return a data set, all of which is in this file."""
        find_object(self._file, path)  # which says where a link leads
        array: Any = super().array(path)
        check_own(array)
        if not (pieces := elsewhere(array)):
            return self._checked(array)
        if self._folder is None:
            raise ValueError(
                f"its raw bytes are in the file {pieces[0][0]!r}: external_files=True reads "
                "them there, of local HDF5 files"
            )
        return ExternalArray(array, self._folder)

    def walk(self) -> Iterator[tuple[str, StoredArray]]:
        """Iterate over the data sets, by name."""
        found: dict[str, StoredArray] = {}

        def visit(path: str, one: Any) -> None:
            if _is_array(one):
                found[path] = self._checked(one)

        self._file.visititems(visit)
        yield from sorted(found.items())

    def links(self) -> Iterator[str]:
        """Iterate over the links of all groups, which may lead to other files."""
        found: list[str] = []
        self._file.visititems_links(
            lambda path, link: None if isinstance(link, h5py.HardLink) else found.append(path)
        )
        yield from sorted(found)

    def element(self, array: StoredArray, definition: StreamDef) -> SampleType:
        """Return the type of an element: a number, a text, or a run of numbers."""
        if h5py.check_string_dtype(array.dtype) is not None:
            return TEXT
        base = h5py.check_vlen_dtype(array.dtype)
        if base is None:
            return element_of(array.dtype)
        if base == np.uint8 and definition.dtype is None:
            return TEXT
        number = element_of(base)
        if number == TEXT:
            raise ValueError("it holds runs of texts")
        return SampleType(number.dtype, is_ragged=True)

    def places(self, array: Any) -> Places | None:
        """Return the places of a data set without filters; None for any other."""
        if isinstance(array, ExternalArray):
            return None
        made = array.id.get_create_plist()
        width = array.dtype.itemsize * math.prod(array.shape[1:])
        # An address may count from the end of a block of the user's.
        if self._file.userblock_size or made.get_nfilters() or not len(array):
            return None
        if array.chunks is None:
            offset = array.id.get_offset()
            return None if offset is None else np.array([[offset, len(array) * width]])
        if array.chunks[1:] != array.shape[1:]:
            return None
        begins: dict[int, int] = {}

        def note(chunk: Any) -> None:
            begins[chunk.chunk_offset[0]] = chunk.byte_offset

        array.id.chunk_iter(note)
        own = np.array(sorted(begins.items()), np.int64).reshape(-1, 2)
        sizes = np.minimum(array.chunks[0], len(array) - own[:, 0]) * width
        return np.stack([own[:, 1], sizes], axis=1)


def _is_array(found: object) -> bool:
    return isinstance(found, h5py.Dataset) and found.shape is not None


class RowsOfAnyLength:
    """A data set of rows of any length, or of texts."""

    def __init__(self, array: Any, file: SourceFile) -> None:
        self._array = array
        self._file = file
        self._width = array.id.get_type().get_size()  # of a row, as it is stored
        base = h5py.check_vlen_dtype(array.dtype)
        self._longest = file.size // (1 if base is None else base.itemsize)

    def __getattr__(self, name: str) -> Any:
        """Return what the data set has."""
        return getattr(self._array, name)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._array)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return a selection of the rows."""
        begin, end, _ = rows.indices(len(self))
        for lengths in self._lengths(begin, end):
            if lengths.size and (longest := int(lengths.max())) > self._longest:
                raise ValueError(f"a row of {longest} elements is longer than the file")
        found: NDArray[Any] = self._array[rows]
        return found

    def _lengths(self, begin: int, end: int) -> list[NDArray[np.uint32]]:
        """Return the lengths of rows, or of more; HDF5 has no filters of such rows."""
        array = self._array
        if array.file.userblock_size:  # places may count from its end
            return []
        if array.chunks is None:
            offset = array.id.get_offset()
            if offset is None:  # in the header, where little fits
                return []
            row = self._width * math.prod(array.shape[1:])
            stored = self._file.fetch(offset + begin * row, max(0, end - begin) * row)
            return [self._first_words(stored.tobytes())]
        found: list[NDArray[np.uint32]] = []

        def note(chunk: Any) -> None:
            first = chunk.chunk_offset[0]
            if first < end and first + array.chunks[0] > begin:
                stored = self._file.fetch(chunk.byte_offset, chunk.size).tobytes()
                found.append(self._first_words(stored))

        array.id.chunk_iter(note)
        return found

    def _first_words(self, stored: bytes) -> NDArray[np.uint32]:
        rows = np.frombuffer(stored, np.uint8)
        rows = rows[: len(rows) // self._width * self._width].reshape(-1, self._width)
        return np.ascontiguousarray(rows[:, :4]).view("<u4").reshape(-1)


def find_object(file: Any, path: str) -> Any | None:
    """Return the data set or group that has a path; None if there is none."""
    place, names = file, _names(path)
    num_links = 0
    while names:
        name = names.pop(0)
        if not isinstance(place, h5py.Group):
            return None
        link = place.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise ValueError(
                f"{name!r} is a link to {link.path!r} in the file {link.filename!r}, and links "
                "to other files are not followed: give that file itself"
            )
        if isinstance(link, h5py.SoftLink):
            num_links += 1
            if num_links > _MOST_LINKS:
                raise ValueError(f"{path!r} is a link that leads in a circle")
            place = file if link.path.startswith("/") else place
            names = _names(link.path) + names
        elif link is None:
            return None
        else:
            place = place[name]
    return place


def check_own(array: Any) -> None:
    """Refuse a data set that is made of other data sets."""
    if not array.is_virtual:
        return
    sources = array.virtual_sources()
    origin = f", of {sources[0].dset_name!r} in {sources[0].file_name!r}" if sources else ""
    raise ValueError(
        f"it is a virtual data set{origin}, and other data sets are not opened for it: give "
        "the files that it is made of, or a copy that h5py has read"
    )


def elsewhere(array: Any) -> list[tuple[str, int, int]]:
    """Return the places of external raw bytes: name, offset and size."""
    made = array.id.get_create_plist()
    found = [made.get_external(number) for number in range(made.get_external_count())]
    return [(os.fsdecode(name), int(offset), int(size)) for name, offset, size in found]


@dataclass(frozen=True)
class ExternalArray:
    """A data set whose raw bytes are in other files, which a user has allowed."""

    array: Any  # the source of dtype and shape
    folder: str  # what names of files are relative to
    chunks: None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(map(int, self.array.shape))

    @property
    def dtype(self) -> Any:
        """The dtype of its elements."""
        return self.array.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return a selection of the rows."""
        begin, end, _ = rows.indices(len(self.array))
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        content = b"".join(self._pieces(begin * width, max(begin, end) * width))
        return np.frombuffer(content, self.dtype).reshape(-1, *self.shape[1:])

    def _pieces(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a range, from one file after the other."""
        first = 0  # byte of the data set that is the first of a file
        for name, offset, size in elsewhere(self.array):
            start, stop = max(begin, first), min(end, first + size)
            if start < stop:
                with open_regular(Path(self.folder, name)) as file:
                    file.seek(offset + start - first)
                    piece = file.read(stop - start)
                if len(piece) < stop - start:
                    raise ValueError(f"the file {name!r} ends before its raw bytes do")
                yield piece
            first += size
        if end > max(begin, first):
            raise ValueError(f"its files have {first} of {end} bytes")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
