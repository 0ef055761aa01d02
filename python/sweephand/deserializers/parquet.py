"""Parquet files, read row group by row group; their footers are read here.

pyarrow reads footers too, but ends the process if one contradicts itself. The footer is a
``FileMetaData`` in Thrift's compact protocol:

::

    field     | id delta: 4 bits, type: 4 bits | [id, where the delta is 0] | value |
    struct    fields | 0
    list      | size: 4 bits, type: 4 bits | [size, where it is 15] | values |
    integers  zigzag, in sevens of bits, the lowest first;  bytes  | size | bytes |

https://github.com/apache/parquet-format, https://github.com/apache/thrift (compact protocol)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import numpy as np

from sweephand.base.checks import OptionalModule
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.deserializers.units.arrow_units import (
    MAX_UNIT_BYTES,
    ArrowUnits,
    data_errors,
    empty_batch,
    open_source,
    read_schema,
    streams_of,
)
from sweephand.deserializers.units.indexed import KnownRows, RowRun, RunDeserializer
from sweephand.deserializers.units.unit_scan import Columns
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

pq = OptionalModule("pyarrow.parquet", extra="parquet")

_ENCRYPTED = b"PARE"
_MAGIC = b"PAR1"
_FOOTERS = 64  # that are kept; all others are read again


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


class ParquetDeserializer(ArrowUnits, RunDeserializer):
    """Serve the rows of Parquet files, each a sequence.

    A column of lists is a sequence of samples, a column of scalars or fixed-size lists one
    sample per row, strings and binary are ``bytes``. Only the requested columns are read, by
    row groups; a chunk is about 8 MiB of them. The lengths of lists are read once, with those
    columns, and kept in an index.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all columns that can be served directly. ``field`` is the column;
        ``a.b.c`` is the field c of b of the struct a. ``shape`` makes the innermost lists
        samples of that shape.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every row, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if a file is damaged, encrypted, a summary of other files, or has row
        groups of more than 1 GiB; if a column is missing, has nulls (beyond ``max_errors``),
        differs in type between files, or has a type that cannot be served.

    Notes
    -----
    A dictionary is served as its values. Hugging Face's ``Array2D`` to ``Array5D`` are one
    sample of their shape, or a sequence if the first extent is None; its ``Image`` and
    ``Audio`` are ``bytes``. Page checksums are verified if the writer stored them; without
    them a flipped bit in a value is not detected.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.parquet"
    >>> pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5]], "label": [0, 1]}), path)
    >>> corpus = sh.ParquetDeserializer(path, sh.StreamDefs(
    ...     tokens=sh.StreamDef(dtype="int32", defines_mb_size=True), label=sh.StreamDef()))
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(5)
    >>> minibatch["tokens"].as_sequences(), minibatch["label"].values
    ([array([1, 2, 3], dtype=int32), array([4, 5], dtype=int32)], array([0, 1]))
    """

    format = "parquet 1"
    in_parts = True  # pyarrow takes longer to read row groups together than one by one
    decoder = pq

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if there are no rows by the footer."""
        return bool(_read_footer(file).num_rows)

    def guess_streams(self) -> StreamDefs:
        """Return the columns of the first file's schema that can be served."""
        file = self.first_file
        streams, self.left_out = streams_of(read_schema(pq.read_schema, file), file.path)
        return streams

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Learn the row groups; columns of lists are read, and those that may have nulls."""
        footer = _read_footer(file)
        if not footer.num_rows:  # whatever types pandas gave to columns without values
            return KnownRows([0])
        with data_errors(file.path, "the schema"):
            schema = footer.schema.to_arrow_schema()
        leaves = _leaves(footer, self.fields)
        groups = read_row_groups(file)
        _check_groups(groups, footer, file)
        sizes = [_check_group(one, leaves, file, number) for number, one in enumerate(groups)]
        nullable = [
            name
            for name, own in leaves.items()
            if any(group.columns[i].may_have_nulls for group in groups for i in own)
        ]
        borders = offsets_of([group.num_rows for group in groups])
        kinds = self.kinds_of(schema, file.path)
        return KnownRows(borders, np.array(sizes, np.int64), kinds, unsure=nullable)

    def read_rows(self, run: RowRun) -> Columns:
        """Read row groups."""
        footer = _read_footer(run.file)
        ends = np.cumsum([footer.row_group(n).num_rows for n in range(footer.num_row_groups)])
        first, stop = np.searchsorted(ends, [run.begin, run.end - 1], side="right").tolist()
        batches = self._read(run.file, range(first, stop + 1), run.streams)
        return self.to_columns(batches, run.file.path, run.streams, run.begin)

    def _read(
        self, file: SourceFile, groups: Sequence[int], streams: Sequence[str]
    ) -> list[Any]:
        what = f"row group {groups[0]}" + (f" to {groups[-1]}" if len(groups) > 1 else "")
        footer = _read_footer(file)
        with (
            data_errors(file.path, what),
            open_source(file) as source,
            pq.ParquetFile(
                source, metadata=footer, pre_buffer=True, page_checksum_verification=True
            ) as opened,
        ):
            table = opened.read_row_groups(groups, [self.fields[name] for name in streams])
            wanted = sum(footer.row_group(number).num_rows for number in groups)
            if table.num_rows != wanted:
                raise DataError(
                    f"{what} has {table.num_rows} rows, the footer says {wanted}", file.path
                )
            batches: list[Any] = table.to_batches()
            return batches or [empty_batch(table.schema)]


@lru_cache(_FOOTERS)
def _read_footer(file: SourceFile) -> Any:
    if file.size < 2 * len(_MAGIC) + 4:
        raise DataError(f"no Parquet file: it has {file.size} bytes", file.path)
    magic = file.read(file.size - len(_MAGIC), len(_MAGIC)).tobytes()
    if magic == _ENCRYPTED:
        raise DataError("the file is encrypted, which is not supported", file.path)
    if magic != _MAGIC:
        raise DataError(
            f"no Parquet file, or cut short: it ends with {magic!r}, not {_MAGIC!r}",
            file.path,
            file.size - len(_MAGIC),
        )
    with data_errors(file.path, "the footer"), open_source(file) as source:
        return pq.read_metadata(source)


def _leaves(footer: Any, fields: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the columns of numbers or bytes that each stream's field is made of."""
    paths = [footer.schema.column(i).path for i in range(footer.num_columns)]
    return {
        name: [
            i for i, path in enumerate(paths) if path == field or path.startswith(f"{field}.")
        ]
        for name, field in fields.items()
    }


def _check_groups(groups: Sequence[RowGroup], footer: Any, file: SourceFile) -> None:
    """Refuse a footer that pyarrow reads in another way than we do."""
    if len(groups) != footer.num_row_groups:
        raise DataError(
            "the footer is damaged: it has unequal numbers of row groups", file.path
        )
    columns = [footer.schema.column(i) for i in range(footer.num_columns)]
    wanted = [(column.path, column.physical_type) for column in columns]
    is_flat = [column.max_repetition_level == 0 for column in columns]
    for number, group in enumerate(groups):
        others = {column.file_name for column in group.columns} - {"", PurePath(file.path).name}
        if others:
            raise DataError(
                f"row group {number} is in the file {min(others)!r}: this is a summary of "
                "other files, as '_metadata' is; give those",
                file.path,
            )
        if [(column.path, column.physical_type) for column in group.columns] != wanted:
            raise DataError(
                f"the footer is damaged: row group {number} has other columns than the schema",
                file.path,
            )
        for column, flat in zip(group.columns, is_flat, strict=True):
            # Nulls count as values, and so does an empty list.
            most = group.num_rows if flat else column.num_values
            if not group.num_rows <= column.num_values <= most:
                raise DataError(
                    f"the footer is damaged: row group {number} of {group.num_rows} rows has "
                    f"{column.num_values} values in {column.path!r}",
                    file.path,
                )


def _check_group(
    group: RowGroup, leaves: Mapping[str, Sequence[int]], file: SourceFile, number: int
) -> int:
    """Return the bytes that a row group's columns take in memory, if the numbers can be."""
    columns = [group.columns[i] for i in sorted({i for own in leaves.values() for i in own})]
    num_bytes = sum(column.num_bytes for column in columns)
    if group.num_rows < 0 or num_bytes > MAX_UNIT_BYTES:
        raise DataError(
            f"row group {number} has {group.num_rows} rows of {num_bytes} bytes; at most "
            f"{MAX_UNIT_BYTES} bytes are read at once: write smaller row groups",
            file.path,
        )
    return num_bytes


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
