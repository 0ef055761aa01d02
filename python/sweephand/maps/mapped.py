"""A corpus whose sequences are mapped when they are delivered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import MappedReader
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.reader import Reader
from sweephand.corpus.streams import StreamInfo
from sweephand.maps.kept_map import cached_corpus
from sweephand.maps.key import KeyContext
from sweephand.maps.measure import Expansion, FirstLook, look_at_first, measure
from sweephand.maps.sequence_map import SequenceMap, StoredStreams
from sweephand.maps.task import MapCall, MapTask, OpenedMap
from sweephand.maps.workers import OpenContext


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
    opened = OpenedMap(StoredStreams(stored), wanted, opening)
    look = look_at_first(opened)
    infos = [
        replace(info, classes=wanted.classes.get(info.name, ()))
        for info in look.streams(stored, keeps_size=wanted.size == "same")
    ]
    if wanted.cache:
        kept = cached_corpus(opened, look, infos)
        if kept is not None:
            return kept
    expansion: Expansion | None = None
    if wanted.size != "same":
        has_results, expansion, counts = measure(opened, look)
        stored = replace(stored.keep(has_results), counts=counts)
    opened = replace(opened, stored=StoredStreams(stored))
    reader = _reader(stored, opened, look, infos, expansion)
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
    opened: OpenedMap,
    look: FirstLook,
    streams: list[StreamInfo],
    expansion: Expansion | None,
) -> MappedReader:
    first, opening = corpus.readers[0], opened.opening
    run = MapRun(opened, look, expansion)
    return MappedReader(
        streams=streams,
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
        corpus=corpus,
        origins=None if expansion is None else expansion.origins,
        make=run.make,
        ledger=opening.ledger,
    )


class MapRun:
    """Makes the sequences that minibatches want."""

    def __init__(self, opened: OpenedMap, look: FirstLook, expansion: Expansion | None) -> None:
        self._stored, self._opening = opened.stored, opened.opening
        self._calls = _over_time(opened, look)
        self._look = look
        self._expansion = expansion

    def make(
        self,
        numbers: NDArray[np.uint64],
        sweeps: NDArray[np.uint64],
        sizes: NDArray[np.uint32],
        places: NDArray[np.uint64],
        batch: _core.engine.Batch,
    ) -> list[_core.read.Chunk]:
        """Return the wanted sequences as chunks, in order: see `MappedReader`."""
        own = numbers[places]
        task = self._task(own, sweeps[places], sizes[places].tolist(), batch)
        chunks = []
        is_there = np.zeros(len(numbers), np.bool_)
        is_there[places] = True
        begin = 0
        for run in np.split(is_there, np.flatnonzero(np.diff(is_there)) + 1):
            if not run.all():
                chunks.append(self._blank(len(run)))
                continue
            end = begin + len(run)
            for made in self._opening.workers.run(task.part(begin, end)):
                for wrong in made.wrong.values():
                    self._opening.ledger.add(wrong)
                skipped = sorted(made.wrong)
                chunks.append(make_chunk(made.columns, owned=False, skipped=skipped))
            begin = end
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
        _, call = [one for one in self._calls if one[0] <= batch.nominal_time][-1]
        return MapTask(
            call,
            self._stored.sequences_of(batch),
            names.names(origins),
            sizes,
            None if expansion is None else expansion.parts_of(numbers),
            sweeps.tolist(),
        )

    def _blank(self, num_sequences: int) -> _core.read.Chunk:
        """Return skipped sequences, in place of damaged stored sequences."""
        form = self._look.form
        columns = form.to_columns([form.like] * num_sequences)
        return make_chunk(list(columns.values()), owned=False, skipped=range(num_sequences))


def _over_time(opened: OpenedMap, look: FirstLook) -> list[tuple[int, MapCall]]:
    """Return the calls of the versions of a map, each from a nominal time on."""
    wanted, opening = opened.map, opened.opening
    versions = [(0, wanted.version)]
    versions += [(at, v) for at, name, v in opening.map_versions if name == wanted.name]
    calls: list[tuple[int, MapCall]] = []
    for at, version in versions:
        one = wanted.of_version(version)
        if calls:
            opening.workers.check(one)
        context = KeyContext(opening.seed, one.name, one.version) if one.random else None
        calls.append((at, MapCall(one, look.form, context)))
    return calls
