"""HDF5 files: bare data sets are read in place, all other data sets by h5py.

A row of any length is stored as ``length (4 bytes) | address of its heap | number in that
heap``. The library believes the length: one flipped bit, and it converts 2^32 elements of
nothing for minutes. So lengths that the file contradicts are refused before they are read.

Links, virtual data sets and external raw bytes may name other files, and HDF5 would open
whatever is named there, or take this file for it. So none is followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import StreamDef
from sweephand.ext.formats.array_units import (
    TEXT,
    ArrayGroup,
    ArrayUnits,
    StoredArray,
    element_of,
)
from sweephand.extend import (
    OptionalModule,
    RangeReader,
    SampleType,
    SourceFile,
)

h5py = OptionalModule("h5py", extra="hdf5")
_HEAD = 1 << 16  # bytes of a request for HDF5's own metadata


class HDF5Deserializer(ArrayUnits):
    """Serve the data sets of HDF5 files: each row is a sequence of one sample.

    Contiguous data sets are mapped into memory and read in place, in any order; if one of the
    streams is in chunks, all are read by h5py, about 8 MiB at a time. Files are never
    locked, and writers are not disturbed; a file that changes is an error.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Several are one corpus.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all data sets with as many sequences as the largest one. ``field`` is the
        path, such as "train/x". Texts are ``bytes``. Rows of any length ("vlen") are sequences;
        those of uint8 one sample of ``bytes``, or, with a ``dtype``, sequences of numbers too.
    offsets : dict of str, optional
        By the path of a data set that of its offsets: the row with which each sequence begins,
        and the end. By default ``NAME_offsets`` has those of ``NAME``.
    index, ids
        As in `ParquetDeserializer`.

    Raises
    ------
    DataError
        If a file is damaged; if a data set is missing, cannot be served, has another number of
        sequences, has another type in another file, or is elsewhere: a link, a virtual data
        set, or one with raw bytes in other files.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.HDF5Deserializer("train.h5", ["x", "y"])  # doctest: +SKIP
    """

    format = "hdf5 4"
    decoder = h5py

    @contextmanager
    def open_group(self, file: SourceFile) -> Iterator[ArrayGroup]:
        """Open a file without HDF5's own file lock, as this package reads the bytes."""
        with (
            BufferedReader(RangeReader(file), _HEAD) as source,
            h5py.File(source, "r") as opened,
        ):
            yield _Group(opened, file)


class _Group(ArrayGroup):
    """An HDF5 file that is open."""

    def __init__(self, file: Any, source: SourceFile) -> None:
        self._file = file
        self._source = source

    def paths(self) -> list[str]:
        """Return the paths of the data sets with rows."""
        found: list[str] = []

        def visit(path: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset) and one.shape:
                found.append(path)

        self._file.visititems(visit)
        return sorted(found)

    def get(self, path: str) -> StoredArray | None:
        """Return the data set at a path, all of which is in this file, or None."""
        place = self._file
        for name in path.strip("/").split("/"):
            link = place.get(name, getlink=True) if isinstance(place, h5py.Group) else None
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                where = getattr(link, "filename", "this file")
                raise ValueError(
                    f"{name!r} is a link to {link.path!r} in {where!r}, and links are not "
                    "followed: name what it leads to, in the file that has it"
                )
            place = place[name]
        if not isinstance(place, h5py.Dataset) or place.shape is None:
            return None
        if place.is_virtual or place.id.get_create_plist().get_external_count():
            raise ValueError(
                "its values are in other data sets or files (virtual or external), which are "
                "not opened for it: give those, or a copy by h5repack"
            )
        return RowsOfAnyLength(place, self._source) if place.dtype.kind == "O" else place

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

    def place(self, array: Any) -> int | None:
        """Return the place of a contiguous data set; None for any other."""
        # An address may count from the end of a block of the user's.
        if self._file.userblock_size or array.chunks is not None:
            return None
        place = array.id.get_offset() if len(array) else 0
        return None if place is None else int(place)


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
