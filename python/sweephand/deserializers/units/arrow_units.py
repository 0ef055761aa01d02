"""The common parts of formats that pyarrow decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sweephand.base.checks import OptionalModule
from sweephand.corpus.columns import ColumnData, concat_columns
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.units.arrow_columns import convert, pick
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.unit_scan import Columns, SampleType, UnitScan
from sweephand.errors import DataError
from sweephand.files.local import LocalFile
from sweephand.files.paths import as_path, open_file
from sweephand.files.range_reader import RangeReader
from sweephand.files.source_file import SourceFile

pa = OptionalModule("pyarrow", extra="parquet")

# One that decodes to more is refused: a whole unit is in memory at a time.
MAX_UNIT_BYTES = 1 << 30

_PANDAS_INDEX = "__index_level_"


class ArrowUnits(IndexedDeserializer):
    """Serve rows of record batches."""

    is_cast = True

    def to_columns(self, batches: Sequence[Any], path: str) -> Columns:
        """Return the streams of batches, and the faults by row."""
        wrong: dict[int, DataError] = {}
        columns = [
            concat_columns(self._convert_all(name, batches, path, wrong))
            for name in self.definitions
        ]
        return columns, wrong

    def add_kinds(self, scan: UnitScan, schema: Any, path: str) -> None:
        """Return the types of a file's streams, which follow from the schema alone."""
        empty = empty_batch(schema)
        for name in self.definitions:
            scan.kinds[name] = SampleType.of(self._convert(name, empty, path)[0])

    def add_unit(
        self,
        scan: UnitScan,
        size: tuple[int, int],
        streams: Sequence[str],
        read: Callable[[Sequence[str]], Sequence[Any]],
        path: str,
    ) -> None:
        """Add a unit; its batches are read if the streams need them."""
        num_rows, num_bytes = size
        if streams:
            try:
                self.add_rows(scan, read(streams), streams, path)
            except DataError as error:
                self.add_lost_rows(scan, num_rows, error)
        scan.rows.append(num_rows)
        scan.num_bytes.append(num_bytes)

    def add_rows(
        self, scan: UnitScan, batches: Sequence[Any], streams: Sequence[str], path: str
    ) -> None:
        """Add the lengths and errors of streams in the rows of a unit."""
        first = sum(scan.rows)
        wrong: dict[int, DataError] = {}
        for name in streams:
            columns = self._convert_all(name, batches, path, wrong)
            if scan.kinds[name].is_ragged:
                scan.lengths.setdefault(name, []).extend(one.lengths for one in columns)
        for row, error in sorted(wrong.items()):
            located = DataError(error.reason, path, stream=error.stream, sequence=first + row)
            scan.add_error(located, [first + row])

    def add_lost_rows(self, scan: UnitScan, num_rows: int, error: DataError) -> None:
        """Add the rows of a unit that cannot be read."""
        first = sum(scan.rows)
        scan.add_error(error, range(first, first + num_rows))
        for name, kind in scan.kinds.items():
            if kind.is_ragged:
                scan.lengths.setdefault(name, []).append(np.zeros(num_rows, np.int64))

    def _convert_all(
        self, name: str, batches: Sequence[Any], path: str, wrong: dict[int, DataError]
    ) -> list[ColumnData]:
        columns = []
        row = 0
        for batch in batches:
            column, reasons = self._convert(name, batch, path)
            columns.append(column)
            for number, reason in reasons.items():
                message = f"the field {self.fields[name]!r} {reason}"
                error = DataError(message, path, stream=name, sequence=row + number)
                wrong.setdefault(row + number, error)
            row += batch.num_rows
        return columns

    def _convert(self, name: str, batch: Any, path: str) -> tuple[ColumnData, dict[int, str]]:
        try:
            array = pick(batch, self.fields[name])
            wanted = self.definitions[name]
            dtype = None if wanted.dtype is None else np.dtype(wanted.dtype)
            return convert(array, wanted.sample_shape, dtype)
        except (TypeError, ValueError) as error:
            raise DataError(str(error), path, stream=name) from error


def empty_batch(schema: Any) -> Any:
    """Return a record batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


@contextmanager
def data_errors(path: str, what: str) -> Iterator[None]:
    """Raise pyarrow's errors on damaged bytes as DataError; errors of the system stay."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{what} cannot be decoded: {error}", path) from error


def open_source(file: SourceFile) -> Any:
    """Open a file for pyarrow; a local one without Python between, if it knows the name."""
    is_text = file.path.isascii() or file.path.encode(errors="ignore").decode() == file.path
    if isinstance(file, LocalFile) and is_text:
        file.check_unchanged()  # pyarrow would wait for the writer of a pipe of that name
        return pa.OSFile(file.path)
    return pa.PythonFile(RangeReader(file), "r")


def read_schema(read: Callable[[Any], Any], file: SourceFile) -> Any:
    """Return the schema of a file, by a function of pyarrow."""
    try:
        with open_file(as_path(file.spec)) as source:
            return read(source)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise DataError(f"the schema cannot be read: {error}", file.path) from error


def streams_of(schema: Any, path: str) -> tuple[StreamDefs, dict[str, str]]:
    """Return the columns of a schema that can be served, and the reason for each other column.

    The row numbers of pandas are neither.

    Raises
    ------
    DataError
        If none can be served, saying why.
    """
    batch = empty_batch(schema)
    streams = {}
    refused = {}
    for number, name in enumerate(schema.names):
        try:
            convert(batch.column(number), None)
        except (TypeError, ValueError) as error:
            refused[name] = str(error)
            continue
        if not name.startswith(_PANDAS_INDEX):
            streams[name] = StreamDef()
    if not streams:
        reasons = (
            "; ".join(f"{one!r}: {why}" for one, why in refused.items()) or "there is none"
        )
        raise DataError(f"no column can be served by itself: {reasons}", path)
    return StreamDefs(streams), refused
