"""TFRecord files of examples, plain or compressed, without TensorFlow.

bytes of the data 8 | checksum of that 4 | data | its checksum 4
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Literal

import numpy as np

from sweephand import _core
from sweephand.base.checks import check_choice
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike
from sweephand.deserializers.format import Look
from sweephand.deserializers.units import line_units
from sweephand.deserializers.units.line_units import LinePlace, LineScan, LineUnits, Pieces
from sweephand.deserializers.units.row_table import RowIds
from sweephand.deserializers.units.tf_examples import (
    ExampleConverter,
    decode_examples,
    keys_of_records,
)
from sweephand.deserializers.units.unit_scan import Columns, Facts
from sweephand.errors import DataError
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression, compression_by_head, read_some
from sweephand.files.local import LocalFile
from sweephand.files.source_file import Files, SourceFile

_PACKINGS: tuple[Compression, ...] = ("gzip", "zlib")


HEAD, TAIL = 12, 4  # bytes before and after the data of a record
MOST_RECORD_BYTES = 1 << 30  # a whole record is in memory at a time


class TFRecordDeserializer(LineUnits):
    """Serve the records of TFRecord files, each a sequence.

    A feature of a ``tf.train.Example``, or of a SequenceExample's context, is a sequence of
    samples, one per value, or per `shape` values; a record that lacks the feature has an empty
    sequence. A feature list of a SequenceExample has one sample per step, with the number of
    values of the first step, or of `shape`; no SequenceExample may lack either. The type of a
    feature, integers, floats or bytes, follows from the first record that has values of it. All
    records are decoded once for the index, and again when a chunk of about 8 MiB of them is
    loaded.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all features and feature lists of the first records. ``field`` is the key;
        ``context/KEY`` or ``feature_lists/KEY`` where a SequenceExample has the key in both.
        Values are int64, float32 or ``bytes`` unless ``dtype`` is given.
    compression : {"auto", "gzip", "zlib", None}
        Compression of the files; "auto" detects it by the first bytes of each. Compressed files
        are decompressed from their beginning to the requested chunk, once; later chunks are
        found faster.
    verify_checksums : bool
        Compare the checksum of every record's data, for the index and later.
    index, ids
        As in `ParquetDeserializer`.

    Notes
    -----
    Messages are read by the documented rules of protocol buffers, as TensorFlow's message
    class does and its parsing op does not always: runs of one list are joined, the last of two
    kinds or of two equal keys counts, unknown fields are passed over. A list of floats whose
    bytes are no multiple of 4, a varint beyond 64 bits and groups are damage. A damaged length
    loses all later records of its file, as one item; a truncation is an error, also within the
    first twelve bytes of a record, where TensorFlow ends silently.

    References
    ----------
    https://www.tensorflow.org/tutorials/load_data/tfrecord

    Examples
    --------
    >>> import sweephand as sh, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tfrecord"
    >>> examples = [{"tokens": [1, 2, 3], "label": 0}, {"tokens": [4, 5], "label": 1}]
    >>> sh.tfrecord.write(path, examples)
    2
    >>> corpus = sh.TFRecordDeserializer(path, sh.StreamDefs(
    ...     tokens=sh.StreamDef(dtype="int32", defines_mb_size=True), label=sh.StreamDef()))
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(5)
    >>> minibatch["tokens"].as_sequences(), minibatch["label"].values
    ([array([1, 2, 3], dtype=int32), array([4, 5], dtype=int32)], array([0, 1]))
    """

    format = "tfrecord 1"
    float_bytes = 0
    is_text = False

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
        """Return the first bytes of a file's content."""
        return self.contents.head(file, self._compression_of(file), size)

    def guess_streams(self) -> StreamDefs:
        """Return the features of the first records."""
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
        """Open the content of a file, and say how it is compressed."""
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
        while part := read_some(source, line_units.UNIT_BYTES):
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
        """Return the decoder of records, whose types are known when they are served."""
        # A window of chunks is memory that is made anew: tokens of 8 bytes cost more to write
        # and to read than to decode.
        narrow = bool(self.kinds)
        return ExampleConverter(self.definitions, self.fields, self.kinds, self._verify, narrow)

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Decode the records of units."""
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
