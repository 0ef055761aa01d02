"""HDF5 files: bare data sets are read in place, all other data sets by h5py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from sweephand import StreamDef
from sweephand.ext.formats.array_elements import TEXT, StoredArray, element_of
from sweephand.ext.formats.array_group import ArrayGroup, Offsets, Places
from sweephand.ext.formats.array_units import ArrayUnits
from sweephand.ext.formats.hdf5_links import (
    ExternalArray,
    check_own,
    elsewhere,
    find_object,
)
from sweephand.ext.formats.hdf5_rows import RowsOfAnyLength
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
)

h5py = OptionalModule("h5py", extra="hdf5")

_HEAD = 1 << 16  # bytes of a request for HDF5's own metadata


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
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a data set with one integer or text in
        every row, or one id for each sequence.
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
