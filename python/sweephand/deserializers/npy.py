"""``.npy`` files as a corpus, read where they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from tokenize import TokenError
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from sweephand.checks import check_int
from sweephand.corpus.casts import check_dtype
from sweephand.corpus.chunks import default_chunk_bytes, sequences_per_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.describe import delivered_bytes, describe_stream
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.sizes import check_offsets, chunk_starts
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams, stream_per_name
from sweephand.deserializers.array import check_same_sequences
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.given import check_dict
from sweephand.deserializers.units.file_columns import FileColumn, read_columns
from sweephand.errors import DataError
from sweephand.files.access import access_to
from sweephand.files.find import list_paths, paths_like
from sweephand.files.paths import AnyPath, as_path, begins_with, files_at, stat_all
from sweephand.files.range_reader import RangeReader
from sweephand.files.source_file import Files, PathLike, SourceFile
from sweephand.printable import printable

_MAX_HEADER = 65536
_HEAD = 4096  # bytes that are asked for at a time

_OFFSETS = "_offsets"

Member = TypeVar("Member")


class NpyDeserializer(Deserializer):
    """Serve ``.npy`` files, reading each sequence where it lies.

    A local file is mapped into memory, behind a guard: one that is cut or changed meanwhile is
    an error, not a crash. Where the source is given a window, and from stores always, whole
    chunks are read and held.

    Parameters
    ----------
    streams : dict, path, or list of paths
        Stream name to the path or URL of a ``.npy`` file of shape (sequences, *shape), or to
        ``(values path, offsets path)``: samples one behind the other, shape (samples, *shape),
        and where each sequence begins, shape (sequences + 1,), which is kept in memory. Of a
        path the name is the stream's, and ``NAME_offsets.npy`` beside it holds its offsets; of
        a folder each file is a stream.
    definitions : StreamDefs, dict of StreamDef or list of str, optional
        As in `ArrayDeserializer`.
    chunk_size : int, optional
        Sequences in a chunk, the unit that a window shuffles; by default as many as fill about
        8 MiB, or 1 MiB where they lie in a store.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        If a file is no ``.npy`` file, is cut short or too long, or holds pickled objects, which
        are never loaded.
    ValueError
        If streams differ in their number of sequences, or offsets do not fit.

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
        streams: Mapping[str, PathLike | tuple[PathLike, PathLike]] | Files,
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
        defined = choose_streams(definitions, partial(stream_per_name, streams))
        self._columns: dict[str, ColumnData] = {}
        self._files: dict[str, SourceFile] = {}
        for stream, definition in defined.items():
            field = definition.field or stream
            if field not in streams:
                raise ValueError(
                    f"no file for stream {field!r}, there are: {', '.join(streams)}"
                )
            paths = streams[field]
            given = paths if isinstance(paths, tuple) else (paths,)
            values, *offsets = stat_all([as_path(path) for path in given])
            self._columns[stream] = open_column(stream, values, *offsets)
            self._files[stream] = values
        self._infos = [
            describe_stream(stream, self._columns[stream], definition)
            for stream, definition in defined.items()
        ]
        check_same_sequences(self._columns)
        if self._num_sequences(self._columns) == 0:
            raise ValueError("the corpus is empty: no sequences")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the paths, which another process opens again."""
        return type(self), self._arguments

    @staticmethod
    def _num_sequences(columns: Mapping[str, ColumnData]) -> int:
        return next(iter(columns.values())).num_sequences

    def open(self, ledger: Ledger) -> Corpus:
        """Return the corpus, ready to be planned and read."""
        columns = self._columns
        names = [file.name for file in self._files.values()]
        ids: SequenceIds = ShardIds(names[:1], [0, self._num_sequences(columns)])
        num_sequences = self._num_sequences(columns)
        num_bytes = sum(column.num_samples * column.sample_bytes for column in columns.values())
        delivered = sum(map(delivered_bytes, columns.values(), self._infos))
        num_samples = max(column.num_samples for column in columns.values())
        is_local = access_to(list(self._files.values())).is_local
        chunk_size = self._chunk_size or sequences_per_chunk(
            num_sequences, num_bytes, default_chunk_bytes(is_local=is_local)
        )
        starts = chunk_starts(num_sequences, chunk_size)
        reader = read_columns(
            [self._in_file(stream) for stream in columns],
            self._infos,
            starts,
            delivered / max(1, num_samples),
        )
        earlier = {}
        if self._chunk_size is None and not is_local:
            before = sequences_per_chunk(num_sequences, num_bytes)
            earlier[f"chunk_size={before}"] = chunk_starts(num_sequences, before)
        files = list(self._files.values())
        return Corpus([reader], ids, names, earlier_chunks=earlier, files=files)

    def _told(self) -> str:
        return brief(
            [file.name for file in self._files.values()],
            self._infos,
            self._num_sequences(self._columns),
        )

    def _in_file(self, stream: str) -> FileColumn:
        file, column = self._files[stream], self._columns[stream]
        size = column.num_samples * column.sample_bytes
        return FileColumn(column, [file], np.array([[0, file.size - size, size]], np.uint64))


@dataclass(frozen=True)
class NpyHeader:
    """What a ``.npy`` file's header says: shape, dtype, and the byte where the data begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    offset: int


def read_header(file: SourceFile) -> NpyHeader:
    """Read and check the header of a ``.npy`` file against the file's size.

    Raises
    ------
    DataError
        If the header is damaged, the data are cut or longer than it says, or elements are
        objects.
    """
    with BufferedReader(RangeReader(file), _HEAD) as content:
        return parse_header(content, file.size, file.path)


def parse_header(content: BinaryIO, size: int, name: str) -> NpyHeader:
    """Parse the header of an array that lies in a file or in a part of one.

    Parameters
    ----------
    content : file object
        At the header.
    size : int
        Bytes that header and array have.
    name : str
        The file, for errors.
    """
    begin = content.tell()
    try:
        version = npy_format.read_magic(content)
        readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"version {version} is not supported, only 1.0 and 2.0")
        shape, fortran_order, dtype = readers[version](content, max_header_size=_MAX_HEADER)
    except (
        ValueError,
        EOFError,
        SyntaxError,
        TokenError,
        TypeError,
        KeyError,
        MemoryError,
        RecursionError,
    ) as error:
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
    if any(n < 0 for n in shape) or reach >= 2**63:
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


def open_column(
    stream: str, values: SourceFile, offsets: SourceFile | None = None
) -> ColumnData:
    """Open one stream of ``.npy`` files; see `NpyDeserializer`."""
    header = read_header(values)
    name = values.path
    if not header.shape:
        raise DataError("the file holds a single number, not an array of samples", name)
    check_dtype(f"stream {stream!r}", header.dtype)
    if not header.dtype.isnative:
        raise DataError(
            f"the array is big-endian ({header.dtype.str}); save it in native order", name
        )
    return ColumnData(
        values=None,
        dtype=header.dtype,
        shape=header.shape[1:],
        num_samples=header.shape[0],
        sample_offsets=None
        if offsets is None
        else _read_offsets(stream, offsets, header.shape[0]),
        offsets_file="" if offsets is None else offsets.path,
    )


def _read_offsets(stream: str, file: SourceFile, num_samples: int) -> NDArray[np.int64]:
    header = read_header(file)
    if len(header.shape) != 1 or header.dtype.kind not in "iu":
        raise DataError(
            f"offsets must be one row of integers, got {header.dtype} of shape {header.shape}",
            file.path,
            stream=stream,
        )
    loaded = file.read(header.offset, file.size - header.offset).view(header.dtype)
    checked = np.ascontiguousarray(loaded, dtype=np.int64)
    try:
        check_offsets(checked, num_samples)
    except ValueError as error:
        raise DataError(str(error), file.path, stream=stream) from None
    return checked


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    streams = streams_at(files)
    return NpyDeserializer(streams, wanted.definitions(streams), wanted.chunk_size)


def streams_at(paths: Sequence[AnyPath]) -> dict[str, AnyPath | tuple[AnyPath, AnyPath]]:
    """Return the streams of some files and folders, by the names of the files."""
    files = [file for path in paths for file in files_at(path, "*.npy")]
    beside = [file.with_name(f"{file.stem}{_OFFSETS}.npy") for file in files]
    files = list(dict.fromkeys([*files, *(file for file in beside if file.exists())]))
    # A stream's name is text, which the name of a file need not be.
    members = {printable(file.stem): file for file in files}
    if len(members) < len(files):
        raise ValueError("two files would be one stream: give a dict from stream name to path")
    return with_offsets(members)


def with_offsets(members: dict[str, Member]) -> dict[str, Member | tuple[Member, Member]]:
    """Join every member with the one that holds its offsets, if there is one."""
    return {
        name: (member, members[name + _OFFSETS]) if name + _OFFSETS in members else member
        for name, member in members.items()
        if not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) in members)
    }


FORMAT = Format(".npy", lambda path: begins_with(path, b"\x93NUMPY"), _open)
