"""A map with ``cache=True``: what it makes, in a file that is read like stored chunks.

::

    first block   label: digest of what was mapped, 32 hex digits
    other blocks  a chunk each; label: JSON, payload: array | 0 ... | array | 0 ... |

Blocks are those of `run/records.py`. The label has of every stream its dtype, the shape and
number of its samples, and of every array its dtype and length; arrays begin at multiples of 8
bytes of the payload and are little endian. The first two are how many sequences were made of
each that is stored there, and their sizes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sample_form import Samples
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError, SweephandHint
from sweephand.files.index_file import show_progress
from sweephand.files.local import LocalFile, stat_file
from sweephand.maps.first_look import FirstLook, look_at_first
from sweephand.maps.kept_pass import MeasuredStore, Sizes
from sweephand.maps.measure import Expansion, KeptCheck, Round, rounds
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask, MeasuringTask
from sweephand.maps.workers import OpenContext
from sweephand.run.locks import wait_for_lock
from sweephand.run.records import (
    AppendedFile,
    Block,
    RecordKind,
    pack_block,
    read_block,
    resume,
)

KEPT = RecordKind(b"SWEEPMAP", 2, "file of a map", "delete it, and it is made again")
_ARRAYS = ("values", "sample_offsets", "element_offsets", "indices")
_DAMAGED = "the file that keeps what a map made is damaged; delete it, and it is made again"


@dataclass(frozen=True)
class MadeChunk:
    """Results of mapping the sequences of a chunk."""

    counts: NDArray[np.uint32]  # how many sequences it made of each
    sizes: NDArray[np.uint32]
    columns: Sequence[ColumnData]  # one per stream; none if nothing was made
    several: bool  # whether the map returned lists


def pack_chunk(chunk: MadeChunk) -> bytes:
    """Return the block of a chunk."""
    arrays: list[NDArray[Any]] = [chunk.counts, chunk.sizes]
    streams = []
    for column in chunk.columns:
        held = {name: getattr(column, name) for name in _ARRAYS}
        streams.append(
            {
                "dtype": column.dtype.str,
                "shape": column.shape,
                "num_samples": column.num_samples,
                "arrays": [name for name, array in held.items() if array is not None],
            }
        )
        arrays += [array for array in held.values() if array is not None]
    facts = {
        "streams": streams,
        "arrays": [[array.dtype.str, array.size] for array in arrays],
        "several": chunk.several,
    }
    plain = map(np.ascontiguousarray, arrays)
    parts = [part for one in plain for part in (one.data, bytes(-one.nbytes % 8))]
    return pack_block(json.dumps(facts, allow_nan=False).encode(), b"".join(parts))


def read_chunk(file: BinaryIO, offset: int) -> MadeChunk:
    """Read a chunk; DataError if the bytes are not those that were written."""
    file.seek(offset)
    try:
        label, payload = read_block(file)
        facts = json.loads(label)
        arrays = _arrays(payload, facts["arrays"])
        counts, sizes = next(arrays).copy(), next(arrays).copy()  # which outlive the columns
        columns = [_column(one, arrays) for one in facts["streams"]]
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataError(_DAMAGED, str(getattr(file, "name", "")), offset) from error
    return MadeChunk(counts, sizes, columns, bool(facts["several"]))


def _column(header: dict[str, Any], arrays: Iterator[NDArray[Any]]) -> ColumnData:
    held: dict[str, Any] = {name: next(arrays) for name in header["arrays"]}
    shape = tuple(header["shape"])
    values = held.get("values")
    if values is not None and "element_offsets" not in held:
        held["values"] = values.reshape(header["num_samples"], *shape)
    return ColumnData(
        values=held.pop("values", None),
        dtype=np.dtype(header["dtype"]),
        shape=shape,
        num_samples=header["num_samples"],
        **held,
    )


def _arrays(payload: memoryview, described: Sequence[Any]) -> Iterator[NDArray[Any]]:
    at = 0
    for dtype, size in described:
        array = np.frombuffer(payload, dtype, size, at)
        at += array.nbytes + -array.nbytes % 8
        yield array


@dataclass(frozen=True)
class _Cache:
    """Chunks that were made, in a file."""

    file: LocalFile
    offsets: NDArray[np.uint64]
    sizes: Sizes
    streams: list[StreamInfo]
    kept: NDArray[np.bool_]  # of the stored sequences: something was made of it

    def load(self, chunk: int) -> _core.read.Chunk:
        """Return a chunk."""
        self.file.check_unchanged()
        with Path(self.file.path).open("rb") as file:
            return make_chunk(list(read_chunk(file, int(self.offsets[chunk])).columns))


def cached_corpus(
    stored: StoredCorpus, wanted: SequenceMap, opening: OpenContext
) -> StoredCorpus | None:
    """Return the corpus of a map's results, which are computed and kept if they were not.

    None if it cannot be kept: some sequences are damaged, or nothing can be written. DataError
    if the map is wrong at a sequence, and the budget does not hold it; ValueError if the data
    are not read in chunks of files, or nothing is left.
    """
    if stored.resident or not stored.files:
        raise ValueError(
            f"{wanted} with cache=True is for files that are read chunk by chunk, such as "
            "text; these data are in memory or read in place: map them without it"
        )
    store = MeasuredStore.of(stored, f"{wanted.fingerprint} kept")
    if (cache := _read(store, stored)) is not None:
        _compare(cache, StoredStreams(stored), wanted, opening)
    else:
        _make(StoredStreams(stored), wanted, opening, store)
        cache = _read(store, stored)
    if cache is None:
        return None
    kept = stored.keep(cache.kept)
    counts, sizes, several = cache.sizes
    expansion = Expansion(counts[counts > 0], sizes, several)
    reader = StoredReader(
        core=_core.read.CallbackDeserializer(cache.load),
        streams=cache.streams,
        chunks=expansion.chunks(kept),
        measure=lambda: expansion.sizing(kept),
        resident=False,
        sample_bytes=cache.file.size / max(1, int(sizes.sum(dtype=np.uint64))),
        sized_by_streams=all(one.sized_by_streams for one in stored.readers),
        holds_stored=False,
        open_chunks=stored.open_chunks,
    )
    return expansion.corpus(kept, reader)


def _compare(
    cache: _Cache, stored: StoredStreams, wanted: SequenceMap, opening: OpenContext
) -> None:
    """Compare kept results with those of the map, of the first sequences."""
    form = look_at_first(stored, wanted, opening).form
    task = partial(MeasuringTask.of_batch, stored, wanted, form, keeps=True)
    check = KeptCheck(stored, opening, task, f"{wanted} in {cache.file.path}")
    made = check.sizes(cache.sizes, most=stored.corpus.chunk_starts.offsets()[1])
    if made:
        with Path(cache.file.path).open("rb") as file:
            kept = read_chunk(file, int(cache.offsets[0])).columns
        check.columns(form.to_columns(made), list(kept))


def _read(store: MeasuredStore, stored: StoredCorpus) -> _Cache | None:
    found = store.read_index()
    if found is None:
        return None
    content, sizes, path = found
    try:
        file = stat_file(_data_of(path))
        streams = [_stream_of(one, stored) for one in content.facts[0]["streams"]]
        if content.facts[0]["bytes"] != file.size:
            return None
        offsets = np.array(content.arrays["chunks"], np.uint64)
    except (OSError, KeyError, TypeError, ValueError):
        return None
    return _Cache(file, offsets, sizes, streams, sizes[0] > 0)


def _unfinished(place: Path) -> Path:
    return place.with_name(f"{place.name}.data.part")


def _data_of(index: Path) -> Path:
    return index.with_name(f"{index.name}.data")


def _make(
    stored: StoredStreams, wanted: SequenceMap, opening: OpenContext, store: MeasuredStore
) -> None:
    """Map all sequences and keep the results; a stopped pass leaves its results."""
    place = store.place_to_write()
    if place is None:
        warnings.warn(
            f"what {wanted} makes cannot be kept: name a folder by SWEEPHAND_CACHE",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    look = look_at_first(stored, wanted, opening)
    unfinished = _unfinished(place)
    try:
        made = _make_file(stored, wanted, opening, store, look, place)
        if made is None:
            return
        maker, num_bytes = made
    except _NotKept as error:
        warnings.warn(
            f"what {wanted} makes is not kept in {unfinished} ({error}), so it is made again "
            "whenever it is wanted; make room, or name another folder by SWEEPHAND_CACHE",
            SweephandHint,
            stacklevel=2,
        )
        return
    streams = look.streams(stored, keeps_size=wanted.size == "same")
    store.keep(
        maker.sizes,
        {"chunks": np.array(maker.offsets, np.uint64)},
        {"streams": [_described(info) for info in streams], "bytes": num_bytes},
    )


def _make_file(
    stored: StoredStreams,
    wanted: SequenceMap,
    opening: OpenContext,
    store: MeasuredStore,
    look: FirstLook,
    place: Path,
) -> tuple[_Maker, int] | None:
    """Write the file of results; return its bytes, or None if it exists or cannot be written.

    _NotKept if it cannot be written; it gives back its room.
    """
    unfinished = _unfinished(place)
    with _given_up_if_it_fails():
        file = AppendedFile(wait_for_lock(unfinished))
    with closing(file):
        if store.read() is not None:  # another process has made it meanwhile
            unfinished.unlink(missing_ok=True)
            return None
        try:
            with _given_up_if_it_fails():
                done = resume(file, KEPT, store.digest.encode())
            maker = _Maker(stored, wanted, look, file, done)
            if not maker.go_on(opening):
                unfinished.unlink(missing_ok=True)
                warnings.warn(
                    f"what {wanted} makes is not kept, as some sequences are damaged",
                    RuntimeWarning,
                    stacklevel=3,
                )
                return None
            with _given_up_if_it_fails():
                file.sync()
                num_bytes = file.end
                unfinished.replace(_data_of(place))
        except _NotKept:
            with suppress(OSError):
                unfinished.unlink()
            raise
    return maker, num_bytes


class _NotKept(Exception):
    """The file of results cannot be written; nothing else is wrong."""


@contextmanager
def _given_up_if_it_fails() -> Iterator[None]:
    """Raise `_NotKept` where the file of the cache, and not the data, raises an OSError."""
    try:
        yield
    except OSError as error:
        raise _NotKept(error.strerror or str(error)) from error


class _Maker:
    """Mapper of sequences in storage order that writes the results of each chunk."""

    def __init__(
        self,
        stored: StoredStreams,
        wanted: SequenceMap,
        look: FirstLook,
        file: AppendedFile,
        done: list[Block],
    ) -> None:
        self._stored = stored
        self._map = wanted
        self._look = look
        self._file = file
        self.offsets = [block.begin for block in done]
        self._ends = stored.corpus.chunk_starts.offsets()[1:].tolist()
        with file.path.open("rb") as written:
            chunks = (read_chunk(written, at) for at in self.offsets)
            self._chunks = [replace(chunk, columns=[]) for chunk in chunks]
        self._waiting = Round()  # of chunks that are not complete

    @property
    def sizes(self) -> Sizes:
        """Sizes of the results of all chunks up to now."""
        return Sizes(
            np.concatenate([chunk.counts for chunk in self._chunks]),
            np.concatenate([chunk.sizes for chunk in self._chunks]),
            any(chunk.several for chunk in self._chunks),
        )

    def go_on(self, opening: OpenContext) -> bool:
        """Write the missing chunks; stop and return False if sequences are damaged."""
        corpus = self._stored.corpus
        begin = self._ends[len(self._chunks) - 1] if self._chunks else 0
        with show_progress(f"keeping what {self._map} makes", corpus.num_sequences) as advance:
            advance(begin)
            for one in rounds(self._stored, opening, self._task, begin):
                if not one.is_clean:
                    return False
                self._waiting.sizes += one.sizes
                self._waiting.made += one.made
                self._waiting.several = self._waiting.several or one.several
                self._write_complete()
                advance(len(one.sizes))
        return True

    def _write_complete(self) -> None:
        """Write the chunks of which all sequences wait."""
        while len(self._chunks) < len(self._ends):
            end = self._ends[len(self._chunks)]
            begin = self._ends[len(self._chunks) - 1] if self._chunks else 0
            if len(self._waiting.sizes) < end - begin:
                return
            chunk = self._take(begin, end - begin)
            with _given_up_if_it_fails():
                begin = self._file.end
                self._file.append(pack_chunk(chunk))
            self.offsets.append(begin)
            self._chunks.append(replace(chunk, columns=[]))

    def _take(self, first: int, count: int) -> MadeChunk:
        """Return the results of the first `count` sequences that wait."""
        waiting = self._waiting
        sizes, waiting.sizes = waiting.sizes[:count], waiting.sizes[count:]
        made, waiting.made = waiting.made[:count], waiting.made[count:]
        self._check_sizes(first, sizes)
        samples: list[Samples] = [one for several in made for one in several]
        columns = list(self._look.form.to_columns(samples).values()) if samples else []
        return MadeChunk(
            counts=np.array([len(own) for own in sizes], np.uint32),
            sizes=np.array([size for own in sizes for size in own], np.uint32),
            columns=columns,
            several=waiting.several,
        )

    def _check_sizes(self, first: int, sizes: list[list[int]]) -> None:
        if self._map.size != "same" or not sizes:
            return
        corpus = self._stored.corpus
        wanted = corpus.core.sizes(first, first + len(sizes)).tolist()
        for number, (own, size) in enumerate(zip(sizes, wanted, strict=True), first):
            if own != [size]:
                (name,) = corpus.ids.names(np.array([number], np.uint64))
                raise DataError(
                    f"{self._map} returned {own[0] if own else 0} samples where the sequence "
                    f"has {size}; a map that changes sizes says size='measured'",
                    sequence=name,
                )

    def _task(self, numbers: NDArray[np.uint64], batch: _core.engine.Batch) -> MapTask:
        form = self._look.form
        return MeasuringTask.of_batch(self._stored, self._map, form, numbers, batch, keeps=True)


def _described(info: StreamInfo) -> list[Any]:
    """Return a stream as JSON."""
    flags = [info.is_sparse, info.is_single, info.is_object]
    options = info.definition.of_form().given()
    options.pop("transforms", None)
    return [info.name, info.dtype.str, list(info.shape), *map(bool, flags), options]


def _stream_of(fields_kept: list[Any], stored: StoredCorpus) -> StreamInfo:
    """Return a stream of the kept file, with the transforms of the stored stream."""
    name, dtype, shape, is_sparse, is_single, is_object, options = fields_kept
    transforms = next((one.transforms for one in stored.streams if one.name == name), ())
    return StreamInfo(
        name=name,
        dtype=np.dtype(dtype),
        shape=tuple(shape),
        is_sparse=is_sparse,
        is_single=is_single,
        is_object=is_object,
        definition=StreamDef(transforms=transforms, **options),
    )
