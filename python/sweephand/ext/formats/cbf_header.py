"""The header of CNTK's binary format, at the end of a file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.extend import ColumnData, SampleType, SourceFile

MAGIC = struct.pack("<Q", 0x636E746B5F62696E)
_VERSION = 1
_BEGIN = 12  # after magic and version
_DTYPES = ("float32", "float64")
_CHUNK = np.dtype([("offset", "<i8"), ("sequences", "<u4"), ("samples", "<u4")])


@dataclass(frozen=True)
class CbfStream:
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

    def to_fact(self) -> list[Any]:
        """Return it as JSON."""
        return [self.name, self.is_sparse, self.dtype, self.dimension]

    def to_column(
        self,
        values: NDArray[Any],
        sample_offsets: NDArray[np.int64],
        element_offsets: NDArray[np.int64] | None,
        indices: NDArray[np.int32] | None,
    ) -> ColumnData:
        """Return arrays of the core as a column."""
        return ColumnData(
            values if self.is_sparse else values.reshape(-1, self.dimension),
            np.dtype(self.dtype),
            (self.dimension,),
            int(sample_offsets[-1]),
            sample_offsets,
            element_offsets,
            indices,
        )


def can_be(fact: Any) -> bool:
    """Return True if `CbfStream.to_fact` may have returned it."""
    name, is_sparse, dtype, dimension = fact
    return (
        isinstance(name, str)
        and isinstance(is_sparse, bool)
        and dtype in _DTYPES
        and type(dimension) is int
        and 0 < dimension < 2**31
    )


@dataclass(frozen=True)
class CbfHeader:
    """The description of a file, at its end."""

    streams: list[CbfStream]
    table: NDArray[Any]
    begin: int

    def chunks(self) -> list[tuple[int, int, int]]:
        """Return where each chunk begins and ends, and its sequences."""
        bounds = pairwise([*self.table["offset"].tolist(), self.begin])
        counts = self.table["sequences"].tolist()
        return [(begin, end, n) for (begin, end), n in zip(bounds, counts, strict=True)]


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


def read_header(file: SourceFile) -> CbfHeader:
    """Read the header of a file."""
    if file.size < 2 * _BEGIN + 8:
        raise DataError("the file is too short for CNTK's binary format", file.path, 0)
    first = _Fields(file.read(0, _BEGIN).tobytes(), file.path, 0)
    if first.take(8) != MAGIC:
        raise DataError("the file does not begin as CNTK's binary format does", file.path, 0)
    if (version := first.number()) != _VERSION:
        raise DataError(f"the file is of version {version}, and 1 is read", file.path, 8)
    end = file.size - 8
    begin = int(file.read(end, 8).view("<i8")[0])
    if not _BEGIN <= begin <= end - 16:
        raise DataError("the header is not where the end of the file says", file.path, end)
    fields = _Fields(file.read(begin, end - begin).tobytes(), file.path, begin)
    if fields.take(8) != MAGIC:
        raise DataError("the header does not begin as it should", file.path, begin)
    num_chunks, num_streams = fields.number(), fields.number()
    streams: dict[str, CbfStream] = {}
    for _ in range(num_streams):
        stream = _read_stream(fields)
        if stream.name in streams:
            raise fields.fault(f"there are two streams {stream.name!r}")
        streams[stream.name] = stream
    table = np.frombuffer(fields.take(num_chunks * _CHUNK.itemsize), _CHUNK)
    bounds = np.array([_BEGIN, *table["offset"].tolist(), begin], np.int64)
    if (np.diff(bounds) < 0).any():
        raise fields.fault("the offsets of the chunks do not ascend")
    if (table["sequences"] * np.int64(4) > np.diff(bounds)[1:]).any():
        raise fields.fault("a chunk is too short for its sequences")
    if not fields.is_done:
        raise fields.fault("there are bytes behind the header")
    return CbfHeader(list(streams.values()), table, begin)


def _read_stream(fields: _Fields) -> CbfStream:
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
    return CbfStream(name, encoding == 1, _DTYPES[element], dimension)
