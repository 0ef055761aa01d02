"""Looks at results of a map: at the first, for its streams, and at all, for their sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.casts import whole_number
from sweephand.corpus.columns import ColumnData, describe_stream, offsets_of, ranges
from sweephand.corpus.corpus import Corpus, DerivedOrder, StoredCorpus
from sweephand.corpus.given_data import SampleForm, WrongSamples, count
from sweephand.corpus.ids import PartIds
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing, chunks_between
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo, sizing_streams
from sweephand.errors import DataError, StaleError, SweephandHint, shown
from sweephand.files.index_file import show_progress
from sweephand.maps.functions import Lengths, why_undigested
from sweephand.maps.kept_pass import KeptPass, PassFindings, batch_samples
from sweephand.maps.key import Key, KeyContext
from sweephand.maps.sequence_map import SequenceMap, SizeOf, StoredStreams
from sweephand.maps.task import (
    UNKNOWN,
    MapTask,
    Measured,
    OpenedMap,
    lengths_found,
    no_dict,
    output_alone,
    size_if_kept,
    sizes_made,
)
from sweephand.maps.workers import OpenContext

_MOST_TRIED = 64  # sequences, once streams are known


@dataclass(frozen=True)
class FirstLook:
    """Streams of a map, as its first result shows them."""

    form: SampleForm
    definitions: StreamDefs
    num_samples: int  # of the first sequence
    columns: Mapping[str, ColumnData]

    @property
    def sample_bytes(self) -> float:
        """Bytes of all streams for one sample."""
        return sum(column.num_bytes for column in self.columns.values()) / self.num_samples

    def streams(self, corpus: Corpus, *, keeps_size: bool) -> list[StreamInfo]:
        """Return the streams; ValueError if they contradict their declaration.

        A stream whose one sample comes with a first axis has one per sequence if it had so
        before, if all sequences have one, or if this one has more in others.
        """
        known = {info.name: info.is_single for info in corpus.streams}
        all_single = keeps_size and corpus.core.common_size == 1
        others = self.num_samples > 1
        return [
            describe_stream(
                name,
                column,
                self.definitions[name],
                is_single=name not in self.form.sequence_streams
                or (count(self.form.like[name]) == 1 and known.get(name, all_single or others)),
            )
            for name, column in self.columns.items()
        ]


def look_at_first(opened: OpenedMap) -> FirstLook:
    """Map sequences until a result shows the streams, at best with several samples.

    DataError if none can be mapped, or more fail than the budget holds; ValueError if nothing
    is made of any.
    """
    wrong: list[DataError] = []
    look: FirstLook | None = None
    with closing(one_pass(opened.corpus, opened.opening.ledger, 1)) as batches:
        for number, (numbers, batch) in enumerate(batches):
            if look is not None and number >= _MOST_TRIED:
                break
            if len(numbers) == 0:
                continue
            try:
                found = _look_at(opened, numbers, batch)
            except DataError as error:
                wrong.append(error)
                if len(wrong) > opened.opening.ledger.num_left:
                    break
                continue
            look = look or found
            if found and (opened.corpus.core.common_size or found.num_samples > 1):
                return found
    if wrong and (look is None or len(wrong) > opened.opening.ledger.num_left):
        raise wrong[0]
    if look is not None:
        return look
    raise ValueError(f"nothing is left: {opened.map} makes no samples of any sequence")


def _look_at(
    opened: OpenedMap, numbers: NDArray[np.uint64], batch: _core.engine.Batch
) -> FirstLook | None:
    """Return the streams that a sequence shows, or None if the result is empty."""
    wanted = opened.map
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    task = opened.task(opened.call(output_alone, form), numbers, batch)
    looked: Measured = opened.opening.workers.run_first(task)
    if looked.wrong:
        raise looked.wrong[0]
    (found,) = looked.made
    if isinstance(found, list):
        if wanted.size != "measured":
            problem = "returned a list; one that makes several says size='measured'"
            raise task.error(0, problem)
        if not found:
            return None
        found = found[0]
    if not isinstance(found, Mapping):
        raise task.error(0, no_dict(found))
    if not found:
        raise task.error(0, "returned no stream")
    definitions = wanted.streams
    if definitions is None:
        known = {info.name: info.definition.of_form() for info in opened.corpus.streams}
        definitions = StreamDefs(
            {
                name: replace(known.get(name, StreamDef()), **wanted.declared(name))
                for name in map(str, found)
            }
        )
    # Transforms are functions of the user, which need not go to another process.
    plain = {name: replace(one, transforms=()) for name, one in definitions.items()}
    form = SampleForm(StreamDefs(plain), "sequence", str(wanted), warns=False)
    try:
        form.like = form.convert(found)
    except WrongSamples as error:
        if wanted.size != "same" and error.stream is None:
            return None
        raise task.error(0, str(error), error.stream) from error
    return FirstLook(form, definitions, form.size(form.like), form.to_columns([form.like]))


@dataclass(frozen=True)
class Expansion:
    """Numbers and sizes of the sequences that a map makes, at least one of each input."""

    counts: NDArray[np.uint32]  # how many it makes of each
    sizes: NDArray[np.uint32]  # in samples
    several: bool  # whether it returns lists: of one sequence several may come

    @classmethod
    def of(cls, found: PassFindings) -> Expansion:
        return cls(found.counts[found.counts > 0], found.values, found.facts["several"])

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first of those made of each sequence, and the end."""
        return offsets_of(self.counts)

    @cached_property
    def origins(self) -> NDArray[np.uint64] | None:
        """The stored sequence that each is made of; None: that of the same number."""
        if not self.several:
            return None
        return np.repeat(np.arange(len(self.counts), dtype=np.uint64), self.counts)

    def origins_of(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return numbers if self.origins is None else self.origins[numbers]

    def parts_of(self, numbers: NDArray[np.uint64]) -> Sequence[tuple[int, int]] | None:
        """Return part and count of each given sequence; None where each is the only part."""
        if not self.several:
            return None
        origins = self.origins_of(numbers)
        parts = numbers.astype(np.int64) - self.starts[origins]
        return list(zip(parts.tolist(), self.counts[origins].tolist(), strict=True))

    def sizing(self, stored: StoredCorpus) -> Sizing:
        return Sizing.of(self.sizes, self.chunks(stored))

    def chunks(self, stored: StoredCorpus) -> _core.index.Starts:
        return chunks_between(self.starts[stored.chunk_starts.offsets()])

    def corpus(self, stored: StoredCorpus, reader: Reader) -> StoredCorpus:
        if not self.several:
            return replace(stored, readers=[reader], chunks=None)
        order = stored.order
        if order is not None:
            order = DerivedOrder(
                order,
                stored.num_sequences,
                lambda numbers: ranges(self.starts, numbers.astype(np.int64)).astype(np.uint64),
            )
        ids = PartIds(stored.ids, lambda: self.starts)
        return replace(
            stored,
            readers=[reader],
            ids=ids,
            chunks=None,
            keys=lambda: ids.names(np.arange(len(self.sizes), dtype=np.uint64)),
            order=order,
        )


_COMPARED = 4  # sequences


def first_results(
    opened: OpenedMap, task: MakeTask, heads: Mapping[str, int] | None = None
) -> Iterator[tuple[int, Measured]]:
    """Yield the numbers of the first sequences, and what is made of each now."""
    opening = opened.opening
    with closing(one_pass(opened.corpus, opening.ledger, 1, heads=heads)) as batches:
        for numbers, batch in islice(batches, _COMPARED):
            if len(numbers):
                now: Measured = opening.workers.run_first(task(numbers, batch))
                for wrong in now.wrong.values():
                    raise wrong
                yield int(numbers[0]), now


def stale(wanted: SequenceMap, found: PassFindings, how: str) -> StaleError:
    """Return the error of a map that makes something else than what was kept."""
    return StaleError(
        f"{wanted} makes {how} under its version or digest: what it does depends on something "
        "else, such as a file. Give it another version=, or delete the kept file",
        str(found.path),
    )


def measure(
    opened: OpenedMap, look: FirstLook
) -> tuple[NDArray[np.bool_], Expansion, Mapping[str, NDArray[np.uint32]]]:
    """Return a mask of the sequences with results, the sizes of the results, and their counts.

    Counts are those of carried streams that `Lengths` tell: uint32, shape (results,). DataError
    if the map is wrong at a sequence, and the budget does not hold it; ValueError if nothing is
    left.
    """
    wanted = opened.map
    carried: Mapping[str, NDArray[np.uint32]] = {}
    if isinstance(wanted.size, Lengths):
        found, carried = _lengths(opened, wanted.size, look)
    elif callable(wanted.size):
        found = _declared_sizes(opened, wanted.size)
    else:
        found = _measured(opened, partial(opened.task, opened.call(sizes_made, look.form)))
    kept = found.counts > 0
    if not kept.any():
        raise ValueError(f"nothing is left: {wanted} makes no samples of any sequence")
    expansion = Expansion.of(found)
    return kept, expansion, {name: one[kept] for name, one in carried.items()}


def filtered(corpus: Corpus, wanted: SequenceMap, opening: OpenContext) -> Corpus:
    """Return the corpus of the sequences that a filter keeps.

    DataError if the filter is wrong at a sequence, and the budget does not hold it; ValueError
    if nothing is left.
    """
    opening.workers.check(wanted)
    opened = OpenedMap(StoredStreams(corpus), wanted, opening)
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    kept = _measured(opened, partial(opened.task, opened.call(size_if_kept, form))).counts > 0
    if not kept.any():
        raise ValueError(f"nothing is left: {wanted} keeps no sequence")
    return corpus.keep(kept)


def _one_each(sizes: NDArray[np.uint32]) -> PassFindings:
    """Return the sizes of maps that make one sequence of each, or none where the size is 0."""
    return PassFindings((sizes > 0).astype(np.uint32), sizes[sizes > 0], {"several": False})


def _lengths(
    opened: OpenedMap, lengths: Lengths, look: FirstLook
) -> tuple[PassFindings, Mapping[str, NDArray[np.uint32]]]:
    """Ask for the size and counts of every sequence, in one pass over stored sequences.

    Where heads of samples are enough for most sequences, the others are read again.
    """
    names, defs = lengths.streams, look.definitions
    sizing = [number for number, name in enumerate(names) if name in sizing_streams(defs)]
    if not sizing or not {*names} <= {*defs}:
        raise ValueError(
            f"size= says lengths of {', '.join(names)}: the map makes {', '.join(defs)}, and "
            "one of those lengths must be of a stream that defines the size of a sequence"
        )
    are_bytes = {info.name for info in opened.corpus.streams if info.is_bytes}
    heads = {name: most for name, most in lengths.heads.items() if name in are_bytes}
    table, is_untold = _table_of(opened, lengths, look, sizing, heads)
    if is_untold.any():
        rest = replace(opened, stored=StoredStreams(opened.corpus.keep(is_untold)))
        table[is_untold], _ = _table_of(rest, lengths, look, sizing, {})
    carried = {
        name: table[:, number] for number, name in enumerate(names) if defs[name].carried
    }
    return _one_each(table[:, sizing].max(1)), carried


def _table_of(
    opened: OpenedMap,
    lengths: Lengths,
    look: FirstLook,
    sizing: list[int],
    heads: Mapping[str, int],
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Return the lengths of all sequences, and a mask of those whose heads are too short."""
    names, function = lengths.streams, lengths.of_heads if heads else lengths
    wanted = replace(opened.map, function=function, random=False, batched=False)
    asked = replace(opened, map=wanted)
    call = asked.call(partial(lengths_found, names=names, are_cut=bool(heads)), look.form)
    how = f"{lengths.name}, of {heads}" if heads else lengths.name
    words = _measured(opened, partial(asked.task, call), how, heads)
    table = np.zeros((len(words.counts), len(names)), np.uint32)
    table[:, sizing] = 1  # places of damaged sequences on the timeline
    is_told = words.counts > 1
    told = words.values[np.repeat(is_told, words.counts)].reshape(-1, len(names) + 1)
    table[is_told] = told[:, 1:] - np.uint32(1)
    firsts = words.values[np.cumsum(words.counts) - words.counts]
    return table, ~is_told & (firsts == UNKNOWN)


def _declared_sizes(opened: OpenedMap, size_of: SizeOf) -> PassFindings:
    """Ask the user's function for the size of every sequence."""
    corpus, wanted = opened.corpus, opened.map
    of_all = KeyContext(opened.opening.seed, wanted.name, wanted.version).of_all_sweeps()
    sizes = corpus.core.sizes(0, corpus.num_sequences)
    names = opened.stored.names_of_size()
    found = np.zeros(len(sizes), np.uint32)
    step = 1 << 16
    for begin in range(0, len(sizes), step):
        numbers = np.arange(begin, min(begin + step, len(sizes)), dtype=np.uint64)
        for at, name in enumerate(corpus.ids.names(numbers), begin):
            key, size = Key(of_all, 0, name), int(sizes[at])
            given = {stream: size if wide else 1 for stream, wide in names.items()}
            try:
                returned = size_of(given, key)
            except Exception as error:
                error.add_note(f"raised by size= of {wanted}, at sequence {name!r}")
                raise
            checked = whole_number(returned)
            if checked is None or not 0 <= checked < 2**32:
                raise ValueError(
                    f"size= of {wanted} must return a whole number of samples in [0, 2^32), "
                    f"got {shown(returned)} for {name!r}"
                )
            found[at] = checked
    return _one_each(found)


def _measured(
    opened: OpenedMap, task: MakeTask, how: str = "", heads: Mapping[str, int] | None = None
) -> PassFindings:
    """Return the kept result of an earlier pass, or make a new pass."""
    corpus, wanted = opened.corpus, opened.map
    kept = KeptPass(corpus, opened.opening, f"{wanted.fingerprint} {how}".rstrip())
    if (known := kept.recall()) is not None:
        starts = offsets_of(known.counts)
        for number, now in first_results(opened, task, heads):
            own = known.values[slice(*starts[number:][:2])].tolist()
            if now.sizes[0] != own:
                how = f"sizes {now.sizes[0]} where {own} were kept, at sequence {number},"
                raise stale(wanted, known, how)
        return known
    if (reason := why_undigested(wanted.fingerprint)) and corpus.files:
        warnings.warn(
            f"{wanted} is measured whenever it is opened, as it has no digest ({reason}): give "
            "version=, and another one whenever it changes",
            SweephandHint,
            stacklevel=2,
        )
    count = corpus.num_sequences
    with kept.alone() as place, show_progress(f"measuring {wanted}", count) as advance:
        if (known := kept.recall()) is not None:  # another process has made it meanwhile
            return known
        with closing(kept.begun(place)) as sizes:
            advance(sizes.num_done)
            for part in parts_of(opened, task, sizes.num_done, heads):
                sizes.add(part)
                advance(len(part.sizes))
            found = sizes.findings()
            if sizes.is_clean:
                kept.keep(found)
            sizes.remove()
        return found


MakeTask = Callable[[NDArray[np.uint64], _core.engine.Batch], MapTask]
"""Returns the task for the sequences with these numbers, which are those of a ragged batch."""


def parts_of(
    opened: OpenedMap, task: MakeTask, begin: int, heads: Mapping[str, int] | None = None
) -> Iterator[Measured]:
    """Measure all sequences from `begin`, part by part; damaged ones keep their places.

    Of streams that `heads` names, samples are cut to that many bytes.
    """
    corpus, ledger, done = opened.corpus, opened.opening.ledger, begin
    batches = one_pass(
        corpus, ledger, batch_samples(corpus), begin=begin, load_ahead=True, heads=heads
    )
    for numbers, batch in batches:
        found = Measured()
        for part in opened.opening.workers.run(task(numbers, batch)):
            found.add(part)
            for wrong in part.wrong.values():
                ledger.add(wrong)
        end = int(numbers[-1]) + 1 if len(numbers) else done
        if end - done != len(found.sizes):
            sizes = [[1] for _ in range(end - done)]
            for number, own in zip(numbers.tolist(), found.sizes, strict=True):
                sizes[number - done] = own
            found.sizes, found.is_clean = sizes, False
        done = end
        yield found
    if missing := corpus.num_sequences - done:
        yield Measured([[1]] * missing, is_clean=False)
