"""CNTK's binary format (CBF), as its ctf2bin.py writes it; all is little-endian.

file    u64 magic "cntk_bin" | u32 version 1 | chunk | chunk | ... | header | i64 of header
header  u64 magic | u32 chunks | u32 streams
        stream: u8 0 dense, 1 sparse | u32 n | char name[n] | u8 0 float, 1 double
                | u32 dimension
        chunk: i64 offset | u32 sequences | u32 samples
chunk   u32 samples of each sequence, in its longest stream
        of each stream one sequence after the other:
          dense   u32 samples | values
          sparse  u32 samples | i32 n | values[n] | i32 indices[n] | i32 counts[samples]
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, StreamDef, StreamDefs
from sweephand.extend import (
    ColumnData,
    Columns,
    Files,
    Keep,
    KnownRows,
    RowIds,
    RowRun,
    RunDeserializer,
    SampleType,
    SourceFile,
    StreamsLike,
    concat_columns,
    find_shards,
    known_fields,
    offsets_of,
)

_MAGIC = struct.pack("<Q", 0x636E746B5F62696E)
_VERSION = 1
_BEGIN = 12  # after magic and version
_DTYPES = ("float32", "float64")
_CHUNK = np.dtype([("offset", "<i8"), ("sequences", "<u4"), ("samples", "<u4")])
_MOST_COUNT = 2**31 - 1


class CBFDeserializer(RunDeserializer):
    """Serve files in CNTK's binary format, as its ``ctf2bin.py`` converts them from text.

    Parameters
    ----------
    filename : str, path, or sequence of them
        Paths, globs or URLs; a list keeps its order.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all; ``field`` is the name in the file. Dense samples are float32 or float64
        of shape (dimension,), sparse ones come as from `CTFDeserializer`.
    index, ids
        As in `ParquetDeserializer`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the header is damaged, of another version, or lacks a stream; when it is opened,
        beyond ``max_errors``, if a chunk does not hold the sequences of the header.

    References
    ----------
    https://docs.microsoft.com/en-us/cognitive-toolkit/brainscript-cntkbinary-reader

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.CBFDeserializer("train.cbf", ["features", "labels"])  # doctest: +SKIP
    """

    format = "cbf 2"

    def __init__(
        self,
        filename: Files,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        super().__init__(find_shards(filename, as_given=True), streams, index=index, ids=ids)

    def guess_streams(self) -> StreamDefs:
        """Return all streams of the first file."""
        return StreamDefs(
            {
                one.name: StreamDef(shape=one.dimension, is_sparse=one.is_sparse)
                for one in _read_header(self.first_file).streams
            }
        )

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Return the sequences of chunks, and the types of the streams."""
        header = _read_header(file)
        types = {one.name: one.kind for one in header.streams}
        for name, field in self.fields.items():
            if field not in types:
                known = known_fields(lambda: types)
                raise DataError(f"there is no field {field!r}{known}", file.path, stream=name)
        kinds = {name: types[field] for name, field in self.fields.items()}
        return KnownRows(header.first_rows, np.diff(header.bounds), kinds)

    def read_rows(self, run: RowRun) -> Columns:
        """Read chunks, and return the wanted streams of each in their order."""
        header = _read_header(run.file)
        wanted = [self.fields[name] for name in run.streams]
        begins, ends = header.first_rows[:-1], header.first_rows[1:]
        is_in = (begins >= run.begin) & (ends <= run.end) & (begins < ends)
        parts = []
        for at in np.flatnonzero(is_in).tolist():
            place, end = header.bounds[at : at + 2].tolist()
            first, count = int(begins[at]), int(ends[at] - begins[at])
            chunk = _ChunkReader(run.file, place, end, first)
            chunk.skip_lengths(count)
            found = {
                one.name: chunk.read(one, count, one.name in wanted) for one in header.streams
            }
            chunk.check_end()
            parts.append([column for field in wanted if (column := found[field])])
        return [concat_columns(one) for one in zip(*parts, strict=True)], {}


@dataclass(frozen=True)
class _Stream:
    """One stream of a file."""

    name: str
    is_sparse: bool
    dtype: str
    dimension: int

    @property
    def kind(self) -> SampleType:
        """The type of its samples."""
        return SampleType(
            self.dtype, (self.dimension,), is_ragged=True, is_sparse=self.is_sparse
        )


@dataclass(frozen=True)
class _Header:
    """The description of a file, at its end."""

    streams: list[_Stream]
    bounds: NDArray[np.int64]  # the byte where each chunk begins, and the end
    first_rows: NDArray[np.int64]  # the first sequence of each chunk, and the end


class _Fields:
    """The fields of a header, read in order."""

    def __init__(self, content: bytes, path: str, begin: int) -> None:
        self._content = content
        self._path = path
        self._begin = begin
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self._content) - self._at:
            raise self.fault("the header ends within a field")
        self._at += size
        return self._content[self._at - size : self._at]

    def number(self, code: str = "I") -> int:
        """Return the next number."""
        (value,) = struct.unpack(f"<{code}", self.take(struct.calcsize(code)))
        return int(value)

    @property
    def is_done(self) -> bool:
        """True once every field is taken."""
        return self._at == len(self._content)

    def fault(self, reason: str) -> DataError:
        """Return an error with the place that was come to."""
        return DataError(reason, self._path, self._begin + self._at)


@lru_cache(256)
def _read_header(file: SourceFile) -> _Header:
    """Read the header of a file."""
    if file.size < 2 * _BEGIN + 8:
        raise DataError("the file is too short for CNTK's binary format", file.path, 0)
    first = _Fields(file.read(0, _BEGIN).tobytes(), file.path, 0)
    if first.take(8) != _MAGIC:
        raise DataError("the file does not begin as CNTK's binary format does", file.path, 0)
    if (version := first.number()) != _VERSION:
        raise DataError(f"the file is of version {version}, and 1 is read", file.path, 8)
    end = file.size - 8
    begin = int(file.read(end, 8).view("<i8")[0])
    if not _BEGIN <= begin <= end - 16:
        raise DataError("the header is not where the end of the file says", file.path, end)
    fields = _Fields(file.read(begin, end - begin).tobytes(), file.path, begin)
    if fields.take(8) != _MAGIC:
        raise DataError("the header does not begin as it should", file.path, begin)
    num_chunks, num_streams = fields.number(), fields.number()
    streams: dict[str, _Stream] = {}
    for _ in range(num_streams):
        stream = _read_stream(fields)
        if stream.name in streams:
            raise fields.fault(f"there are two streams {stream.name!r}")
        streams[stream.name] = stream
    table = np.frombuffer(fields.take(num_chunks * _CHUNK.itemsize), _CHUNK)
    bounds = np.array([*table["offset"].tolist(), begin], np.int64)
    if (np.diff(bounds, prepend=_BEGIN) < 0).any():
        raise fields.fault("the offsets of the chunks do not ascend")
    if (table["sequences"] * np.int64(4) > np.diff(bounds)).any():
        raise fields.fault("a chunk is too short for its sequences")
    if not fields.is_done:
        raise fields.fault("there are bytes after the header")
    return _Header(list(streams.values()), bounds, offsets_of(table["sequences"]))


def _read_stream(fields: _Fields) -> _Stream:
    encoding = fields.number("B")
    if encoding > 1:
        raise fields.fault(
            f"a stream is encoded in way {encoding}: 0, dense, and 1, sparse, are read"
        )
    name = fields.take(fields.number()).decode(errors="backslashreplace")
    element = fields.number("B")
    if element >= len(_DTYPES):
        raise fields.fault(
            f"the values of stream {name!r} are of a type {element} that is unknown"
        )
    dimension = fields.number()
    if not 0 < dimension < 2**31:
        raise fields.fault(f"the stream {name!r} has the dimension {dimension}")
    return _Stream(name, encoding == 1, _DTYPES[element], dimension)


class _ChunkReader:
    """The bytes of a chunk, whose streams are read in their order."""

    def __init__(self, file: SourceFile, begin: int, end: int, first_row: int) -> None:
        content = file.fetch(begin, end - begin)
        self._num_bytes = len(content)
        whole = content[: len(content) // 4 * 4].view("<u4")
        self._words = np.require(whole, requirements="A")
        self._path = file.path
        self._begin = begin
        self._first_row = first_row
        self._at = 0  # words that are read

    def skip_lengths(self, num_sequences: int) -> None:
        """Pass over the lengths of sequences, which each stream repeats."""
        if num_sequences > len(self._words):
            self._fail("the chunk ends within the lengths of its sequences", 0)
        self._at = num_sequences

    def read(self, stream: _Stream, num_sequences: int, is_wanted: bool) -> ColumnData | None:
        """Return the sequences of the next stream; None, and pass over it, if not wanted."""
        begin = self._at
        sizes = self._sizes(stream, num_sequences)
        if not is_wanted:
            return None
        words = self._words[begin : self._at]
        # The part of a sequence that each word is of: counts, values, indices or samples.
        parts = np.tile(np.arange(sizes.shape[1], dtype=np.uint8), len(sizes))
        part = np.repeat(parts, sizes.ravel())
        values = words[part == 1].view(stream.dtype)
        offsets = offsets_of(words[offsets_of(sizes.sum(axis=1))[:-1]].astype(np.int64))
        column = replace(
            stream.kind.to_column(),
            values=values if stream.is_sparse else values.reshape(-1, stream.dimension),
            num_samples=int(offsets[-1]),
            sample_offsets=offsets,
        )
        if not stream.is_sparse:
            return column
        is_index = part == 2
        indices = words[is_index]
        if (wrong := indices >= stream.dimension).any():
            which = int(wrong.argmax())
            reason = (
                f"an index is {indices.view('<i4')[which]}, of a stream of the dimension "
                f"{stream.dimension}"
            )
            sequence = int(np.searchsorted(np.cumsum(sizes[:, 2]), which, "right"))
            at = begin + int(np.flatnonzero(is_index)[which])
            self._fail(reason, at, stream, sequence)
        elements = offsets_of(words[part == 3].astype(np.int64))
        if (wrong := np.diff(elements[offsets]) != sizes[:, 2]).any():
            sequence = int(wrong.argmax())
            at = begin + int(sizes[: sequence + 1].sum()) - int(sizes[sequence, 3])
            reason = "the counts of the samples are not those of the sequence"
            self._fail(reason, at, stream, sequence)
        return replace(column, element_offsets=elements, indices=indices.view(np.int32))

    def check_end(self) -> None:
        """Refuse bytes that are of no sequence."""
        if 4 * self._at != self._num_bytes:
            self._fail("there are bytes after the last sequence of the chunk", self._at)

    def _sizes(self, stream: _Stream, num_sequences: int) -> NDArray[np.int64]:
        """Pass over a stream, and return the words of each part of each sequence in it."""
        words, end, at = self._words.data, len(self._words), self._at
        value_words = np.dtype(stream.dtype).itemsize // 4
        num_counts = 2 if stream.is_sparse else 1
        sizes: list[tuple[int, ...]] = []
        for sequence in range(num_sequences):
            if num_counts > end - at:
                self._fail("the chunk ends within a sequence", at, stream, sequence)
            samples = words[at]
            if stream.is_sparse:
                count = words[at + 1]
                own: tuple[int, ...] = (2, count * value_words, count, samples)
            else:
                count = samples
                own = (1, samples * value_words * stream.dimension)
            if max(samples, count) > _MOST_COUNT:
                reason = f"the count {max(samples, count)} cannot be"
                self._fail(reason, at, stream, sequence)
            if sum(own) > end - at:
                self._fail("the chunk ends within a sequence", at, stream, sequence)
            at += sum(own)
            sizes.append(own)
        self._at = at
        return np.array(sizes, np.int64).reshape(num_sequences, 2 * num_counts)

    def _fail(
        self,
        reason: str,
        word: int,
        stream: _Stream | None = None,
        sequence: int | None = None,
    ) -> NoReturn:
        name = stream.name if stream else None
        offset = self._begin + 4 * word
        row = None if sequence is None else self._first_row + sequence
        raise DataError(reason, self._path, offset, stream=name, sequence=row)
