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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from os import fsdecode, fsencode
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
    streams_of,
)
from sweephand.deserializers.units.indexed import KnownRows, RowRun, RunDeserializer
from sweephand.deserializers.units.unit_scan import Columns
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

pq = OptionalModule("pyarrow.parquet", extra="parquet")

_FOOTERS = 64  # that are kept; all others are read again

_TAIL = 8  # the size of the footer, and the magic
_FALSE, _BYTE, _INTEGER, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 2, 3, 5, 7, 8, 9, 10, 12
# Fields of FileMetaData and RowGroup, of ColumnChunk, ColumnMetaData and Statistics.
_ROW_GROUPS, _COLUMNS, _NUM_ROWS, _FILE_PATH, _META_DATA = 4, 1, 3, 1, 3
_TYPE, _PATH, _CODEC, _NUM_VALUES, _UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 1, 3, 4, 5, 6, 7
_STATISTICS, _NULL_COUNT = 12, 3
# The types of columns, and the bytes of a value in memory; those of bytes are as many as are
# stored, and where each begins.
_TYPES = {
    **{0: ("BOOLEAN", 1), 1: ("INT32", 4), 2: ("INT64", 8), 3: ("INT96", 12)},
    **{4: ("FLOAT", 4), 5: ("DOUBLE", 8)},
    **{6: ("BYTE_ARRAY", None), 7: ("FIXED_LEN_BYTE_ARRAY", None)},
}
_UNCOMPRESSED = 0


class ParquetDeserializer(ArrowUnits, RunDeserializer):
    """Serve the rows of Parquet files, each a sequence.

    A column of lists is a sequence of samples, a column of scalars or fixed-size lists one
    sample per row, strings and binary are ``bytes``. Only the requested columns are read, in
    chunks of about 8 MiB; the lengths of lists are read once and kept in an index.

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

    Notes
    -----
    Hugging Face's ``Array2D`` to ``Array5D`` are one sample of their shape, or a sequence if
    the first extent is None; its ``Image`` and ``Audio`` are ``bytes``. Without page checksums,
    which are verified, a flipped bit in a value is not detected.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, sweephand as sh
    >>> table = pa.table({"tokens": [[1, 2, 3], [4, 5]], "label": [0, 1]})
    >>> pq.write_table(table, "train.parquet")
    >>> corpus = sh.ParquetDeserializer("train.parquet")
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(5)
    >>> minibatch["tokens"].as_sequences(), minibatch["label"].values
    ([array([1, 2, 3]), array([4, 5])], array([0, 1]))
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
        streams, self.left_out = streams_of(_read_schema(file), file.path)
        return streams

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Learn the row groups; columns of lists are read, and those that may have nulls."""
        footer = _read_footer(file)
        if not footer.num_rows:  # whatever types pandas gave to columns without values
            return KnownRows([0])
        groups = _read_groups(file, footer)
        paths = [f"{footer.schema.column(i).path}." for i in range(footer.num_columns)]
        leaves = {  # the columns of numbers or bytes that each stream's field is made of
            name: [i for i, path in enumerate(paths) if path.startswith(f"{field}.")]
            for name, field in self.fields.items()
        }
        wanted = {number for own in leaves.values() for number in own}
        sizes = [sum(group.num_bytes[n] for n in wanted) for group in groups]
        for number, size in enumerate(sizes):
            if size > MAX_UNIT_BYTES:
                reason = f"{size} bytes; write row groups of at most {MAX_UNIT_BYTES}"
                raise DataError(f"row group {number} has {reason}", file.path)
        nullable = [
            name
            for name, own in leaves.items()
            if any(group.may_have_nulls[i] for group in groups for i in own)
        ]
        borders = offsets_of([group.num_rows for group in groups])
        kinds = self.kinds_of(_read_schema(file), file.path)
        return KnownRows(borders, np.array(sizes, np.int64), kinds, unsure=nullable)

    def read_rows(self, run: RowRun) -> Columns:
        """Read row groups."""
        file, footer = run.file, _read_footer(run.file)
        counts = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        wanted = np.searchsorted(np.cumsum(counts), [run.begin, run.end - 1], side="right")
        first, last = wanted.tolist()
        what = f"row group {first}" + (f" to {last}" if last > first else "")
        with (
            data_errors(file.path, what),
            open_source(file) as source,
            pq.ParquetFile(
                source, metadata=footer, pre_buffer=True, page_checksum_verification=True
            ) as opened,
        ):
            fields = [self.fields[name] for name in run.streams]
            table = opened.read_row_groups(range(first, last + 1), fields)
        if table.num_rows != sum(counts[first : last + 1]):
            raise DataError(f"{what} has other rows than the footer says", file.path)
        batches = table.to_batches() or [empty_batch(table.schema)]
        return self.to_columns(batches, file.path, run.streams, run.begin)


@lru_cache(_FOOTERS)
def _read_footer(file: SourceFile) -> Any:
    with data_errors(file.path, "the footer"), open_source(file) as source:
        return pq.read_metadata(source)


def _read_schema(file: SourceFile) -> Any:
    footer = _read_footer(file)
    with data_errors(file.path, "the schema"):
        return footer.schema.to_arrow_schema()


@dataclass(frozen=True)
class _RowGroup:
    """One row group, and of every column in it what is needed."""

    num_rows: int
    num_bytes: list[int]  # what its values take in memory, at most
    may_have_nulls: list[bool]  # false if statistics say that there are none


def _read_groups(file: SourceFile, footer: Any) -> list[_RowGroup]:
    """Read the row groups, and refuse a footer that pyarrow reads in another way than we do."""
    size = int.from_bytes(file.read(file.size - _TAIL, 4).tobytes(), "little")
    begin = file.size - _TAIL - size
    try:
        content = file.read(begin, size).tobytes()
        stored = _read_struct(iter(content))[_ROW_GROUPS]
        groups = [_read_group(one, n, file, footer) for n, one in enumerate(stored)]
        num_rows = sum(group.num_rows for group in groups)
        if (num_rows, len(groups)) != (footer.num_rows, footer.num_row_groups):
            raise ValueError(f"its row groups have {num_rows} rows, the file {footer.num_rows}")
    except (StopIteration, LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the footer is damaged: {error!r}", file.path, begin) from None
    return groups


def _read_group(group: dict[int, Any], number: int, file: SourceFile, footer: Any) -> _RowGroup:
    num_rows = int(group[_NUM_ROWS])
    found = _RowGroup(num_rows, [], [])
    if len(group[_COLUMNS]) != footer.num_columns or num_rows < 0:
        raise ValueError(f"row group {number} has other columns than the schema")
    own = fsencode(PurePath(file.path).name)
    for at, column in enumerate(group[_COLUMNS]):
        data, wanted = column[_META_DATA], footer.schema.column(at)
        other = column.get(_FILE_PATH, b"") or own  # of a summary, as "_metadata" is
        name = ".".join(part.decode() for part in data[_PATH])
        kind, width = _TYPES[data[_TYPE]]
        values, size = int(data[_NUM_VALUES]), int(data[_UNCOMPRESSED_SIZE])
        is_plain = data[_CODEC] == _UNCOMPRESSED
        # Nulls count as values, and so does an empty list.
        most = num_rows if wanted.max_repetition_level == 0 else values
        if (
            (name, kind) != (wanted.path, wanted.physical_type)
            or other != own
            or not num_rows <= values <= most
            or size < 0
            or (is_plain and data[_COMPRESSED_SIZE] != size)
        ):
            raise ValueError(
                f"row group {number} of {num_rows} rows has {values} values of {size} bytes "
                f"in {name!r} of {kind}, in the file {fsdecode(other)!r}"
            )
        found.num_bytes.append(size + 8 * values if width is None else width * values)
        found.may_have_nulls.append(data.get(_STATISTICS, {}).get(_NULL_COUNT, 1) != 0)
    return found


def _read_struct(content: Iterator[int]) -> dict[int, Any]:
    """Return the fields of a struct by their ids, but for truths, whose value is their type."""
    fields: dict[int, Any] = {}
    number = 0
    while head := next(content):
        delta, kind = head >> 4, head & 15
        number = number + delta if delta else _read_value(_INTEGER, content)
        if kind > _FALSE:
            fields[number] = _read_value(kind, content)
    return fields


def _read_value(kind: int, content: Iterator[int]) -> Any:
    """Return a value; StopIteration where the content ends before."""
    if kind == _STRUCT:
        return _read_struct(content)
    if kind <= _BYTE:
        return next(content)
    if kind < _DOUBLE:
        value = _read_varint(content)
        return value >> 1 ^ -(value & 1)
    if kind in (_LIST, _SET):
        head = next(content)
        size = _read_varint(content) if head >> 4 == 15 else head >> 4
        return [_read_value(head & 15, content) for _ in range(size)]
    if kind not in (_DOUBLE, _BINARY):
        raise ValueError(f"there is no type {kind}")
    size = _read_varint(content) if kind == _BINARY else 8
    taken = bytes(islice(content, size))
    if len(taken) < size:
        raise ValueError("it ends within bytes")
    return taken


def _read_varint(content: Iterator[int]) -> int:
    value = shift = 0
    while (one := next(content)) >= 0x80:
        value |= (one & 0x7F) << shift
        shift += 7
    return value | one << shift
