"""``.npy`` files as a corpus, read in place, and ``.npz`` archives of them, in memory.

::

    93 "NUMPY" | u8 major | u8 minor | bytes of the header: u16, from version 2 on u32 | header
    header: {'descr': ..., 'fortran_order': ..., 'shape': ...}, blanks, newline | the elements

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int, check_memory
from sweephand.corpus.casts import element_type
from sweephand.corpus.chunks import default_chunk_bytes, sequences_per_chunk
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    delivered_bytes,
    describe_stream,
    offsets_of,
    read_offsets,
)
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.sizes import MANY_SEQUENCES, check_offsets
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import StreamsLike, define_streams, only_chosen
from sweephand.deserializers.array import ArrayDeserializer, check_dict, check_same_sequences
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.open_path import Wanted, the_only
from sweephand.deserializers.units.records import FileColumn, read_columns
from sweephand.errors import DataError, printable
from sweephand.files.find import find_files, list_paths, paths_like
from sweephand.files.local import LocalFile, access_to, open_regular
from sweephand.files.paths import AnyPath, as_path, files_at, stat_all
from sweephand.files.source_file import FIRST_BYTES, Files, PathLike, SourceFile

Column = PathLike | tuple[PathLike, PathLike] | Sequence[PathLike]
"""The path of values, those of values and offsets, or one for every sequence."""

Member = TypeVar("Member")

_MAX_HEADER = 65536
_OFFSETS = "_offsets"


class NpyDeserializer(Deserializer):
    """Serve ``.npy`` files, reading each sequence in place.

    Local files are mapped into memory; one that is cut or changed meanwhile is an error.

    Parameters
    ----------
    streams : dict, path, or list of paths
        Stream name to the path or URL of a ``.npy`` file of shape (sequences, *shape), or to
        ``(values path, offsets path)``: consecutive samples, shape (samples, *shape), and the
        begin of each sequence, shape (sequences + 1,); or to a list of paths, each of a file
        that is one sequence, of shape (samples, *shape). A single path gives the stream its
        name, and ``NAME_offsets.npy`` beside it holds its offsets; in a folder each file is a
        stream, or, if they differ in length, a sequence of ``x``. Rows of tokens are for
        `RawTokensDeserializer`.
    definitions, chunk_size
        As in `ArrayDeserializer`; by default a chunk has 8 MiB, or 1 MiB in a store.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> np.save("tokens.npy", np.arange(5))
    >>> np.save("offsets.npy", [0, 3, 5])
    >>> corpus = sh.NpyDeserializer({"tokens": ("tokens.npy", "offsets.npy")})
    >>> minibatch = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1).next_minibatch(5)
    >>> minibatch["tokens"].as_sequences()
    [array([0, 1, 2]), array([3, 4])]
    """

    def __init__(
        self,
        streams: Mapping[str, Column] | Files,
        definitions: StreamsLike | None = None,
        chunk_size: int | None = None,
    ) -> None:
        if not isinstance(streams, Mapping):
            found = [path for one in list_paths(streams) for path in paths_like(one)]
            streams = streams_at(found)
        check_dict("NpyDeserializer takes a dict from stream name to path", streams)
        self._arguments = (streams, definitions, chunk_size)
        if chunk_size is not None:
            check_int("chunk_size", chunk_size, 1, 2**63)
        self._chunk_size = chunk_size
        defined = define_streams(definitions, streams)
        self._columns: dict[str, FileColumn] = {}
        for stream, definition in defined.items():
            field = definition.field or stream
            if field not in streams:
                raise ValueError(
                    f"no file for stream {field!r}, there are: {', '.join(streams)}"
                )
            self._columns[stream] = open_column(stream, streams[field], definition)
        columns = {stream: one.column for stream, one in self._columns.items()}
        self._infos = [
            describe_stream(stream, columns[stream], definition)
            for stream, definition in defined.items()
        ]
        check_same_sequences(columns)
        self._num_sequences = next(iter(columns.values())).num_sequences
        if self._num_sequences == 0:
            raise ValueError("the corpus is empty: no sequences")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def open(self, ledger: Ledger) -> StoredCorpus:
        columns = [one.column for one in self._columns.values()]
        files = [file for one in self._columns.values() for file in one.files]
        names = [file.name for file in files]
        count = self._num_sequences
        first = next(iter(self._columns.values())).files
        bounds = list(range(count + 1)) if len(first) == count else [0, count]
        num_bytes = sum(column.num_samples * column.sample_bytes for column in columns)
        delivered = sum(map(delivered_bytes, columns, self._infos))
        num_samples = max(column.num_samples for column in columns)
        chunk_bytes = default_chunk_bytes(is_local=access_to(files).is_local)
        chunk_size = self._chunk_size or sequences_per_chunk(count, num_bytes, chunk_bytes)
        reader = read_columns(
            list(self._columns.values()),
            self._infos,
            _core.index.Starts.even(count, chunk_size),
            delivered / max(1, num_samples),
        )
        ids: SequenceIds = ShardIds(names[: len(bounds) - 1], bounds)
        return StoredCorpus([reader], ids, names, files=files)

    def _description(self) -> str:
        names = [file.name for one in self._columns.values() for file in one.files]
        return brief(names, self._infos, self._num_sequences)


def streams_at(paths: Sequence[AnyPath]) -> dict[str, Column]:
    """Return the streams of files and folders, by the names of the files."""
    files = [file for path in paths for file in files_at(path, "*.npy")]
    beside = [file.with_name(f"{file.stem}{_OFFSETS}.npy") for file in files]
    files = list(dict.fromkeys([*files, *(file for file in beside if file.exists())]))
    # A stream's name is text, which the name of a file need not be.
    members = {printable(file.stem): file for file in files}
    if len(members) < len(files):
        raise ValueError("two files would be one stream: give a dict from stream name to path")
    streams = with_offsets(members)
    if len(streams) == len(files) and _are_sequences(files):
        return {"x": [*files]}
    return dict(streams)


def with_offsets(members: dict[str, Member]) -> dict[str, Member | tuple[Member, Member]]:
    """Join every member with the member that holds its offsets, if any."""
    return {
        name: (member, members[name + _OFFSETS]) if name + _OFFSETS in members else member
        for name, member in members.items()
        if not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) in members)
    }


def _are_sequences(paths: Sequence[AnyPath]) -> bool:
    """Return True if each file is a sequence: they differ in the number of samples alone."""
    headers = [read_header(file) for file in stat_all(paths)] if len(paths) > 1 else []
    kinds = {(header.dtype, header.shape[1:]) for header in headers}
    lengths = {header.shape[:1] for header in headers}
    return len(kinds) == 1 and len(lengths) > 1 and () not in lengths


def open_archive(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    """Return the corpus of an archive of arrays, in memory."""
    path = the_only(files)
    if not isinstance(path, Path):
        raise ValueError(f"{path}: archives are read from local disks only")
    if wanted.are_documents:
        raise ValueError(f"{path}: no tokens are cut in archives")
    arrays = _load(path)
    definitions = wanted.definitions(with_offsets(dict(arrays)))
    data = only_chosen(with_offsets(arrays), definitions)
    return ArrayDeserializer(data, definitions, chunk_size=wanted.chunk_size, name=path.name)


def _load(path: Path) -> dict[str, NDArray[np.generic]]:
    member = None
    arrays = {}
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            with zipfile.ZipFile(file) as members:
                num_bytes = sum(one.file_size for one in members.infolist())
            check_memory("unpacking it", num_bytes, None)
            for member in archive.files:
                arrays[member] = np.asarray(archive[member])
    except Exception as error:  # damaged bytes make zipfile and NumPy raise a dozen kinds
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = f"the archive cannot be read: {error}"
        raise DataError(reason, str(path), stream=member) from error
    return arrays


@dataclass(frozen=True)
class NpyHeader:
    """The header of a ``.npy`` file: shape, dtype, and the byte where the data begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int


@lru_cache(1 << 14)
def read_header(file: SourceFile) -> NpyHeader:
    """Read and check the header of a ``.npy`` file against the file's size."""
    return parse_header(BytesIO(file.head(FIRST_BYTES)), file.size, file.path)


def has_magic(file: SourceFile) -> bool:
    """Return True if a file begins as ``.npy`` files do."""
    return file.head(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX


def read_row_header(file: SourceFile, kinds: str = "iu") -> NpyHeader:
    """Return the header of a ``.npy`` file that holds one row of numbers."""
    header = read_header(file)
    if len(header.shape) != 1 or header.dtype.kind not in kinds:
        numbers = "numbers" if "f" in kinds else "integers"
        raise DataError(
            f"it must be one row of {numbers}, not {header.dtype} of shape {header.shape}",
            file.path,
        )
    return header


def parse_header(content: BinaryIO, size: int, name: str) -> NpyHeader:
    """Parse the header of an array in a file or in a part of a file."""
    begin = content.tell()
    try:
        version = npy_format.read_magic(content)
        readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
            # In UTF-8, which differs in the names of records alone; they are refused.
            (3, 0): npy_format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"version {version} is not supported, only 1.0, 2.0 and 3.0")
        shape, fortran_order, dtype = readers[version](content, max_header_size=_MAX_HEADER)
    except Exception as error:  # NumPy's parser raises a dozen kinds
        raise DataError(
            f"this is no .npy file, or its header is damaged: {error}", name
        ) from None
    offset = content.tell() - begin
    if dtype.hasobject:
        raise DataError(
            "the file holds pickled objects, which are never loaded; save numbers", name
        )
    if fortran_order and len(shape) > 1:
        raise DataError(
            "the array is in Fortran order; save numpy.ascontiguousarray of it", name
        )
    if dtype.itemsize == 0:
        raise DataError(f"the file holds elements of no bytes ({dtype.str})", name)
    # As NumPy has it, no extent is so large that a place in the array has no number.
    reach = math.prod(max(n, 1) for n in shape) * dtype.itemsize
    if any(n < 0 or type(n) is not int for n in shape) or reach >= 2**63:
        raise DataError(f"the header says shape {shape}, which cannot be", name, offset)
    wanted = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size != wanted:
        state = "cut short" if size < wanted else "longer than its array"
        raise DataError(
            f"the file is {state}: {shape} of {dtype} needs {wanted} bytes, there are {size}",
            name,
            min(size, wanted),
        )
    return NpyHeader(shape, dtype, offset)


def open_column(stream: str, given: Column, definition: StreamDef) -> FileColumn:
    """Open one stream of ``.npy`` files; see `NpyDeserializer`."""
    offsets: list[SourceFile] = []
    is_one = isinstance(given, str | os.PathLike | tuple)
    if is_one:
        paths = given if isinstance(given, tuple) else (given,)
        first, *offsets = stat_all([as_path(path) for path in paths])
        files = [first]
    else:
        files = find_files(given, as_given=True).files
    headers = [read_header(file) for file in files]
    stored, shape = headers[0].dtype, headers[0].shape[1:]
    for file, header in zip(files, headers, strict=True):
        dtype = _served_dtype(stream, header.dtype, definition, file.path, header.shape)
        if (header.dtype, header.shape[1:]) != (stored, shape):
            raise DataError(
                f"it has samples of {header.dtype} of shape {header.shape[1:]}, others of "
                f"{stored} of shape {shape}; save all in one type",
                file.path,
                stream=stream,
            )
    lengths = [header.shape[0] for header in headers]
    column = ColumnData(None, dtype, shape, sum(lengths))
    if dtype.hasobject:
        column = replace(column_of_bytes([]), values=None, num_samples=sum(lengths))
    if not is_one:
        column = replace(column, sample_offsets=offsets_of(lengths))
    elif offsets:
        column = _with_offsets(stream, column, offsets[0])
    pieces = [
        (number, header.offset, file.size - header.offset)
        for number, (file, header) in enumerate(zip(files, headers, strict=True))
    ]
    # Bytes of no type are served as a type of their size.
    is_same = stored == dtype or stored.kind == "V"
    return FileColumn(column, files, np.array(pieces, np.uint64), None if is_same else stored)


def _served_dtype(
    stream: str,
    stored: np.dtype[Any],
    definition: StreamDef,
    path: str,
    shape: tuple[int, ...],
) -> np.dtype[Any]:
    """Return the dtype of an array as it is served; that of texts is object."""
    if shape == ():
        raise DataError("the file holds a single number, not an array of samples", path)
    if stored.kind in "SU":
        if len(shape) > 1:
            raise DataError(
                f"it has several texts in a row: shape {shape}", path, stream=stream
            )
        return np.dtype(object)
    # As NumPy stores a bfloat16, which must be declared.
    is_bare = stored.str == "|V2" and not (stored.names or stored.shape)
    if is_bare and definition.dtype is not None:
        wanted = np.dtype(definition.dtype)
        if wanted.name == "bfloat16":
            return wanted
    native = stored.newbyteorder("=")
    is_number = native.kind == "c" or element_type(native) != _core.base.ElementType.opaque
    if native.kind not in "biufc" or not is_number:
        name = "records" if stored.names else str(stored)
        hint = "; if these are bfloat16, declare StreamDef(dtype='bfloat16')" if is_bare else ""
        raise DataError(
            f"it holds {name:.80}, neither numbers nor texts{hint}", path, stream=stream
        )
    return native


def _with_offsets(stream: str, column: ColumnData, file: SourceFile) -> ColumnData:
    """Return a column with the offsets of a file: mapped if they are many, else in memory."""
    header = read_row_header(file)
    is_plain = header.dtype == np.int64 and header.offset % header.dtype.itemsize == 0
    is_large = header.shape[0] > MANY_SEQUENCES and not column.is_bytes
    mapped = None
    if is_large and is_plain and isinstance(file, LocalFile):
        mapped = _core.read.MappedOffsets.map(file.listed(), header.offset, header.shape[0])
    if mapped is None:  # or the file cannot be mapped
        loaded = file.read(header.offset, file.size - header.offset).view(header.dtype)
    offsets = np.ascontiguousarray(loaded, np.int64) if mapped is None else mapped.array
    column = replace(
        column, sample_offsets=offsets, mapped_offsets=mapped, offsets_file=file.path
    )
    try:
        read_offsets(column, partial(check_offsets, offsets, column.num_samples))
    except ValueError as error:
        raise DataError(str(error), file.path, stream=stream) from None
    return column
