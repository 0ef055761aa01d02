"""A corpus whose sequences are mapped when they are delivered."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.mapped_reader import MappedOrigin, MappedReader
from sweephand.corpus.reader import Reader, StoredReader
from sweephand.corpus.sample_form import Samples
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError, SweephandHint
from sweephand.files.index_file import show_progress
from sweephand.files.local import LocalFile, stat_file
from sweephand.maps.chunk_file import KEPT, MadeChunk, pack_chunk, read_chunk
from sweephand.maps.expansion import Expansion
from sweephand.maps.first_look import FirstLook, look_at_first
from sweephand.maps.history import MapHistory
from sweephand.maps.kept_check import KeptCheck
from sweephand.maps.key import KeyContext
from sweephand.maps.measure import Round, measure, rounds
from sweephand.maps.measured_store import MeasuredStore, Sizes
from sweephand.maps.measuring_tasks import MeasuringTask
from sweephand.maps.open_context import OpenContext
from sweephand.maps.sequence_map import SequenceMap
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask
from sweephand.run.appended_file import AppendedFile
from sweephand.run.locks import wait_for_lock
from sweephand.run.records import Block, resume


def map_corpus(stored: Corpus, wanted: SequenceMap, opening: OpenContext) -> Corpus:
    """Return the corpus of a map's results over another corpus.

    DataError if the map cannot be applied to the first sequences, or to more than the budget
    holds; ValueError if another map has the name, or what the map returns cannot be streams.
    """
    wanted = wanted.learned(stored, opening)

    def mapped(one: StoredCorpus) -> StoredCorpus:
        corpus = _mapped(one, wanted, opening).named(wanted.fingerprint)
        return corpus.read_by(map(declared, corpus.readers))

    def declared(reader: Reader) -> Reader:
        if not any(wanted.declared(info.name) for info in reader.streams):
            return reader
        streams = [info.used(**wanted.declared(info.name)) for info in reader.streams]
        return replace(reader, streams=streams)

    return stored.each(mapped)


def _mapped(stored: StoredCorpus, wanted: SequenceMap, opening: OpenContext) -> StoredCorpus:
    check_name(stored, wanted.name)
    stored = replace(stored, counts={})  # of streams that may have changed
    opening.workers.check(wanted)
    if wanted.cache:
        kept = cached_corpus(stored, wanted, opening)
        if kept is not None:
            return kept
    streams = StoredStreams(stored)
    look = look_at_first(streams, wanted, opening)
    expansion: Expansion | None = None
    if wanted.size != "same":
        has_results, expansion, counts = measure(streams, wanted, look, opening)
        stored = replace(stored.keep(has_results), counts=counts)
    reader = _reader(stored, wanted, look, expansion, opening)
    return stored.read_by([reader]) if expansion is None else expansion.corpus(stored, reader)


def check_name(stored: Corpus, name: str) -> None:
    """Refuse a second map of one name."""
    if any(known.startswith((f"map {name} ", f"filter {name} ")) for known in stored.names):
        raise ValueError(
            f"there are two maps or filters of the name {name!r}, on which keys depend: give "
            "one of them another by name="
        )


def _reader(
    corpus: StoredCorpus,
    wanted: SequenceMap,
    look: FirstLook,
    expansion: Expansion | None,
    opening: OpenContext,
) -> MappedReader:
    stored = StoredStreams(corpus)
    first = corpus.readers[0]
    run = MapRun(stored, wanted, look, expansion, opening)
    return MappedReader(
        streams=[
            replace(info, classes=wanted.classes.get(info.name, ()))
            for info in look.streams(stored, keeps_size=expansion is None)
        ],
        chunks=corpus.chunk_starts if expansion is None else expansion.chunks(corpus),
        measure=(
            (lambda: corpus.sizing) if expansion is None else (lambda: expansion.sizing(corpus))
        ),
        resident=corpus.resident,
        sample_bytes=corpus.sample_bytes + look.sample_bytes,
        is_parsed=any(reader.is_parsed for reader in corpus.readers),
        float_bytes=max(reader.float_bytes for reader in corpus.readers),
        sized_by_streams=all(reader.sized_by_streams for reader in corpus.readers),
        load_threads=first.load_threads,
        holds_stored=first.holds_stored,
        open_chunks=first.open_chunks,
        call_locks=[
            *(call_lock for reader in corpus.readers for call_lock in reader.call_locks),
            opening.workers.call_lock,
        ],
        origin=MappedOrigin(
            corpus, None if expansion is None else expansion.origins, run.make, opening.ledger
        ),
    )


class MapRun:
    """Makes the sequences that minibatches want."""

    def __init__(
        self,
        stored: StoredStreams,
        wanted: SequenceMap,
        look: FirstLook,
        expansion: Expansion | None,
        opening: OpenContext,
    ) -> None:
        self._stored = stored
        self._maps = _over_time(wanted, opening)
        self._look = look
        self._expansion = expansion
        self._opening = opening
        self._history = MapHistory(
            stored.corpus.num_sequences if expansion is None else len(expansion.sizes)
        )

    def make(
        self,
        numbers: NDArray[np.uint64],
        sweeps: NDArray[np.uint64],
        sizes: NDArray[np.uint32],
        places: NDArray[np.uint64],
        batch: _core.engine.Batch,
    ) -> list[_core.read.Chunk]:
        """Return the wanted sequences as chunks, in order: see `MappedOrigin`."""
        own = numbers[places]
        task = self._task(own, sweeps[places], sizes[places].tolist(), batch)
        num_bytes = cache(lambda: self._stored.bytes_of(batch) + 1)
        is_shared = self._opening.workers.num_workers > 0  # else no cost matters
        costs = self._history.expected(own, num_bytes) if is_shared else np.zeros(len(own))
        seconds: list[float] = []
        chunks = []
        for begin, end, is_there in _runs(places, len(numbers)):
            if not is_there:
                chunks.append(self._blank(end - begin))
                continue
            for made in self._opening.workers.run(task.part(begin, end), costs[begin:end]):
                for wrong in made.wrong.values():
                    self._opening.ledger.add(wrong)
                chunks.append(made.to_chunk())
                seconds += made.seconds
        if is_shared:
            self._history.add(own, num_bytes, np.array(seconds))
        return chunks

    def _task(
        self,
        numbers: NDArray[np.uint64],
        sweeps: NDArray[np.uint64],
        sizes: list[int],
        batch: _core.engine.Batch,
    ) -> MapTask:
        expansion = self._expansion
        origins = numbers if expansion is None else expansion.origins_of(numbers)
        names = self._stored.corpus.ids
        # No minibatch reaches over the time of another version.
        wanted, context = [one[1:] for one in self._maps if one[0] <= batch.nominal_time][-1]
        ids = names.names(origins) if wanted.random else LaterIds(names, origins)
        return MapTask(
            wanted,
            self._look.form,
            self._stored.sequences_of(batch),
            ids,
            sizes,
            None if expansion is None else expansion.parts_of(numbers),
            context if wanted.random else None,
            sweeps.tolist() if wanted.random else (),
        )

    def _blank(self, num_sequences: int) -> _core.read.Chunk:
        """Return skipped sequences, in place of damaged stored sequences."""
        form = self._look.form
        columns = form.to_columns([form.like] * num_sequences)
        return make_chunk(list(columns.values()), owned=False, skipped=range(num_sequences))


def _over_time(
    wanted: SequenceMap, opening: OpenContext
) -> list[tuple[int, SequenceMap, KeyContext]]:
    """Return the versions of a map, each from a nominal time on."""
    versions = [(0, wanted.version)]
    versions += [(at, v) for at, name, v in opening.map_versions if name == wanted.name]
    maps = [(at, wanted.of_version(version)) for at, version in versions]
    for _, one in maps[1:]:
        opening.workers.check(one)
    seed = opening.seed
    return [(at, one, KeyContext(seed, one.name, one.version)) for at, one in maps]


def _runs(places: NDArray[np.uint64], num_wanted: int) -> Iterator[tuple[int, int, bool]]:
    """Cut the wanted numbers into runs that are present or missing; count those present."""
    if len(places) == num_wanted:
        yield 0, num_wanted, True
        return
    is_there = np.zeros(num_wanted, np.bool_)
    is_there[places] = True
    begin = 0
    for there, group in groupby(is_there.tolist()):
        length = len(list(group))
        if there:
            yield begin, begin + length, True
            begin += length
        else:
            yield 0, length, False


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
        """Write the chunks that lack; False, and no more, if sequences are damaged."""
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


class LaterIds(Sequence[str]):
    """The ids of sequences, looked up on demand: most are needed only for errors.

    They go to another process as a list.

    Parameters
    ----------
    ids : SequenceIds
    numbers : ndarray of uint64, shape (sequences,)

    Examples
    --------
    >>> from sweephand.corpus.ids import ShardIds
    >>> list(LaterIds(ShardIds(["a"], [0, 9]), np.array([4, 7]))[1:])
    ['a__7']
    """

    __slots__ = ("_ids", "_numbers")

    def __init__(self, ids: SequenceIds, numbers: NDArray[np.integer]) -> None:
        self._ids = ids
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> LaterIds: ...
    def __getitem__(self, which: int | slice) -> str | LaterIds:
        if isinstance(which, slice):
            return LaterIds(self._ids, self._numbers[which])
        return self._ids.names(self._numbers[which, None])[0]

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, (self._ids.names(self._numbers),)
