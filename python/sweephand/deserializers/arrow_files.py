"""Arrow IPC files, read record batch by record batch.

::

    stream   schema | dictionary ... | record batch | ... | FF FF FF FF 00 00 00 00
    file     "ARROW1" 0 0 | stream | footer | i32 footer bytes | "ARROW1"

Every message is FF FF FF FF, i32 bytes of metadata, metadata, body, padded to 8 bytes. A run of
batches, after the schema and the dictionaries that precede it, is a stream of its own.
https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.deserializers.units.arrow_columns import repeated_bytes
from sweephand.deserializers.units.arrow_units import (
    MAX_UNIT_BYTES,
    ArrowUnits,
    data_errors,
    read_schema,
    streams_of,
)
from sweephand.deserializers.units.unit_scan import Columns, Facts, UnitScan
from sweephand.errors import DataError
from sweephand.files.index_file import Advance
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

pa = OptionalModule("pyarrow", extra="parquet")
ipc = OptionalModule("pyarrow.ipc", extra="parquet")

_FILE_MAGIC = b"ARROW1"
_FILE_BEGIN = 8  # where the stream begins in a file, after the magic
_END_MARK = 8  # bytes
_OTHERS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"FEA1": "Feather 1",
    b"PAR1": "Parquet",
}
_PREFIXES = 64  # that are kept; all others are read again

Place = tuple[int, int]  # where a message begins and ends in its file


class ArrowFiles(ArrowUnits):
    """Serve the rows of IPC files; see `ArrowDeserializer`."""

    format = "arrow 1"

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if no record batch follows the schema."""
        with open_to_scan(file) as source:
            begin = _find_stream(file)
            source.seek(begin)
            _read_message(source, file, begin)
            return any(source.read(_END_MARK)[4:])

    def guess_streams(self) -> StreamDefs:
        """Return the columns of the first file's schema that can be served."""
        file = self.first_file
        read = ipc.open_file if _find_stream(file) else ipc.open_stream
        schema = read_schema(lambda source: read(source).schema, file)
        streams, self.left_out = streams_of(schema, file.path)
        return streams

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read every record batch once."""
        scan = UnitScan()
        places: dict[str, list[Place]] = {"schema": [], "dictionary": [], "record batch": []}
        scan.facts = places
        prefix: list[Any] = []  # the schema and the dictionaries
        with open_to_scan(file) as source:
            source.seek(_find_stream(file))
            while True:
                begin = source.tell()
                try:
                    message = _read_message(source, file, begin)
                    if message is None:
                        return scan
                    if message.type not in places or (message.type == "schema") != (not prefix):
                        raise DataError(f"unexpected message: {message.type}", file.path, begin)
                    end = source.tell()
                    if message.type != "record batch":
                        prefix.append(message.serialize())
                except DataError as error:  # the rest cannot be found
                    scan.add_error(error)
                    return scan
                places[message.type].append((begin, end))
                if message.type == "record batch":
                    if not scan.rows:  # a file without one may have any types
                        with data_errors(file.path, "the schema"):
                            self.add_kinds(scan, ipc.open_stream(prefix[0]).schema, file.path)
                    self._add_batch(scan, message, prefix, (begin, end), file)
                advance(end - begin)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read record batches."""
        first, stop = facts["record batch"][begin][0], facts["record batch"][end - 1][1]
        before = [one for one in facts["dictionary"] if one[0] < first]
        prefix = _read_prefix(file, tuple(map(tuple, facts["schema"] + before)))
        content = _core.read.empty_bytes(len(prefix) + stop - first)
        content[: len(prefix)] = prefix
        file.read_into(first, content[len(prefix) :])
        with data_errors(file.path, f"record batch {begin}"):
            return self.to_columns(self._decode(content), file.path)

    def _add_batch(
        self,
        scan: UnitScan,
        message: Any,
        prefix: Sequence[Any],
        place: Place,
        file: SourceFile,
    ) -> None:
        number = len(scan.rows)
        num_bytes = place[1] - place[0]
        num_rows = 0
        try:
            with data_errors(file.path, f"record batch {number}"):
                _check_bytes(number, num_bytes, file.path)
                (batch,) = self._decode(b"".join([*prefix, message.serialize()]))
                num_rows = batch.num_rows
                wanted = {*self.fields.values()}.intersection(batch.schema.names)
                num_bytes += sum(repeated_bytes(batch.column(name)) for name in wanted)
                _check_bytes(number, num_bytes, file.path)
                self.add_rows(scan, [batch], list(self.definitions), file.path)
        except DataError as error:
            self.add_lost_rows(scan, num_rows, error.within(offset=place[0]))
        scan.rows.append(num_rows)
        scan.num_bytes.append(num_bytes)

    def _decode(self, content: bytes | NDArray[np.uint8]) -> list[Any]:
        options = ipc.IpcReadOptions(ensure_alignment=ipc.Alignment.DataTypeSpecific)
        batches = []
        for batch in ipc.open_stream(pa.py_buffer(content), options=options):
            batch.validate()
            batches.append(batch)
        return batches


def _check_bytes(number: int, num_bytes: int, path: str) -> None:
    if num_bytes > MAX_UNIT_BYTES:
        raise DataError(
            f"record batch {number} has {num_bytes} bytes; at most {MAX_UNIT_BYTES} are read "
            "at once: write smaller ones",
            path,
        )


@lru_cache(_PREFIXES)
def _read_prefix(file: SourceFile, places: Sequence[Place]) -> NDArray[np.uint8]:
    return np.concatenate([file.read(begin, end - begin) for begin, end in places])


def _find_stream(file: SourceFile) -> int:
    """Return where the stream of messages begins; look at both ends of the file."""
    head = file.read(0, min(file.size, len(_FILE_MAGIC))).tobytes()
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            raise DataError(f"this is a {name} file, not Arrow IPC", file.path, 0)
    if not head:
        raise DataError(
            "the file is empty; an Arrow stream has a schema at least", file.path, 0
        )
    if head != _FILE_MAGIC:
        return 0
    tail = file.read(file.size - len(head), len(head)).tobytes()
    if tail != _FILE_MAGIC:
        raise DataError(
            f"the file is cut short: it ends with {tail!r}, not {_FILE_MAGIC!r}",
            file.path,
            file.size - len(head),
        )
    return _FILE_BEGIN


def _read_message(source: Any, file: SourceFile, begin: int) -> Any:
    """Return the next message; None at the end of the stream."""
    try:
        with data_errors(file.path, "the message"):
            return ipc.read_message(source)
    except EOFError:
        if source.tell() - begin != _END_MARK:
            raise DataError(
                "the stream has no end mark: the file was cut, or its writer did not close it",
                file.path,
                begin,
            ) from None
        return None
    except DataError as error:
        raise error.within(offset=begin) from error.__cause__
