"""ArrayRecord files: records by their numbers, of any bytes.

The container is Google's, in front of Riegeli (https://github.com/google/array_record,
https://github.com/google/riegeli): groups of records with a hash each, and a table after them.
"""

from __future__ import annotations

from typing import Literal

from sweephand import DataError, StreamDefs
from sweephand.ext.formats.array_record_reader import ArrayRecords, array_record
from sweephand.extend import (
    Advance,
    Columns,
    Facts,
    Files,
    Index,
    IndexedDeserializer,
    Keep,
    RowIds,
    SourceFile,
    StreamsLike,
    UnitScan,
    check_row_runs,
    guess_payload,
    guess_streams,
    make_payload,
)

_UNIT_BYTES = 1 << 20
_LOOKED_AT = 100  # records, to know their streams
_PAYLOADS = ("auto", "example", "json", "bytes")


class ArrayRecordDeserializer(IndexedDeserializer):
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
        `TFRecordDeserializer`, fields as in `JSONLDeserializer`; bytes are the stream "record".
        Bytes may have another name; with a ``dtype`` they are a sequence of numbers in little
        endian, with a ``shape`` of samples of that shape.
    payload : {"auto", "example", "json", "bytes"}
        The content of a record: a ``tf.train.Example`` or SequenceExample, an object of JSON,
        or opaque bytes (for a map: `corpus.map`). "auto" decides by the first record.
    index : {"auto", "cache", None}
        Place of the index: beside the files, or in a cache folder if that is not writable; only
        in the cache folder; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every record, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    ImportError
        If the package is not installed.
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

    float_bytes = 8  # in JSON

    format = "arrayrecord 1"
    decoder = array_record

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        *,
        payload: Literal["auto", "example", "json", "bytes"] = "auto",
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
        streams, self.left_out = guess_streams(self._payload, records, self.first_file.path)
        return streams

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read every record once."""
        scan = UnitScan()
        units: list[tuple[int, int]] = []  # records
        scan.facts = {"units": units}
        try:
            stored = ArrayRecords(file)
            num_records, group = len(stored), stored.per_group
        except DataError as error:  # its content cannot be found
            scan.add_error(error)
            return scan
        payload = make_payload(self._payload, self.definitions, self.fields, {})
        mean = _UNIT_BYTES  # bytes of a record; the first tell
        begin = 0
        while begin < num_records:
            count = max(1, _UNIT_BYTES // mean // group) * group
            try:
                records = stored.read(range(begin, min(begin + count, num_records)))
                mean = max(1, sum(map(len, records)) // len(records))
            except DataError as error:
                if count > group:  # only records in damaged bytes are lost
                    mean = _UNIT_BYTES
                    continue
                count = min(count, num_records - begin)
                where = f"records {begin} to {begin + count - 1}: " if count > 1 else ""
                lost = DataError(where + error.reason, file.path, sequence=begin)
                scan.add_error(lost, range(begin, begin + count))
                records = [b""] * count
                columns, _ = payload.convert(records, file, begin)
            else:
                columns, wrong = payload.convert(records, file, begin)
                scan.add_faults(wrong, begin)
            scan.add_unit(dict(zip(self.definitions, columns, strict=True)))
            units.append((begin, begin + len(records)))
            begin += len(records)
            advance(file.size * len(records) // num_records)
        scan.kinds = payload.kinds()
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read the records of units."""
        file.check_unchanged()  # the package opens it by its name
        first, stop = facts["units"][begin][0], facts["units"][end - 1][1]
        payload = make_payload(self._payload, self.definitions, self.fields, self.kinds)
        return payload.convert(ArrayRecords(file).read(range(first, stop)), file, first)

    def check_facts(self, index: Index) -> None:
        """Refuse units that are not consecutive runs of records."""
        check_row_runs(index)

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
