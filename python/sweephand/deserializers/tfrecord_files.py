"""TFRecord files of examples, plain or compressed, without TensorFlow.

bytes of the data 8 | checksum of that 4 | data | its checksum 4
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_choice
from sweephand.corpus.columns import spread
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.open_path import Look
from sweephand.deserializers.units import line_units
from sweephand.deserializers.units.line_units import LinePlace, LineScan, LineUnits, Pieces
from sweephand.deserializers.units.unit_scan import Columns, Facts, RowIds, SampleType
from sweephand.errors import DataError
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression, compression_by_head
from sweephand.files.local import LocalFile
from sweephand.files.source_file import Files, SourceFile

_PACKINGS: tuple[Compression, ...] = ("gzip", "zlib")


HEAD, TAIL = 12, 4  # bytes before and after the data of a record
MOST_RECORD_BYTES = 1 << 30  # a whole record is in memory at a time


PADDING = _core.formats.EXAMPLE_PADDING
"""Bytes after records that the decoder may read."""

KINDS = {
    _core.formats.FeatureKind.int64: "int64",
    _core.formats.FeatureKind.float: "float32",
    _core.formats.FeatureKind.bytes: "bytes",
}
_KIND_OF = {name: kind for kind, name in KINDS.items()}
_MOST_ITEMS = 2**62
_MOST_LOOKED_AT = 1000  # records, to know their features


class TFRecordDeserializer(LineUnits):
    """Serve the records of TFRecord files, each a sequence.

    A feature of a ``tf.train.Example``, or of a SequenceExample's context, is a sequence of
    samples, one per value, or per `shape` values, and empty where a record lacks it. A feature
    list has one sample per step, with the number of values of the first step, or of `shape`; no
    SequenceExample may lack either. The type follows from the first record that has values.

    Parameters
    ----------
    files, index, ids
        As in `ParquetDeserializer`.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all features and feature lists of the first records. ``field`` is the key;
        ``context/KEY`` or ``feature_lists/KEY`` where a SequenceExample has the key in both.
        Values are int64, float32 or ``bytes`` unless ``dtype`` is given.
    compression : {"auto", "gzip", "zlib", None}
        Compression of the files; "auto" detects it by the first bytes of each.
    verify_checksums : bool
        Compare the checksum of every record's data, for the index and later.

    Notes
    -----
    Messages are read by the documented rules of protocol buffers, as TensorFlow's message
    class does and its parsing op does not always. A damaged length loses all later records of
    its file, as one item; a truncation is an error, also where TensorFlow ends silently.

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tfrecord"
    >>> sh.tfrecord.write(path, [{"tokens": [1, 2, 3]}, {"tokens": [4, 5]}])
    2
    >>> corpus = sh.TFRecordDeserializer(path, {"tokens": sh.StreamDef(dtype="int32")})
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(5)["tokens"].as_sequences()
    [array([1, 2, 3], dtype=int32), array([4, 5], dtype=int32)]
    """

    format = "tfrecord 2"
    float_bytes = 0
    is_text = in_parts = False

    def __init__(
        self,
        files: Files,
        streams: StreamsLike | None = None,
        compression: Literal["auto", "gzip", "zlib"] | None = "auto",
        verify_checksums: bool = True,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        check_choice("compression", compression, "auto", *_PACKINGS, None)
        self._compression = compression
        self._verify = verify_checksums
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {"compression": compression, "verify_checksums": verify_checksums}

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if there is no byte in a file, unpacked."""
        return bool(self.head_of(file, 1))

    def head_of(self, file: SourceFile, size: int = HEAD) -> bytes:
        return self.contents.head(file, self._compression_of(file), size)

    def guess_streams(self) -> StreamDefs:
        path = self.first_file.path
        head = self.head(HEAD)
        _core.formats.FrameFinder(path).feed(0, np.frombuffer(head, np.uint8))
        length = int.from_bytes(head[:8], "little")
        _check_length(length, path, 0, 0)
        head = self.head(max(line_units.UNIT_BYTES, HEAD + length + TAIL))
        keys = keys_of_records(messages_in(head))
        if not keys:
            raise DataError("the first records are no tf.train.Example with features", path)
        return StreamDefs({key: StreamDef() for key in keys})

    def opened(self, file: SourceFile) -> tuple[io.BufferedReader, Compression | None]:
        compression = self._compression_of(file)
        return self.contents.open(file, compression), compression

    def pieces(
        self,
        source: io.BufferedReader,
        file: SourceFile,
        compression: Compression | None,
        scan: LineScan,
    ) -> Pieces:
        """Yield whole records, until something is wrong with a frame."""
        finder = _core.formats.FrameFinder(file.path)
        parts: list[bytes] = []  # from `begin` on
        begin = num_records = at = 0
        while part := source.read1(line_units.UNIT_BYTES):  # all that comes before an error
            fault: DataError | None = None  # of a record's head, after whole records
            try:
                finder.feed(at, np.frombuffer(part, np.uint8))
            except DataError as error:
                fault = error
            at += len(part)
            parts.append(part)
            num_whole = finder.num_whole(at)
            if num_whole > num_records:
                joined = b"".join(parts)
                end = finder.offset_of(num_whole)
                yield joined[: end - begin], True
                parts, begin, num_records = [joined[end - begin :]], end, num_whole
            if fault is not None:
                raise fault
            if number := finder.num_records:  # the last is refused before its bytes are read
                last, stop = finder.offset_of(number - 1), finder.offset_of(number)
                if compression is None and stop > file.size:
                    finder.finish(file.size)  # raises
                _check_length(stop - last - HEAD - TAIL, file.path, last, number - 1)
        finder.finish(at)

    def converter(self) -> ExampleConverter:
        # A window of chunks is memory that is made anew: tokens of 8 bytes cost more to write
        # and to read than to decode.
        narrow = bool(self.kinds)
        return ExampleConverter(self.definitions, self.fields, self.kinds, self._verify, narrow)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        if facts.get("compression") or not isinstance(file, LocalFile):
            return super().read_units(file, facts, begin, end)
        place = LinePlace(*facts["units"][begin])
        return decode_examples(
            self.converter().fields,
            file.opened(),
            file=file.path,
            offset=place.begin,
            end=facts["units"][end - 1][1],
            first=place.row,
            verify_checksums=self._verify,
            may_narrow=True,
        )

    def _compression_of(self, file: SourceFile) -> Compression | None:
        if self._compression != "auto":
            return self._compression
        head = file.head(HEAD)
        found = None if is_record_head(head) else compression_by_head(head)
        return found if found in _PACKINGS else None


def is_tfrecord(look: Look) -> bool:
    """Return True if a file, decompressed if necessary, begins with the header of a record."""
    if is_record_head(look.head[:HEAD]):
        return True
    try:
        return is_record_head(look.content(HEAD, _PACKINGS))
    except DataError:
        return False


def is_record_head(head: bytes) -> bool:
    """Return True if bytes are the header of a record."""
    checksum = int.from_bytes(head[8:], "little")
    own = _core.formats.mask_crc(_core.formats.crc32c(head[:8]))
    return len(head) == HEAD and own == checksum


def messages_in(content: bytes) -> Iterator[bytes]:
    """Yield the data of the whole records at the start of a buffer."""
    at = 0
    while at + HEAD <= len(content):
        begin = at + HEAD
        end = begin + int.from_bytes(content[at : at + 8], "little")
        if end > len(content):
            return
        yield content[begin:end]
        at = end + TAIL


def _check_length(length: int, path: str, begin: int, number: int) -> None:
    if length > MOST_RECORD_BYTES:
        raise DataError(
            f"the record has {length} bytes; at most {MOST_RECORD_BYTES} are read at once",
            path,
            begin,
            sequence=number,
        )


ExampleFields = Mapping[str, tuple[str, SampleType]]
"""By stream the key, with ``context/`` or ``feature_lists/`` before it, and the type."""


def decode_examples(
    fields: ExampleFields,
    records: NDArray[np.uint8] | _core.read.File,
    *,
    file: str,
    offset: int = 0,
    end: int = 0,
    first: int = 0,
    verify_checksums: bool = True,
    may_narrow: bool = False,
    offsets: NDArray[np.int64] | None = None,
) -> Columns:
    """Decode consecutive records, of which `first` is the number of the first.

    They are whole, with `PADDING` more bytes of any value, or those of a file from `offset` to
    `end`. Bare records, without frames, begin at `offsets`. Integers that may be narrow come in
    the narrowest type that holds all of them; the dtype of the column is int64 nevertheless.
    """
    ledger = _core.formats.Ledger(_MOST_ITEMS)
    streams = [
        _core.formats.ExampleStream(
            key=key,
            kind=_KIND_OF[kind.dtype],
            sample_elements=math.prod(kind.shape),
            is_sequence=kind.is_ragged,
            is_required=not kind.is_ragged,
            may_narrow=may_narrow,
        )
        for key, kind in fields.values()
    ]
    if isinstance(records, _core.read.File):
        found = _core.formats.decode_file_records(
            streams, records, offset, end - offset, first, verify_checksums, ledger
        )
    else:
        found = _core.formats.decode_records(
            streams, records, file, offset, first, verify_checksums, ledger, offsets
        )
    names = {key: name for name, (key, _) in fields.items()}
    wrong = {}
    for item in ledger.items:
        number = int(item.sequence or 0)
        stream = None if item.stream is None else names[item.stream]
        wrong[number - first] = DataError(
            item.reason, file, item.offset, stream=stream, sequence=number
        )
    num_records = len(found[0][1]) - 1
    good = np.setdiff1d(np.arange(num_records), list(wrong)) if wrong else None
    columns = []
    for (_, kind), (values, ends, element_ends, _) in zip(fields.values(), found, strict=True):
        column = replace(
            kind.to_column(),
            values=values.view(np.uint8) if kind.are_bytes else values.reshape(-1, *kind.shape),
            num_samples=int(ends[-1]),
            sample_offsets=ends if kind.is_ragged else None,
            element_offsets=element_ends,
        )
        if good is not None and not kind.is_ragged:
            column = spread(column, good, num_records)
        columns.append(column)
    return columns, wrong


@dataclass
class ExampleConverter:
    """Makes columns of records of a file, and learns their types from one to the next."""

    definitions: Mapping[str, StreamDef]
    keys: Mapping[str, str]  # of the streams
    known: Mapping[str, SampleType]
    verify_checksums: bool = True
    may_narrow: bool = False
    padding: int = PADDING

    def kinds(self) -> dict[str, SampleType]:
        return dict(self.known)

    @property
    def fields(self) -> ExampleFields:
        """The columns of streams; those without any value are of integers."""
        return {
            name: (self.keys[name], self.known.get(name) or _sample_type(one, "int64"))
            for name, one in self.definitions.items()
        }

    def convert(
        self,
        records: NDArray[np.uint8],
        file: SourceFile,
        place: LinePlace,
        offsets: NDArray[np.int64] | None = None,
    ) -> Columns:
        is_known = self.known.keys() >= self.definitions.keys()
        if not is_known:
            lacking = [name for name in self.definitions if name not in self.known]
            keys = [self.keys[name] for name in lacking]
            found = _core.formats.find_kinds(keys, records, self.verify_checksums, offsets)
            self.known = {
                **self.known,
                **{
                    name: _sample_type(self.definitions[name], KINDS[one.kind], one.step_values)
                    for name, one in zip(lacking, found, strict=True)
                    if one.kind in KINDS
                },
            }
        return decode_examples(
            self.fields,
            records,
            file=file.path,
            offset=place.begin,
            first=place.row,
            verify_checksums=self.verify_checksums,
            may_narrow=self.may_narrow,
            offsets=offsets,
        )


def _sample_type(stream: StreamDef, dtype: str, step_values: int = 0) -> SampleType:
    """Return a stream's sample type; a step of a list may have several values."""
    shape = stream.sample_shape
    if shape is None:
        shape = (step_values,) if step_values > 1 else ()
    return SampleType(dtype, () if dtype == "bytes" else shape, is_ragged=True)


def keys_of_records(records: Iterable[bytes]) -> list[str]:
    """Return the names of features and feature lists; ``context/NAME`` where both have it."""
    context: set[str] = set()
    lists: set[str] = set()
    for record in islice(records, _MOST_LOOKED_AT):
        with suppress(ValueError, LookupError):  # reported when all are read
            message = _fields(record)
            found = _keys(message.get(1, [])), _keys(message.get(2, []))
            context.update(found[0])
            lists.update(found[1])
    both = context & lists
    placed = [f"{part}/{key}" for key in both for part in ("context", "feature_lists")]
    return sorted([*(context ^ lists), *placed])


def _keys(parts: list[bytes]) -> list[str]:
    """Return the keys of a map of features or lists, without their values."""
    entries = [entry for part in parts for entry in _fields(part).get(1, [])]
    return [_fields(entry)[1][-1].decode() for entry in entries]


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the fields of bytes of a message, by their numbers."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, at = _varint(message, at)
        found.setdefault(tag >> 3, []).append(message[at : at + length])
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
        shift += 7
