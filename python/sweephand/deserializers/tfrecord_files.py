"""TFRecord files of examples, plain or compressed, without TensorFlow.

bytes of the data 8 | checksum of that 4 | data | its checksum 4
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.format import Look
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.row_table import RowIds
from sweephand.deserializers.units.tf_examples import (
    PADDING,
    decode_examples,
    decode_file_examples,
    example_fields,
    find_kinds,
    keys_of_records,
)
from sweephand.deserializers.units.unit_scan import Columns, Facts, SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.contents import FileContents, read_some, taken_from
from sweephand.files.index_file import Advance
from sweephand.files.index_places import Keep
from sweephand.files.inflate import Compression, compression_by_head
from sweephand.files.local import LocalFile
from sweephand.files.source_file import Files, SourceFile

_PACKINGS: tuple[Compression, ...] = ("gzip", "zlib")


UNIT_BYTES = 1 << 20
HEAD, TAIL = 12, 4  # bytes before and after the data of a record
MOST_RECORD_BYTES = 1 << 30  # a whole record is in memory at a time


class TFRecordDeserializer(IndexedDeserializer):
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

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened, beyond ``max_errors``: if a record is damaged, a file is cut, or a
        feature has another type than in other records; with file, offset, stream and the
        number of the record.

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
        if compression not in ("auto", "gzip", "zlib", None):
            raise ValueError(
                f"compression must be 'auto', 'gzip', 'zlib' or None, got {compression!r}"
            )
        self._compression = compression
        self._verify = verify_checksums
        self._contents = FileContents()
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {
            "compression": compression,
            "verify_checksums": verify_checksums,
        }

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if there is no byte in a file, unpacked."""
        return bool(self._contents.head(file, self._compression_of(file), 1))

    def guess_streams(self) -> StreamDefs:
        """Return the features of the first records."""
        file = self.first_file
        compression = self._compression_of(file)
        head = self._contents.head(file, compression, HEAD)
        _core.formats.FrameFinder(file.path).feed(0, np.frombuffer(head, np.uint8))
        length = int.from_bytes(head[:8], "little")
        if length > MOST_RECORD_BYTES:
            raise DataError(
                f"the record has {length} bytes; at most {MOST_RECORD_BYTES} are read",
                file.path,
                0,
            )
        size = max(UNIT_BYTES, HEAD + length + TAIL)
        head = self._contents.head(file, compression, size)
        keys = keys_of_records(messages_in(head))
        if not keys:
            raise DataError(
                "the first records are no tf.train.Example with features", file.path
            )
        return StreamDefs({key: StreamDef() for key in keys})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Decode every record once."""
        scan = UnitScan()
        compression = self._compression_of(file)
        units: list[tuple[int, int, int]] = []  # begin, end, first record
        scan.facts = {"compression": compression, "units": units}
        try:
            size = None if compression else file.size
            with self._contents.open(file, compression) as content:
                for run in find_runs(content, file, size, advance):
                    scan.kinds = find_kinds(
                        self.definitions,
                        self.fields,
                        run.records,
                        scan.kinds,
                        verify_checksums=self._verify,
                    )
                    columns, wrong = self._decode(file, scan.kinds, run)
                    scan.add_faults(wrong, run.first)
                    scan.add_unit(dict(zip(self.definitions, columns, strict=True)))
                    units.append((run.begin, run.end, run.first))
        except StaleError:
            raise
        except DataError as error:
            scan.add_error(error)  # the rest cannot be found
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Decode the records of units."""
        offset, _, first = facts["units"][begin]
        stop = facts["units"][end - 1][1]
        packing = facts["compression"]
        # A window of chunks is memory that is made anew: tokens of 8 bytes cost more to write
        # and to read than to decode.
        if packing is None and isinstance(file, LocalFile):
            return decode_file_examples(
                example_fields(self.definitions, self.fields, self.kinds),
                file,
                (offset, stop),
                first=first,
                verify_checksums=self._verify,
                may_narrow=True,
            )
        records = self._contents.fetch(file, packing, (offset, stop), PADDING)
        run = Run(records, offset, stop, first)
        return self._decode(file, dict(self.kinds), run, may_narrow=True)

    def _compression_of(self, file: SourceFile) -> Compression | None:
        if self._compression != "auto":
            return self._compression
        head = file.head(HEAD)
        found = None if is_record_head(head) else compression_by_head(head)
        return found if found in _PACKINGS else None

    def _decode(
        self,
        file: SourceFile,
        kinds: Mapping[str, SampleType],
        run: Run,
        *,
        may_narrow: bool = False,
    ) -> Columns:
        return decode_examples(
            example_fields(self.definitions, self.fields, kinds),
            run.records,
            file=file.path,
            offset=run.begin,
            first=run.first,
            verify_checksums=self._verify,
            may_narrow=may_narrow,
        )


def is_tfrecord(look: Look) -> bool:
    """Return True if a file, decompressed if necessary, begins with the header of a record."""
    if is_record_head(look.head[:HEAD]):
        return True
    try:
        return is_record_head(look.content(HEAD, _PACKINGS))
    except DataError:
        return False


class Run(NamedTuple):
    """Whole records: their bytes and padding, their places, and the number of the first."""

    records: NDArray[np.uint8]
    begin: int
    end: int
    first: int


def find_runs(
    content: io.BufferedReader, file: SourceFile, size: int | None, advance: Advance
) -> Iterator[Run]:
    """Yield runs of whole records of a file, until something is wrong with a frame."""
    finder = _core.formats.FrameFinder(file.path)
    pieces: list[bytes] = []  # from `begin` on
    begin = num_records = at = reported = 0
    while piece := read_some(content, UNIT_BYTES):
        fault: DataError | None = None  # of a record's head, after whole records
        try:
            finder.feed(at, np.frombuffer(piece, np.uint8))
        except DataError as error:
            fault = error
        at += len(piece)
        pieces.append(piece)
        num_whole = finder.num_whole(at)
        if num_whole > num_records:
            joined = b"".join(pieces)
            end = finder.offset_of(num_whole)
            padded = np.frombuffer(joined[: end - begin] + bytes(PADDING), np.uint8)
            yield Run(padded, begin, end, num_records)
            pieces, begin, num_records = [joined[end - begin :]], end, num_whole
        if fault is not None:
            raise fault
        if finder.num_records:
            _check_length(finder, file, size)
        advance(taken_from(content) - reported)
        reported = taken_from(content)
    finder.finish(at)


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


def _check_length(
    finder: _core.formats.FrameFinder, file: SourceFile, size: int | None
) -> None:
    """Refuse a record that is too long before its bytes are read."""
    number = finder.num_records - 1
    begin, end = finder.offset_of(number), finder.offset_of(number + 1)
    if size is not None and end > size:
        finder.finish(size)  # raises
    if end - begin > MOST_RECORD_BYTES:
        raise DataError(
            f"the record has {end - begin - HEAD - TAIL} bytes; at most {MOST_RECORD_BYTES} "
            "are read at once",
            file.path,
            begin,
            sequence=number,
        )
