"""TFRecord files of examples, plain or compressed, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.checks import check_int
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.kept_scans import (
    all_follow,
    check_ends,
    check_runs,
    require,
    spread,
)
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.deserializers.units.tf_examples import (
    PADDING,
    ExampleField,
    decode_examples,
    find_kinds,
    keys_of_records,
    messages_in_frames,
    sample_type,
)
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.contents import Contents, read_some, taken_from
from sweephand.files.index_file import Advance, Index
from sweephand.files.index_places import Keep
from sweephand.files.inflate import Compression, find_compression
from sweephand.files.paths import AnyPath, head_of, stat_all
from sweephand.files.source_file import Files, SourceFile

_UNIT_BYTES = 1 << 20
_RECORD_HEAD = 12  # bytes before the first record
_MOST_RECORD_BYTES = 1 << 30  # a whole record is in memory at a time


class TFRecordDeserializer(IndexedDeserializer):
    """Serve the records of TFRecord files, each a sequence.

    A feature of a ``tf.train.Example``, or of a SequenceExample's context, is a sequence of
    samples, one per value, or per `shape` values; a record that lacks the feature has an empty
    sequence. A feature list of a SequenceExample has one sample per step, of as many values as
    the first step has, or as `shape` says; a record of that kind lacks neither. What a feature
    holds, integers, floats or bytes, is told by the first record that has values of it. All
    records are decoded once for the index, and again when a chunk of about 8 MiB of them is
    loaded.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all features and feature lists of the first records. ``field`` is the key;
        ``context/KEY`` or ``feature_lists/KEY`` where a SequenceExample has the key in both.
        Values are int64, float32 or ``bytes`` unless ``dtype`` says another type.
    compression : {"auto", "gzip", "zlib", None}
        How the files are compressed; "auto" tells by the first bytes of each. Compressed files
        are unpacked from their beginning to the chunk that is wanted, once; later chunks are
        found faster.
    verify_checksums : bool
        Whether the checksum of every record's data is compared, at the index and later.
    max_expansion : int
        A compressed file that unpacks to more than so many times its size is refused; the first
        64 MiB are free.
    index : {"auto", "cache", None}
        Where the index is kept: beside the files, or in a cache folder where they cannot be
        written; only there; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field with one integer or text in
        every record, which is read whenever the corpus is opened, or one id for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened, beyond ``max_errors``: if a record is damaged, a file is cut, or a
        feature is not what it is in other records; with file, offset, stream and the number of
        the record.

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
        max_expansion: int = 200,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        if compression not in ("auto", "gzip", "zlib", None):
            raise ValueError(
                f"compression must be 'auto', 'gzip', 'zlib' or None, got {compression!r}"
            )
        check_int("max_expansion", max_expansion, 1, 2**31)
        self._compression = compression
        self._verify = verify_checksums
        self._contents = Contents(max_expansion)
        super().__init__(files, streams, index=index, ids=ids)
        self.options = {
            "compression": compression,
            "verify_checksums": verify_checksums,
            "max_expansion": max_expansion,
        }

    def guess_streams(self) -> StreamDefs:
        """Return the features of the first records."""
        file = self.first_file
        compression = self._compression_of(file)
        head = self._contents.head(file, compression, _RECORD_HEAD)
        _core.formats.FrameFinder(file.path).feed(0, np.frombuffer(head, np.uint8))
        length = int.from_bytes(head[:8], "little")
        size = max(_UNIT_BYTES, min(length + 16, _MOST_RECORD_BYTES))
        head = self._contents.head(file, compression, size)
        keys = keys_of_records(messages_in_frames(head))
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
            for run in self._runs(file, compression, advance):
                self._add_unit(scan, file, run)
                units.append((run.begin, run.end, run.first))
        except StaleError:
            raise
        except DataError as error:
            scan.add_error(error)  # what follows cannot be found
        return scan

    def read_units(
        self, file: SourceFile, facts: Mapping[str, Any], begin: int, end: int
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Decode the records of some units."""
        offset, _, first = facts["units"][begin]
        stop = facts["units"][end - 1][1]
        packing = facts["compression"]
        records = self._contents.fetch(file, packing, (offset, stop), PADDING)
        run = _Run(records, offset, stop, first)
        # A window of chunks is memory that is made anew: tokens of 8 bytes cost more to write
        # and to read than to decode.
        return self._decode(file, dict(self.kinds), run, may_narrow=True)

    def check_facts(self, index: Index) -> None:
        """Refuse units that are not runs of records which fill what is good of the files."""
        for facts in index.facts:
            packing = facts["format"]["compression"]
            require(packing in ("gzip", "zlib", None), "the compression")
            require(self._compression in ("auto", packing), "the compression")
        units, starts = check_runs([facts["format"]["units"] for facts in index.facts], 3)
        require(np.array_equal(starts, index.starts["rows"]), "units")
        begins, ends, firsts = units.T
        rows = offsets_of(index.arrays["rows"])
        is_all = (
            np.array_equal(firsts, rows[:-1] - spread(rows[starts[:-1]], starts))
            and all_follow(begins[1:] == ends[:-1], starts)
            and bool((ends > begins).all())
        )
        filled, first_begins, last_ends = check_ends(begins, ends, starts)
        require(is_all and not first_begins.any(), "units")
        file_ends = np.zeros(len(index.files), np.int64)
        file_ends[filled] = last_ends
        for file, facts, end in zip(index.files, index.facts, file_ends.tolist(), strict=True):
            if facts["format"]["compression"] is None and end != file.size:
                is_cut = bool(facts["errors"])
                require(is_cut and end < file.size, "the end of the units")

    def _compression_of(self, file: SourceFile) -> Compression | None:
        if self._compression != "auto":
            return self._compression
        try:
            head = file.read(0, min(file.size, 12))
            _core.formats.FrameFinder(file.path).feed(0, head)
        except StaleError:
            raise
        except DataError:
            return _packing_of(file)
        return None if head.size == _RECORD_HEAD else _packing_of(file)

    def _runs(
        self, file: SourceFile, compression: Compression | None, advance: Advance
    ) -> Iterator[_Run]:
        """Yield runs of whole records, until something is wrong with a frame."""
        finder = _core.formats.FrameFinder(file.path)
        pieces: list[bytes] = []  # from `begin` on
        begin = num_records = at = told = 0
        content = self._contents.open(file, compression)
        while piece := read_some(content, _UNIT_BYTES):
            fault = _feed(finder, at, piece)
            at += len(piece)
            pieces.append(piece)
            num_whole = finder.num_whole(at)
            if num_whole > num_records:
                joined = b"".join(pieces)
                end = finder.offset_of(num_whole)
                yield _Run(_pad(joined[: end - begin]), begin, end, num_records)
                pieces, begin, num_records = [joined[end - begin :]], end, num_whole
            if fault is not None:
                raise fault
            if finder.num_records:
                _check_length(finder, file, None if compression else file.size)
            advance(taken_from(content) - told)
            told = taken_from(content)
        finder.finish(at)

    def _add_unit(self, scan: UnitScan, file: SourceFile, run: _Run) -> None:
        if lacking := {
            name: one for name, one in self.definitions.items() if name not in scan.kinds
        }:
            scan.kinds |= find_kinds(
                lacking, self.fields, run.records, verify_checksums=self._verify
            )
        columns, wrong = self._decode(file, scan.kinds, run)
        for name, column in zip(self.definitions, columns, strict=True):
            scan.lengths.setdefault(name, []).append(column.lengths)
        for row, error in wrong.items():
            scan.add_error(error)
            scan.damaged_rows.append(run.first + row)
        scan.rows.append(columns[0].num_sequences)
        scan.num_bytes.append(sum(column.num_bytes for column in columns))

    def _decode(
        self,
        file: SourceFile,
        kinds: Mapping[str, SampleType],
        run: _Run,
        *,
        may_narrow: bool = False,
    ) -> tuple[list[ColumnData], dict[int, DataError]]:
        fields = []
        for name, one in self.definitions.items():
            kind = kinds.get(name) or sample_type(one, "int64")  # without a value so far
            fields.append(ExampleField(name, self.fields[name], kind.dtype, kind.shape))
        return decode_examples(
            fields,
            run.records,
            file=file.path,
            offset=run.begin,
            first=run.first,
            verify_checksums=self._verify,
            may_narrow=may_narrow,
        )


class _Run(NamedTuple):
    """Whole records: their bytes and padding, where they lie, and the number of the first."""

    records: NDArray[np.uint8]
    begin: int
    end: int
    first: int


def _pad(records: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(records + bytes(PADDING), np.uint8)


def _feed(finder: _core.formats.FrameFinder, offset: int, piece: bytes) -> DataError | None:
    """Look at the next bytes; return what is wrong with the head of a record."""
    try:
        finder.feed(offset, np.frombuffer(piece, np.uint8))
    except DataError as error:
        return error
    return None


def _check_length(
    finder: _core.formats.FrameFinder, file: SourceFile, size: int | None
) -> None:
    """Refuse a record that is too long before its bytes are read."""
    number = finder.num_records - 1
    begin, end = finder.offset_of(number), finder.offset_of(number + 1)
    if size is not None and end > size:
        finder.finish(size)  # says so
    if end - begin > _MOST_RECORD_BYTES:
        raise DataError(
            f"the record has {end - begin - 16} bytes; at most {_MOST_RECORD_BYTES} are read "
            "at once",
            file.path,
            begin,
            sequence=number,
        )


def _is_tfrecord(path: AnyPath) -> bool:
    """Return whether a file, unpacked if need be, begins with the head of a record."""
    try:
        head = _first_bytes(path, _RECORD_HEAD)
        _core.formats.FrameFinder(str(path)).feed(0, np.frombuffer(head, np.uint8))
    except DataError:
        return False
    return len(head) == _RECORD_HEAD


def _first_bytes(path: AnyPath, size: int) -> bytes:
    if not path.is_file():
        return b""
    (file,) = stat_all([path])
    head = head_of(path, size)
    packing = _packing_of(file)
    if packing is None or _is_record_head(head[:_RECORD_HEAD]):
        return head
    return Contents().head(file, packing, size)


def _packing_of(file: SourceFile) -> Compression | None:
    found = find_compression(file)
    return None if found == "zstd" else found


def _is_record_head(head: bytes) -> bool:
    checksum = int.from_bytes(head[8:12], "little")
    return (
        len(head) == _RECORD_HEAD
        and _core.formats.mask_crc(_core.formats.crc32c(head[:8])) == checksum
    )


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    return wanted.open_files(TFRecordDeserializer, files)


FORMAT = Format("TFRecord", _is_tfrecord, _open)
