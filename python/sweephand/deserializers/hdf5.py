"""HDF5 files: bare data sets are read in place, others by h5py."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import Any

import numpy as np

from sweephand.corpus.stream_defs import StreamDef
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.units.array_elements import TEXT, StoredArray, element_of
from sweephand.deserializers.units.array_group import ArrayGroup, Places
from sweephand.deserializers.units.array_units import ArrayUnits
from sweephand.deserializers.units.unit_scan import SampleType
from sweephand.files.paths import AnyPath, begins_with
from sweephand.files.range_reader import RangeReader
from sweephand.files.source_file import SourceFile
from sweephand.optional import OptionalModule

h5py = OptionalModule("h5py", extra="hdf5")

_MAGIC = b"\x89HDF\r\n\x1a\n"
_SUFFIXES = (".h5", ".hdf5", ".hdf")
_HEAD = 1 << 16  # bytes that are asked for at a time where what HDF5 keeps of itself is read


class HDF5Deserializer(ArrayUnits):
    """Serve the data sets of HDF5 files: each row is a sequence of one sample.

    Data sets without filters are mapped into memory and read where they lie, in any order; if
    one of the streams is compressed, all are read by h5py, about 8 MiB at a time. Files are
    never locked, and no writer is disturbed; one that changes is an error.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs. Several are one corpus.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all data sets with as many sequences as the largest one. ``field`` is the
        path, such as "train/x". Texts are ``bytes``. Rows of any length ("vlen") are sequences;
        those of uint8 one sample of ``bytes``, or, with a ``dtype``, sequences of numbers too.
    offsets : str or dict of str, optional
        The data set that says where each sequence begins, and the end: of all data sets with
        as many rows as its last number, or by a dict from the path of a data set to that of its
        offsets. By default ``NAME_offsets`` is that of ``NAME``.
    index : {"auto", "cache", None}
        Where the index is kept: beside the files, or in a cache folder where they cannot be
        written; only there; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a data set with one integer or text in
        every row, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If a file is damaged; if a data set is not there, cannot be served, has another number
        of sequences, or is of another type in another file.

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.HDF5Deserializer("train.h5", ["x", "y"])  # doctest: +SKIP
    """

    format = "hdf5 1"
    decoder = h5py

    @contextmanager
    def open_group(self, file: SourceFile) -> Iterator[ArrayGroup]:
        """Open a file; as it is read by us, HDF5 locks nothing."""
        with (
            BufferedReader(RangeReader(file), _HEAD) as source,
            h5py.File(source, "r") as opened,
        ):
            yield _Group(opened)


class _Group(ArrayGroup):
    """An HDF5 file that is open."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def get(self, path: str) -> StoredArray | None:
        """Return the data set that has a path, if there is one."""
        found: Any = self._file.get(path)
        return found if _is_array(found) else None

    def walk(self) -> Iterator[tuple[str, StoredArray]]:
        """Iterate over the data sets, by name."""
        found: dict[str, StoredArray] = {}

        def visit(path: str, one: Any) -> None:
            if _is_array(one):
                found[path] = one

        self._file.visititems(visit)
        yield from sorted(found.items())

    def element(self, array: StoredArray, definition: StreamDef) -> SampleType:
        """Return what an element is: a number, a text, or a run of numbers."""
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
        """Return where a data set without filters lies."""
        made = array.id.get_create_plist()
        width = array.dtype.itemsize * math.prod(array.shape[1:])
        # An address may count from behind a block of the user's, or be in another file.
        if self._file.userblock_size or made.get_nfilters() or made.get_external_count():
            return None
        if array.is_virtual or not len(array):
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


def _is_at(path: AnyPath) -> bool:
    # Behind a block of the user's the first bytes are others.
    return begins_with(path, _MAGIC) or (path.suffix.lower() in _SUFFIXES and path.is_file())


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    return wanted.open_files(HDF5Deserializer, files)


FORMAT = Format("HDF5", _is_at, _open)
