"""A corpus whose sequences are mapped when they are delivered, or were kept by ``cache=True``.

What is kept is in a file that is read like stored chunks. Of every chunk it has a block
(`run/records.py`), whose payload is a file of NumPy's arrays. The index beside it has the
sizes, and the place of every block.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import MappedReader, one_pass
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import Corpus, StoredCorpus
from sweephand.corpus.given_data import SampleForm
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError, SweephandHint
from sweephand.files.index_file import show_progress
from sweephand.files.local import LocalFile, stat_file
from sweephand.maps.kept_pass import KeptPass, PassFindings
from sweephand.maps.measure import (
    Expansion,
    FirstLook,
    MakeTask,
    first_results,
    look_at_first,
    measure,
    parts_of,
    stale,
)
from sweephand.maps.sequence_map import SequenceMap, StoredStreams
from sweephand.maps.task import MapCall, MapTask, Measured, OpenedMap, sizes_made
from sweephand.maps.workers import OpenContext
from sweephand.run.records import read_block


def map_corpus(stored: Corpus, wanted: SequenceMap, opening: OpenContext) -> Corpus:
    """Return the corpus of a map's results over another corpus.

    DataError if the map cannot be applied to the first sequences, or to more than the budget
    holds; ValueError if another map has the name, or what the map returns cannot be streams.
    """
    wanted = wanted.learned(stored, opening)
    return stored.each(lambda one: _mapped(one, wanted, opening).named(wanted.fingerprint))


def _mapped(stored: StoredCorpus, wanted: SequenceMap, opening: OpenContext) -> StoredCorpus:
    check_name(stored, wanted.name)
    stored = replace(stored, counts={})  # of streams that may have changed
    opening.workers.check(wanted)
    opened = OpenedMap(StoredStreams(stored), wanted, opening)
    look = look_at_first(opened)
    infos = [
        replace(
            info.used(**wanted.declared(info.name)), classes=wanted.classes.get(info.name, ())
        )
        for info in look.streams(stored, keeps_size=wanted.size == "same")
    ]
    if wanted.cache and (kept := _kept_corpus(opened, look, infos)) is not None:
        return kept
    expansion: Expansion | None = None
    if wanted.size != "same":
        has_results, expansion, counts = measure(opened, look)
        stored = replace(stored.keep(has_results), counts=counts)
    opened = replace(opened, stored=StoredStreams(stored))
    versions = [(0, wanted.version)]
    versions += [(at, v) for at, name, v in opening.map_versions if name == wanted.name]
    calls = []
    for at, version in versions:
        one = replace(opened, map=wanted.of_version(version))
        opening.workers.check(one.map)
        calls.append((at, one.call(None, look.form)))
    reader = MappedReader(
        streams=infos,
        chunks=stored.chunk_starts if expansion is None else expansion.chunks(stored),
        measure=lambda: stored.sizing if expansion is None else expansion.sizing(stored),
        resident=stored.resident,
        sample_bytes=stored.sample_bytes + look.sample_bytes,
        is_parsed=any(reader.is_parsed for reader in stored.readers),
        float_bytes=max(reader.float_bytes for reader in stored.readers),
        sized_by_streams=all(reader.sized_by_streams for reader in stored.readers),
        load_threads=stored.readers[0].load_threads,
        holds_stored=stored.readers[0].holds_stored,
        open_chunks=stored.open_chunks,
        call_locks=[
            *(call_lock for reader in stored.readers for call_lock in reader.call_locks),
            opening.workers.call_lock,
        ],
        corpus=stored,
        origins=None if expansion is None else expansion.origins,
        make=MapRun(opened, look.form, expansion, calls).make,
        ledger=opening.ledger,
    )
    return stored.read_by([reader]) if expansion is None else expansion.corpus(stored, reader)


def check_name(stored: Corpus, name: str) -> None:
    """Refuse a second map of one name."""
    if any(known.startswith((f"map {name} ", f"filter {name} ")) for known in stored.names):
        raise ValueError(
            f"there are two maps or filters of the name {name!r}, on which keys depend: give "
            "one of them another by name="
        )


@dataclass(frozen=True)
class MapRun:
    """Makes the sequences that minibatches want."""

    opened: OpenedMap
    form: SampleForm
    expansion: Expansion | None
    calls: list[tuple[int, MapCall]]  # of the versions of the map, each from a nominal time on

    def make(
        self,
        numbers: NDArray[np.uint64],
        sweeps: NDArray[np.uint64],
        sizes: NDArray[np.uint32],
        places: NDArray[np.uint64],
        batch: _core.engine.Batch,
    ) -> list[_core.read.Chunk]:
        """Return the wanted sequences as chunks, in order: see `MappedReader`."""
        own = origins = numbers[places]
        parts = None
        if self.expansion is not None:
            origins, parts = self.expansion.origins_of(own), self.expansion.parts_of(own)
        task = MapTask(
            # No minibatch reaches over the time of another version.
            [call for at, call in self.calls if at <= batch.nominal_time][-1],
            self.opened.stored.sequences_of(batch),
            self.opened.corpus.ids.names(origins),
            sizes[places].tolist(),
            parts,
            sweeps[places].tolist(),
        )
        chunks = []
        is_there = np.zeros(len(numbers), np.bool_)
        is_there[places] = True
        begin = 0
        for run in np.split(is_there, np.flatnonzero(np.diff(is_there)) + 1):
            if not run.all():  # damaged as they are stored
                columns = self.form.to_columns([self.form.like] * len(run)).values()
                chunks.append(make_chunk(list(columns), owned=False, skipped=range(len(run))))
                continue
            end = begin + len(run)
            for made in self.opened.opening.workers.run(task.part(begin, end)):
                for wrong in made.wrong.values():
                    self.opened.opening.ledger.add(wrong)
                skipped = sorted(made.wrong)
                chunks.append(make_chunk(made.columns, owned=False, skipped=skipped))
            begin = end
        return chunks


# -- with cache=True --
_DAMAGED = "the file that keeps what a map made is damaged; delete it, and it is made again"
_ARRAYS = ("values", "sample_offsets", "element_offsets", "indices")  # of a column
_NEARLY = 1e-3  # of the largest number: processors sum in other orders


def _kept_corpus(
    opened: OpenedMap, look: FirstLook, streams: list[StreamInfo]
) -> StoredCorpus | None:
    """Return the corpus of a map's results, which are computed and kept if they were not.

    None if it cannot be kept: some sequences are damaged, or nothing can be written. DataError
    if the map is wrong at a sequence, and the budget does not hold it; ValueError if the data
    are not read in chunks of files, or nothing is left.
    """
    corpus, wanted = opened.corpus, opened.map
    assert isinstance(corpus, StoredCorpus)
    if corpus.resident or not corpus.files:
        raise ValueError(
            f"{wanted} with cache=True is for files that are read chunk by chunk, such as "
            "text; these data are in memory or read in place: map them without it"
        )
    described = [info.describe() for info in streams]
    kept = KeptPass(corpus, opened.opening, f"{wanted.fingerprint} kept as {described}")
    task = partial(opened.task, opened.call(partial(sizes_made, keeps=True), look.form))
    is_new = False
    if (found := _recalled(kept)) is None:
        with kept.alone() as place:
            if (found := _recalled(kept)) is None:  # no other process has made it meanwhile
                try:
                    kept.keep(_made(opened, task, look.form, kept, place))
                    found, is_new = _recalled(kept), True
                except NotKept as error:
                    warnings.warn(
                        f"what {wanted} makes is not kept {error}, so it is made again "
                        "whenever it is wanted",
                        SweephandHint,
                        stacklevel=2,
                    )
    if found is None:
        return None
    result = _corpus_of(corpus, found, streams)
    if not is_new:
        _compare(result, found, opened, task)
    return result


class NotKept(Exception):
    """The reason why what a map makes is not kept."""


def _data_of(index: Path) -> Path:
    return index.with_name(f"{index.name}.data")


def _recalled(kept: KeptPass) -> PassFindings | None:
    """Return what was kept, if its file is there."""
    if (found := kept.recall()) is None or found.path is None:
        return None
    try:
        file = stat_file(_data_of(found.path))
    except OSError:
        return None
    return found if file.size == found.facts["bytes"] else None


def _corpus_of(
    stored: StoredCorpus, found: PassFindings, streams: list[StreamInfo]
) -> StoredCorpus:
    assert found.path is not None
    file = stat_file(_data_of(found.path))
    kept, expansion = stored.keep(found.counts > 0), Expansion.of(found)
    reader = StoredReader(
        core=_core.read.CallbackDeserializer(
            partial(_load, file, found.arrays["chunks"], streams)
        ),
        streams=streams,
        chunks=expansion.chunks(kept),
        measure=lambda: expansion.sizing(kept),
        resident=False,
        sample_bytes=file.size / max(1, int(found.values.sum(dtype=np.uint64))),
        sized_by_streams=all(one.sized_by_streams for one in stored.readers),
        holds_stored=False,
        open_chunks=stored.open_chunks,
    )
    return expansion.corpus(kept, reader)


def _load(
    file: LocalFile, offsets: NDArray[np.uint64], streams: list[StreamInfo], chunk: int
) -> _core.read.Chunk:
    """Return a chunk; DataError if the bytes are not those that were written."""
    file.check_unchanged()
    offset = int(offsets[chunk])
    with Path(file.path).open("rb") as opened:
        opened.seek(offset)
        try:
            _, packed = read_block(opened)
        except ValueError as error:
            raise DataError(_DAMAGED, file.path, offset) from error
    with np.load(BytesIO(packed), allow_pickle=False) as arrays:
        return make_chunk(
            [_column(number, info, arrays) for number, info in enumerate(streams)]
        )


def _compare(
    kept: StoredCorpus, found: PassFindings, opened: OpenedMap, task: MakeTask
) -> None:
    """Compare the first sequences that are kept with those that are made now."""
    stored = StoredStreams(kept)
    with closing(one_pass(kept, opened.opening.ledger, 1)) as batches:
        for number, now in first_results(opened, task):
            if len(now.made[0]) != found.counts[number]:
                raise stale(opened.map, found, "another number of sequences")
            for samples, (_, batch) in zip(now.made[0], batches, strict=False):
                for name, sequences in stored.sequences_of(batch).items():
                    if not _alike(samples[name], sequences.as_arrays()[0]):
                        how = f"other values of stream {name!r} than those that were kept"
                        raise stale(opened.map, found, how)


def _alike(one: Any, other: Any) -> bool:
    if hasattr(one, "toarray"):
        one, other = one.toarray(), other.toarray()
    if isinstance(one, list):
        return bool(list(one) == other.tolist())
    if one.shape != other.shape or one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    largest = float(np.abs(one[np.isfinite(one)]).max(initial=0))
    return bool(np.allclose(one, other, rtol=0, atol=_NEARLY * largest, equal_nan=True))


def _made(
    opened: OpenedMap,
    task: MakeTask,
    form: SampleForm,
    kept: KeptPass,
    place: Path | None,
) -> PassFindings:
    """Map all sequences, write the results, and return all else that is to be kept."""
    if place is None:
        raise NotKept("(name a folder by SWEEPHAND_CACHE)")
    corpus, wanted = opened.corpus, opened.map
    ends = corpus.chunk_starts.offsets()[1:].tolist()
    waiting = Measured()  # of chunks that are not complete
    with (
        closing(kept.begun(place)) as sizes,
        show_progress(f"keeping what {wanted} makes", corpus.num_sequences) as advance,
    ):
        advance(sizes.num_done)
        for part in parts_of(opened, task, sizes.num_done) if sizes.error is None else ():
            if not part.is_clean:
                sizes.remove()
                raise NotKept("as some sequences are damaged")
            waiting.add(part)
            advance(len(part.sizes))
            while len(sizes.offsets) < len(ends):
                count = ends[len(sizes.offsets)] - sizes.num_done
                if len(waiting.sizes) < count:
                    break
                own, made = waiting.sizes[:count], waiting.made[:count]
                chunk = Measured(own, several=waiting.several, made=made)
                del waiting.sizes[:count], waiting.made[:count]
                sizes.add(chunk, _packed(form, chunk))
            if sizes.error is not None:
                break
        try:
            if sizes.error is not None:
                raise sizes.error
            num_bytes = sizes.keep_as(_data_of(place))
        except OSError as error:
            sizes.remove()
            advice = "make room, or name another folder by SWEEPHAND_CACHE"
            reason = f"in {sizes.path} ({error.strerror or error}; {advice})"
            raise NotKept(reason) from error
    found = sizes.findings()
    arrays = {"chunks": np.array(sizes.offsets, np.uint64)}
    return found._replace(facts={**found.facts, "bytes": num_bytes}, arrays=arrays)


def _packed(form: SampleForm, chunk: Measured) -> bytes:
    """Return what was made of the sequences of a chunk, as a file of NumPy's arrays."""
    samples = [one for several in chunk.made for one in several]
    if not samples:
        return b""
    arrays: dict[str, Any] = {}
    for number, column in enumerate(form.to_columns(samples).values()):
        for name in _ARRAYS:
            if (array := getattr(column, name)) is not None:
                # NumPy's files do not know the types of other libraries.
                plain = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
                arrays[f"{name} {number}"] = plain
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _column(number: int, info: StreamInfo, arrays: Mapping[str, NDArray[Any]]) -> ColumnData:
    names = {name: f"{name} {number}" for name in _ARRAYS}
    held: dict[str, Any] = {
        name: arrays[named] for name, named in names.items() if named in arrays
    }
    values, ends = held.pop("values"), held.get("element_offsets")
    if info.dtype.kind == "V":
        values = values.view(info.dtype)
    num_samples = len(values) if ends is None else len(ends) - 1
    return ColumnData(values, info.dtype, info.shape, num_samples, **held)
