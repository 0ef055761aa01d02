"""The row groups of a Parquet file, by its footer.

pyarrow has it too, but ends the process when a footer contradicts itself. The footer is a
``FileMetaData`` in Thrift's compact protocol:

::

    field     | id delta: 4 bits, type: 4 bits | [id, where the delta is 0] | value |
    struct    fields | 0
    list      | size: 4 bits, type: 4 bits | [size, where it is 15] | values |
    integers  zigzag, in sevens of bits, the lowest first;  bytes  | size | bytes |

https://github.com/apache/parquet-format, https://github.com/apache/thrift (compact protocol)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

_TAIL = 8  # the size of the footer, and the magic
_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _DOUBLE = 1, 2, 3, 7
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12

# Fields of FileMetaData and RowGroup, both of which have a number of rows, of ColumnChunk,
# ColumnMetaData and Statistics.
_ROW_GROUPS, _COLUMNS, _NUM_ROWS, _FILE_PATH, _META_DATA = 4, 1, 3, 1, 3
_TYPE, _PATH, _CODEC, _NUM_VALUES, _UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 1, 3, 4, 5, 6, 7
_STATISTICS, _NULL_COUNT = 12, 3

_TYPES = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"),
    *("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
)
_WIDTHS = (1, 4, 8, 12, 4, 8)  # bytes of a value of the first of them
_UNCOMPRESSED = 0


@dataclass(frozen=True)
class ColumnChunk:
    """One column in one row group; its type is as pyarrow calls it."""

    path: str
    physical_type: str
    num_values: int  # of all rows, with nulls; of lists, their elements
    num_bytes: int  # what the values take in memory, at most
    may_have_nulls: bool  # false if statistics say that there are none
    file_name: str  # the file that its bytes are in; empty for that of the footer


@dataclass(frozen=True)
class RowGroup:
    """One row group."""

    num_rows: int
    columns: list[ColumnChunk]


def read_row_groups(file: SourceFile) -> list[RowGroup]:
    """Read the row groups of the footer."""
    tail = file.read(file.size - _TAIL, _TAIL).tobytes()
    size = int.from_bytes(tail[:4], "little")
    if size > file.size - _TAIL - 4:
        raise DataError(f"the footer has {size} bytes, more than the file", file.path)
    begin = file.size - _TAIL - size
    reader = _Reader(file.read(begin, size).tobytes())
    try:
        footer = reader.struct()
        num_rows = int(footer[_NUM_ROWS])
        groups = [
            RowGroup(int(group[_NUM_ROWS]), [_to_column(column) for column in group[_COLUMNS]])
            for group in footer[_ROW_GROUPS]
        ]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the footer is damaged: {error!r}", file.path, begin) from None
    in_groups = sum(group.num_rows for group in groups)
    if in_groups != num_rows:
        raise DataError(
            f"the footer is damaged: its row groups have {in_groups} rows, the file {num_rows}",
            file.path,
            begin,
        )
    return groups


def _to_column(column: dict[int, Any]) -> ColumnChunk:
    data = column[_META_DATA]
    num_values, size = int(data[_NUM_VALUES]), int(data[_UNCOMPRESSED_SIZE])
    if num_values < 0 or size < 0:
        raise ValueError(f"{num_values} values in {size} bytes")
    compressed = int(data[_COMPRESSED_SIZE])
    if int(data[_CODEC]) == _UNCOMPRESSED and compressed != size:
        raise ValueError(f"{size} uncompressed bytes in {compressed}")
    physical = int(data[_TYPE])
    if not 0 <= physical < len(_TYPES):
        raise ValueError(f"there is no type {physical}")
    is_fixed = physical < len(_WIDTHS)
    # Of bytes also where each begins.
    num_bytes = _WIDTHS[physical] * num_values if is_fixed else size + 8 * num_values
    return ColumnChunk(
        path=".".join(part.decode() for part in data[_PATH]),
        physical_type=_TYPES[physical],
        num_values=num_values,
        num_bytes=num_bytes,
        may_have_nulls=data.get(_STATISTICS, {}).get(_NULL_COUNT, 1) != 0,
        file_name=column.get(_FILE_PATH, b"").decode(errors="replace"),
    )


class _Reader:
    """Reads values in order; beyond the end it raises IndexError."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._depth = 0

    def struct(self) -> dict[int, Any]:
        """Return the fields of a struct by their ids."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("it is too deep")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._integer()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind < _DOUBLE:
            return self._integer()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _MAP:
            return self._map()
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"there is no type {kind}")

    def _list(self) -> list[Any]:
        head = self._byte()
        size, kind = head >> 4, head & 15
        return [self._value(kind) for _ in range(self._varint() if size == 15 else size)]

    def _map(self) -> list[Any]:
        size = self._varint()
        kinds = self._byte() if size else 0
        return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _take(self, size: int) -> bytes:
        if size > len(self._content) - self._at:
            raise IndexError("it ends within bytes")
        self._at += size
        return self._content[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
