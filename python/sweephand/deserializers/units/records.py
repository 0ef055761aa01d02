"""Records of bare values in files, read at the places that a scan finds.

Local files are read in place, row by row, a store by few requests for every chunk. Small
values that had to be parsed for the index are kept in it: they cost no reading.

::

    file    | ... | values of a row | ... | values of a row | ...
    index     begins, sizes: of every row, of each stream that is placed
              values: of all rows, of each stream that is held
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus import chunks
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    offsets_of,
    read_offsets,
    runs,
    take,
)
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, size_columns
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo, sizing_streams
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.unit_scan import (
    RowTable,
    SampleType,
    UnitScan,
    cut_units,
    guarded,
)
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance, Index
from sweephand.files.inflate import ContentFile
from sweephand.files.local import LocalFile, access_to, join_pieces
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile, room_for

_UNIT_BYTES = 1 << 17
_MOST_GAP = 1 << 16  # bytes that are fetched in vain rather than to ask twice

Pieces = NDArray[np.int64]
"""Values of rows: file number, byte where they begin, and size in bytes; shape (rows, 3)."""


ArrayHead = tuple[int, np.dtype[Any], tuple[int, ...]]
"""Bytes of the head of an array, and the dtype and shape that it says."""

_NO_LIMIT = 2**62
_MOST_UNSEEN = 1 << 20  # records of a damaged file that are believed to have been there
_ABSENT = 0, -1

Places = Mapping[str, tuple[int, int]]
"""The begin in the file, and the size, of the values of each field of a record, in bytes."""

Gather = Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.uint8]]


@dataclass
class FoundRecords:
    """The records of a file, or of what it unpacks to."""

    # begin and size in bytes of the values of each stream; a size of -1 where there are none
    places: dict[str, NDArray[np.int64]]
    faults: dict[int, DataError] = field(default_factory=dict)  # of records that are lost
    # types that the file alone says: of streams whose fields have None for theirs
    samples: dict[str, SampleType] = field(default_factory=dict)
    rest: DataError | None = None  # the reason why nobody knows how many records follow
    held: dict[str, ColumnData] = field(default_factory=dict)  # values that the index keeps
    num_bytes: NDArray[np.integer] | None = None  # of records with what lies between them
    facts: dict[str, Any] = field(default_factory=dict)  # what it takes to read them, as JSON
    content_bytes: int | None = None  # of what the file unpacks to, if it is packed


class RecordDeserializer(IndexedDeserializer):
    """Serve records that `find_records` finds in files, each a sequence.

    Attributes
    ----------
    samples : dict of (SampleType, or None)
        The fields of records, and the type of their samples: numbers of this machine's byte
        order, or bytes, of which a record has one sample, or, where a stream declares a
        ``dtype``, the numbers in them. None: `find_all` says it of each file.
    """

    samples: Mapping[str, SampleType | None] = MappingProxyType({})

    def check_field(self, field: str, stream: str) -> None:
        """Refuse a field that no file has, or that cannot be served."""
        if not self.samples or field in self.samples:  # any, if each file says what it has
            return
        reason = f"there is no field {field!r}, there are: {', '.join(self.samples)}"
        if field in self.left_out:
            reason = f"the field {field!r} cannot be served: {self.left_out[field]}"
        raise DataError(reason, self.files[0].path, stream=stream)

    def find_records(self, content: BinaryIO) -> Iterator[Places | DataError]:
        """Find the records of a file, which is read once from beginning to end.

        Yields the begin and size of the values of each field, without those that a record
        lacks; or an error in place of a record that is lost, which keeps its number. DataError,
        EOFError or struct.error is raised if the rest of the file cannot be read.
        """
        raise NotImplementedError

    def find_all(self, file: SourceFile) -> FoundRecords:
        """Find the records of a file, by `find_records`, or by a table that the file has."""
        records: list[Places] = []
        faults: dict[int, DataError] = {}
        rest: DataError | None = None
        try:
            with open_to_scan(file) as content, guarded(file.path):
                for one in self.find_records(content):
                    if isinstance(one, DataError):
                        faults[len(records)] = one
                        one = {}
                    records.append(one)
        except StaleError:
            raise
        except DataError as error:
            rest = error.within(file=file.path, sequence=len(records))
        places = {
            name: np.array([one.get(at, _ABSENT) for one in records], np.int64).reshape(-1, 2)
            for name, at in self.fields.items()
        }
        return FoundRecords(places, faults, rest=rest)

    def count_records(self, file: SourceFile) -> int | None:
        """Return the records of a file, if something beside it says how many they are."""
        return None

    def contents(self, index: Index) -> Sequence[SourceFile]:
        """Return the files that places refer to: the content of those that are compressed."""
        return index.files

    def guess_streams(self) -> StreamDefs:
        if not self.samples:
            raise DataError("there is no field that can be served", self.files[0].path)
        return StreamDefs({name: StreamDef() for name in self.samples})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        scan = UnitScan()
        try:
            found = self.find_all(file)
        except StaleError:
            raise
        except DataError as error:
            count = self.count_records(file)
            if count is None:
                raise
            is_known = count <= max(_MOST_UNSEEN, file.size)
            rows = range(count if is_known else 0)
            scan.add_error(error.within(file=file.path), rows if is_known else None)
            lost = np.tile(np.array([_ABSENT], np.int64), (len(rows), 1))
            found = FoundRecords(dict.fromkeys(self.fields, lost))
        scan.facts = found.facts
        faults = {
            row: error.within(file=file.path, sequence=row)
            for row, error in found.faults.items()
        }
        for name in self.fields:
            if name not in found.held:
                self._add_placed(scan, name, found, faults, file)
                continue
            held, kind = found.held[name], found.samples.get(name)
            scan.kinds |= {} if kind is None else {name: kind}
            scan.lengths[name] = [held.lengths]
            values, begins = np.ascontiguousarray(held.values), held.element_offsets
            scan.arrays[f"values of {name}"] = values.reshape(-1).view(np.uint8)
            sizes = np.empty(0, np.int64) if begins is None else np.diff(begins)
            scan.arrays[f"bytes of {name}"] = sizes
        scan.add_faults(faults)
        if found.rest is not None:
            scan.add_error(found.rest)
        num_bytes = found.num_bytes
        if num_bytes is None:
            of_each = [scan.arrays[f"sizes of {name}"] for name in found.places]
            num_bytes = np.sum(of_each, axis=0)
        is_whole = isinstance(file, ContentFile)  # it is unpacked as a whole
        least = _NO_LIMIT if is_whole else min(_UNIT_BYTES, chunks.CHUNK_BYTES)
        units = cut_units(num_bytes, least)
        scan.rows += np.diff(units).tolist()
        scan.num_bytes += np.diff(offsets_of(num_bytes)[units]).tolist()
        advance(file.size)
        return scan

    def _add_placed(
        self,
        scan: UnitScan,
        name: str,
        found: FoundRecords,
        faults: dict[int, DataError],
        file: SourceFile,
    ) -> None:
        """Add samples, place and bytes of every row of a stream."""
        kind = self._kind_of(name) or found.samples.get(name)
        end = file.size if found.content_bytes is None else found.content_bytes
        begins, sizes = found.places[name].T.copy()
        lengths = np.where(sizes < 0, 0, 1)
        begins[sizes < 0] = sizes[sizes < 0] = 0
        width = 1 if kind is None or kind.are_bytes else kind.sample_bytes
        is_there = (begins >= 0) & (begins <= end - sizes)
        for row in np.flatnonzero(~is_there | (sizes % width != 0)).tolist():
            reason = f"its {sizes[row]} bytes are " + (
                f"no whole number of {width}" if is_there[row] else "not in the file"
            )
            at = int(max(begins[row], 0))
            faults.setdefault(row, DataError(reason, file.path, at, None, name, row))
        blank = list(faults)
        begins[blank] = sizes[blank] = lengths[blank] = 0
        if kind is not None:
            scan.kinds[name] = kind
            if not kind.are_bytes:
                lengths = sizes // width
        scan.lengths[name] = [lengths]
        scan.arrays[f"begins of {name}"] = begins
        scan.arrays[f"sizes of {name}"] = sizes

    def _kind_of(self, stream: str) -> SampleType | None:
        """Return the type of a stream's samples; None if each file says it."""
        kind, wanted = self.samples.get(self.fields[stream]), self.definitions[stream]
        if kind is None:
            return None
        dtype = None if wanted.dtype is None else np.dtype(wanted.dtype)
        if kind.are_bytes and dtype is not None and dtype.kind in "iuf":
            kind = SampleType(dtype.name, wanted.sample_shape or ())
        return replace(kind, is_ragged=True)

    def make_reader(
        self, rows: RowTable, infos: Sequence[StreamInfo], ledger: Ledger
    ) -> StoredReader:
        arrays, columns, contents = rows.index.arrays, [], self.contents(rows.index)
        for name, kind in self.kinds.items():
            lengths = rows.lengths_of(name, slice(0, len(rows.is_served)))
            is_single = bool((lengths == 1).all())
            column = replace(
                kind.to_column(),
                values=None,
                num_samples=int(lengths.sum(dtype=np.int64)),
                sample_offsets=None if is_single else offsets_of(lengths),
            )
            files, pieces = contents, np.empty((0, 3), np.uint64)
            if (sizes := arrays.get(f"bytes of {name}")) is not None:
                files = []
                values = np.ascontiguousarray(arrays[f"values of {name}"])
                if not kind.are_bytes:
                    values = values.view(column.dtype).reshape(-1, *column.shape)
                column = replace(column, values=values)
            else:
                begins = arrays[f"begins of {name}"]
                sizes = np.where(rows.is_served, arrays[f"sizes of {name}"], 0)
                places = np.stack([rows.files_of_rows(), begins, sizes], axis=1)[sizes > 0]
                pieces, sizes = places.astype(np.uint64), sizes[lengths > 0]
            if kind.are_bytes:
                column = replace(column, element_offsets=offsets_of(sizes))
            columns.append(FileColumn(column, files, pieces))
        return read_columns(
            columns,
            infos,
            rows.chunk_rows,
            rows.sample_bytes,
            skipped=np.flatnonzero(~rows.is_served),
            measure=rows.measure,
        )


def pass_heads(
    heads: Mapping[int, bytes],
    parse: Callable[[bytes, int], ArrayHead],
    wanted: tuple[int, ...] | None,
    begins: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> tuple[SampleType | None, dict[int, str]]:
    """Move the places of arrays past their heads, and return their type, and which are lost.

    Samples are the rows of an array, or of the shape that is wanted.
    """
    kind: SampleType | None = None
    faults: dict[int, str] = {}
    for row, head in heads.items():
        size = int(sizes[row])
        try:
            head_bytes, dtype, shape = parse(head, size)
            sample = shape[1:] if wanted is None else wanted
            rows = (1, *shape) if len(shape) == len(sample) else shape
            if rows[1:] != sample:
                raise ValueError(f"holds an array of shape {shape}, not of {sample}")
            own = SampleType(dtype.name, sample, is_ragged=True)
            if not all(sample) or rows[0] * own.sample_bytes != size - head_bytes:
                raise ValueError(f"holds an array of {shape} in {size - head_bytes} bytes")
            kind = kind or own
            if own != kind:
                raise ValueError(f"holds {own}, and {kind} in others")
        except (DataError, ValueError, TypeError, IndexError) as error:
            faults[row] = error.reason if isinstance(error, DataError) else f"{error}"
            begins[row] = sizes[row] = 0
            continue
        begins[row] += head_bytes
        sizes[row] = size - head_bytes
    return kind, faults


def gatherer(file: SourceFile) -> Gather:
    """Return what joins short runs of a file's bytes, by begins and sizes."""
    if isinstance(file, LocalFile):
        run = join_pieces([file], np.array([[0, 0, file.size]], np.uint64))

        def gather(
            begins: NDArray[np.integer], sizes: NDArray[np.integer]
        ) -> NDArray[np.uint8]:
            found = room_for(int(sizes.sum()), file.path)
            run.gather(begins.astype(np.uint64), sizes.astype(np.uint64), found)
            return found

        return gather
    content = file.fetch(0, file.size)
    return lambda begins, sizes: content[runs(begins, sizes)]


@dataclass(frozen=True)
class FileColumn:
    """A stream whose values are pieces of files."""

    column: ColumnData  # all but the values
    files: Sequence[SourceFile]
    # file number, byte where it begins, and size, of consecutive values; shape (pieces, 3)
    pieces: NDArray[np.uint64]
    # Of numbers of another byte order, or texts of a fixed width, which are converted when they
    # are read; None: they lie as they are served.
    stored: np.dtype[Any] | None = None

    def in_place(self) -> ColumnData:
        """Return the column as the core reads it in local files."""
        if self.column.values is not None:  # in memory, or in the index
            return self.column
        extents = join_pieces(access_to(self.files).local or [], self.pieces)
        return replace(self.column, extents=extents)

    def part(self, first: int, end: int) -> FileColumn:
        """Return sequences ``[first, end)``, with no other pieces than they have."""
        column, offsets = self.column, self.column.sample_offsets
        if column.values is not None:
            return FileColumn(take(column, np.arange(first, end)), (), self.pieces[:0])
        begin, stop = first, end
        if offsets is not None:
            offsets = read_offsets(column, offsets[first : end + 1].copy)
            begin, stop = offsets[[0, -1]].tolist()
            offsets -= begin
        elements = column.element_offsets
        if elements is not None and self.stored is None:
            elements = elements[begin : stop + 1]
        firsts, start, last = self._byte_starts, self._byte_at(begin), self._byte_at(stop)
        which = slice(
            int(np.searchsorted(firsts, start, side="right")) - 1,
            int(np.searchsorted(firsts, last, side="left")),
        )
        if start == last:
            which = slice(0, 0)
        low = np.maximum(firsts[:-1][which], start)
        high = np.minimum(firsts[1:][which], last)
        numbers, places, _ = self.pieces[which].astype(np.int64).T
        pieces = np.stack([numbers, places + low - firsts[:-1][which], high - low], axis=1)
        column = replace(
            column,
            num_samples=stop - begin,
            sample_offsets=offsets,
            element_offsets=None if elements is None else elements - elements[0],
        )
        return FileColumn(column, self.files, pieces.astype(np.uint64), self.stored)

    def filled(self, contents: Sequence[NDArray[np.uint8]]) -> ColumnData:
        """Return the column with values, whose bytes are those of each piece."""
        column = self.column
        if column.values is not None:
            return column
        content: NDArray[Any] = np.empty(0, np.uint8)
        content = contents[0] if len(contents) == 1 else np.concatenate([content, *contents])
        if column.element_offsets is not None and self.stored is None:
            return replace(column, values=content)
        content = content.view(column.dtype if self.stored is None else self.stored)
        if column.is_bytes:
            texts = content.tolist()
            if content.dtype.kind != "S":
                texts = [one.encode(errors="surrogateescape") for one in texts]
            return replace(column_of_bytes(texts), sample_offsets=column.sample_offsets)
        values = content.reshape(column.num_samples, *column.shape)
        return replace(column, values=values.astype(column.dtype, copy=False))

    @cached_property
    def _byte_starts(self) -> NDArray[np.int64]:
        """The place of each piece in the run of all of them, and the end."""
        return offsets_of(self.pieces[:, 2].astype(np.int64))

    def _byte_at(self, sample: int) -> int:
        """Return the place of a sample in the run of all pieces."""
        column = self.column
        if column.element_offsets is not None and self.stored is None:
            return int(column.element_offsets[sample])
        stored = column.dtype if self.stored is None else self.stored
        return sample * math.prod(column.shape) * stored.itemsize


def read_columns(
    columns: Sequence[FileColumn],
    infos: Sequence[StreamInfo],
    chunks: _core.index.Starts,
    sample_bytes: float,
    *,
    skipped: NDArray[np.int64] | None = None,
    measure: Callable[[], Sizing] | None = None,
) -> StoredReader:
    """Return the reader of columns: of local files by sequences, else by chunks.

    `chunks` has the first sequence of every chunk; `skipped` are damaged sequences, ascending.
    """
    access = access_to([file for column in columns for file in column.files])
    if measure is None:
        known = {info.name: one.column for info, one in zip(infos, columns, strict=True)}
        sizing = sizing_streams({info.name: info for info in infos})
        measure = partial(size_columns, known, chunks, sizing, skipped=skipped)
    if skipped is None:
        skipped = np.empty(0, np.int64)

    def load(chunk: int) -> _core.read.Chunk:
        first, end = chunks.bounds(chunk)
        within = skipped[slice(*np.searchsorted(skipped, (first, end)))] - first
        parts = [one.part(first, end) for one in columns]
        found = [part.filled(own) for part, own in zip(parts, _fetch(parts), strict=True)]
        return make_chunk(found, skipped=within.tolist())

    core: _core.read.Deserializer = _core.read.CallbackDeserializer(load)
    chunked: _core.read.Deserializer | None = None
    is_bare = access.is_local and all(one.stored is None for one in columns)
    if is_bare:
        in_place = [one.in_place() for one in columns]
        whole = make_chunk(in_place, owned=False, skipped=skipped.tolist())
        core = _core.read.ResidentDeserializer(whole)
        chunked = _core.read.ExtentChunks(whole, chunks.offsets().view(np.uint64))
    num_bytes = sum(int(one.pieces[:, 2].sum()) for one in columns)
    return StoredReader(
        core=core,
        streams=infos,
        chunks=chunks,
        measure=measure,
        resident=is_bare,
        sample_bytes=sample_bytes,
        load_threads=access.threads(chunk_bytes=num_bytes // max(1, len(chunks))),
        holds_stored=not access.is_local,
        chunked=chunked,
    )


def _fetch(columns: Sequence[FileColumn]) -> list[list[NDArray[np.uint8]]]:
    """Return the bytes of the pieces of each column, by few requests for all of them."""
    found: list[list[NDArray[np.uint8]]] = []
    wanted: dict[SourceFile, list[tuple[int, int, int, int]]] = {}
    for number, column in enumerate(columns):
        found.append([np.empty(0, np.uint8)] * len(column.pieces))
        for place, (file, begin, size) in enumerate(column.pieces.tolist()):
            wanted.setdefault(column.files[file], []).append((begin, size, number, place))
    for file, pieces in wanted.items():
        pieces.sort()
        starts = [0]  # of requests
        end = sum(pieces[0][:2])
        for at, (begin, size, *_) in enumerate(pieces):
            if begin > end + _MOST_GAP:
                starts.append(at)
            end = max(end, begin + size)
        for first, stop in pairwise([*starts, len(pieces)]):
            group = pieces[first:stop]
            start = group[0][0]
            content = file.fetch(start, max(sum(one[:2]) for one in group) - start)
            file.check_unchanged()
            for begin, size, number, place in group:
                own = content[begin - start : begin - start + size]
                # A copy is aligned, and keeps no other values in memory.
                found[number][place] = own if len(group) == 1 else own.copy()
    return found
