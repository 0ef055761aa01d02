"""ArrayRecord files: records by their numbers, of any bytes.

The container is Google's, in front of Riegeli (https://github.com/google/array_record,
https://github.com/google/riegeli): groups of records with a hash each, and a table after them.

Its own package reads them; its readers are kept, one for each file and thread, as opening one
reads where all records lie.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, StreamDef, StreamDefs
from sweephand.extend import (
    PADDING,
    ColumnData,
    Columns,
    ExampleConverter,
    Files,
    Keep,
    KnownRows,
    LinePlace,
    LocalFile,
    OptionalModule,
    RowIds,
    RowRun,
    RunDeserializer,
    SampleType,
    SourceFile,
    StreamsLike,
    column_of_bytes,
    keys_of_records,
    offsets_of,
)

_LOOKED_AT = 100  # records, to know their streams
_PAYLOADS = ("auto", "example", "bytes")
array_record = OptionalModule("array_record.python.array_record_module", extra="arrayrecord")
_RANDOM_ACCESS = "readahead_buffer_size:0,max_parallelism:0"
_READERS = 8  # that a thread keeps


RECORD = "record"
"""The stream of a record that is served as its bytes."""

Payload = Callable[[Sequence[bytes], SourceFile, int], Columns]
"""Makes the streams of records of a file, of which the first has a number."""


class ArrayRecordDeserializer(RunDeserializer):
    """Serve the records of ArrayRecord files, each a sequence.

    They are read by the package ``array_record``. All records are read once for the index, and
    again when a chunk of about 8 MiB of them is loaded; records that were compressed together
    are read together.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths or globs.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all that the first records hold: features and feature lists as in
        `TFRecordDeserializer`; bytes are the stream "record".
        Bytes may have another name; with a ``dtype`` they are a sequence of numbers in little
        endian, with a ``shape`` of samples of that shape.
    payload : {"auto", "example", "bytes"}
        The content of a record: a ``tf.train.Example`` or SequenceExample, or opaque bytes, of
        JSON for instance, for `corpus.map`. "auto" decides by the first record.
    index, ids
        As in `ParquetDeserializer`.

    Raises
    ------
    DataError
        When it is opened, beyond ``max_errors``: if a file is cut, its hashes are wrong, or a
        record has a type of its own; with file and number of the record.

    References
    ----------
    https://github.com/google/array_record

    Examples
    --------
    >>> import sweephand as sh
    >>> corpus = sh.ArrayRecordDeserializer("train.array_record")  # doctest: +SKIP
    """

    format = "arrayrecord 2"
    unit_bytes = 1 << 20
    decoder = array_record

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        *,
        payload: Literal["auto", "example", "bytes"] = "auto",
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if payload not in _PAYLOADS:
            raise ValueError(f"payload must be one of {_PAYLOADS}, got {payload!r}")
        self._payload: str = payload
        super().__init__(files, streams, index=index, ids=ids)
        if self._payload == "auto":
            self._payload = guess_payload(self._first_records(1))
        self.options = {"payload": self._payload}
        make_payload(self._payload, self.definitions, self.fields, {})  # refuses what it cannot

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if a file has no records."""
        return len(ArrayRecords(file)) > 0

    def guess_streams(self) -> StreamDefs:
        """Return the content of the first records."""
        records = self._first_records(_LOOKED_AT)
        if self._payload == "auto":
            self._payload = guess_payload(records)
        names = keys_of_records(records) if self._payload == "example" else [RECORD]
        if not names:
            reason = "the first records are no tf.train.Example with features"
            raise DataError(reason, self.first_file.path)
        return StreamDefs({name: StreamDef() for name in names})

    def find_rows(self, file: SourceFile) -> KnownRows:
        """Return the groups of records that are compressed together."""
        try:
            stored = ArrayRecords(file)
            count, group = len(stored), stored.per_group
        except DataError as error:  # its content cannot be found
            return KnownRows([0], faults=[(error, None)])
        try:
            group_bytes = sum(map(len, stored.read(range(min(group, count)))))
        except DataError:  # which is found again
            group_bytes = file.size * group // max(1, count)
        return KnownRows([*range(0, count, group), count], float(group_bytes))

    def read_rows(self, run: RowRun) -> Columns:
        """Read records."""
        run.file.check_unchanged()  # the package opens it by its name
        payload = make_payload(self._payload, self.definitions, self.fields, run.kinds)
        try:
            records = ArrayRecords(run.file).read(range(run.begin, run.end))
        except DataError as error:
            where = f"records {run.begin} to {run.end - 1}: " if len(run) > 1 else ""
            reason = where + error.reason
            raise DataError(reason, run.file.path, sequence=run.begin) from error
        return payload(records, run.file, run.begin)

    def _first_records(self, count: int) -> list[bytes]:
        """Return the first records, without the damaged unless all are damaged."""
        file = self.first_file
        stored = ArrayRecords(file)
        num_records, group = len(stored), stored.per_group
        records: list[bytes] = []
        wrong: DataError | None = None
        for begin in range(0, min(count, num_records), group):
            try:
                records += stored.read(range(begin, min(begin + group, num_records)))
            except DataError as error:
                wrong = wrong or error
        if wrong is not None and not records:
            raise wrong
        return records[:count]


class _Kept(threading.local):
    def __init__(self) -> None:
        self.readers: OrderedDict[tuple[int, SourceFile], Any] = OrderedDict()


_kept = _Kept()


class ArrayRecords:
    """Records of an ArrayRecord file, any of them at any time.

    Nothing is read until it is asked for, and nothing is kept here: an object is a name of a
    file. DataError if the file is cut or no ArrayRecord file, or if bytes are damaged.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def __len__(self) -> int:
        return int(_reader(self.file).num_records())

    @property
    def per_group(self) -> int:
        """How many records are compressed together."""
        found = re.search(r"group_size:(\d+)", _reader(self.file).writer_options_string())
        return max(1, int(found[1])) if found else 1

    def read(self, numbers: range) -> list[bytes]:
        """Return records by their numbers."""
        if not numbers:
            return []
        try:
            found: list[bytes] = _reader(self.file).read(numbers[0], numbers[-1] + 1)
        except (RuntimeError, IndexError, ValueError) as error:
            _kept.readers.pop((os.getpid(), self.file), None)  # it has failed for good
            raise DataError(_message_of(error), self.file.path) from error
        return found


def _reader(file: SourceFile) -> Any:
    """Return the reader of a file in this thread."""
    key = (os.getpid(), file)  # a forked process has its own
    reader = _kept.readers.get(key)
    if reader is not None:
        _kept.readers.move_to_end(key)
        return reader
    if not isinstance(file, LocalFile):
        raise ValueError(
            f"{file.path!r}: ArrayRecord files of a store are not read; copy them to a disk"
        )
    file.check_unchanged()
    try:
        reader = array_record.ArrayRecordReader(file.path, _RANDOM_ACCESS)
    except RuntimeError as error:
        raise DataError(_message_of(error), file.path) from error
    if not reader.ok():
        raise DataError(
            "no ArrayRecord file, or cut short: the table of its records cannot be read",
            file.path,
        )
    _kept.readers[key] = reader
    while len(_kept.readers) > _READERS:
        _kept.readers.popitem(last=False)
    return reader


def _message_of(error: Exception) -> str:
    """Return the message of its reader, in one line and without the file."""
    text = " ".join(str(error).split())
    return re.sub(r" \(?reading file://.*| at `?/.*", "", text)[:300]


def guess_payload(records: Sequence[bytes]) -> str:
    """Return the content of records by the first: "example" or "bytes"."""
    return "example" if keys_of_records(records[:1]) else "bytes"


def make_payload(
    payload: str,
    definitions: StreamDefs,
    fields: Mapping[str, str],
    kinds: Mapping[str, SampleType],
) -> Payload:
    """Return the converter of records; `kinds` are the known types of streams."""
    if payload == "example":
        return partial(_of_examples, ExampleConverter(definitions, fields, kinds))
    if len(definitions) > 1:
        raise ValueError(
            f"records of bytes are one stream, not {len(definitions)}: "
            f"{', '.join(definitions)}; payload= says what else they hold"
        )
    ((name, definition),) = definitions.items()
    return partial(_of_bytes, (name, definition))


def _of_examples(
    converter: ExampleConverter, records: Sequence[bytes], file: SourceFile, first: int
) -> Columns:
    """Return the streams of messages of ``tf.train.Example`` or ``SequenceExample``."""
    offsets = offsets_of([len(one) for one in records])
    content = np.frombuffer(b"".join(records) + bytes(PADDING), np.uint8)
    return converter.convert(content, file, LinePlace(0, 0, 0, first), offsets)


def _of_bytes(
    stream: tuple[str, StreamDef], records: Sequence[bytes], file: SourceFile, first: int
) -> Columns:
    """Return bytes: one sample, or with a dtype a sequence of the numbers they are."""
    name, definition = stream
    if definition.dtype is None or np.dtype(definition.dtype).kind not in "biuf":
        return [column_of_bytes(records)], {}
    shape = definition.sample_shape or ()
    dtype = np.dtype(definition.dtype).newbyteorder("<")
    sample = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    wrong = {}
    rows: list[NDArray[Any]] = [np.empty((0, *shape), dtype)]
    for row, record in enumerate(records):
        if len(record) % sample:
            reason = f"its {len(record)} bytes are no whole number of {sample}"
            wrong[row] = DataError(reason, file.path, stream=name, sequence=first + row)
            record = b""
        rows.append(np.frombuffer(record, dtype).reshape(-1, *shape))
    values = np.concatenate(rows).astype(dtype.newbyteorder("="), copy=False)
    offsets = offsets_of([len(one) for one in rows[1:]])
    return [ColumnData(values, values.dtype, shape, len(values), offsets)], wrong
