"""One pass that measures the results of a map, or finds the sequences that a filter keeps."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import whole_number
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.one_pass import one_pass
from sweephand.corpus.sample_form import SampleForm, Samples
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.errors import SweephandHint, shown
from sweephand.files.index_file import show_progress
from sweephand.maps.digests import why_undigested
from sweephand.maps.expansion import Expansion
from sweephand.maps.first_look import FirstLook
from sweephand.maps.history import guess_seconds
from sweephand.maps.kept_check import KeptCheck
from sweephand.maps.key import Key, KeyContext
from sweephand.maps.lengths import Lengths, sizes_and_counts
from sweephand.maps.measured_store import MeasuredStore, Sizes
from sweephand.maps.measuring_tasks import (
    UNTOLD,
    FilteringTask,
    LengthsTask,
    Measured,
    MeasuringTask,
)
from sweephand.maps.open_context import OpenContext
from sweephand.maps.sequence_map import SequenceMap, SizeOf
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples
_BATCHES_AHEAD = 2


def measure(
    stored: StoredStreams, wanted: SequenceMap, look: FirstLook, opening: OpenContext
) -> tuple[NDArray[np.bool_], Expansion, Mapping[str, NDArray[np.uint32]]]:
    """Return a mask of the sequences with results, the sizes of the results, and their counts.

    Counts are those of carried streams that `Lengths` tell: uint32, shape (results,). DataError
    if the map is wrong at a sequence, and the budget does not hold it; ValueError if nothing is
    left.
    """
    context = KeyContext(opening.seed, wanted.name, wanted.version)

    carried: Mapping[str, NDArray[np.uint32]] = {}
    if isinstance(wanted.size, Lengths):
        found, carried = _lengths(stored, wanted, wanted.size, look, opening)
    elif callable(wanted.size):
        found = _declared_sizes(stored, wanted, wanted.size, context)
    else:
        task = partial(MeasuringTask.of_batch, stored, wanted, look.form, context=context)
        found = _measured(stored, wanted, opening, task)
    kept = found.counts > 0
    if not kept.any():
        raise ValueError(f"nothing is left: {wanted} makes no samples of any sequence")
    expansion = Expansion(found.counts[kept], found.sizes, found.several)
    return kept, expansion, {name: one[kept] for name, one in carried.items()}


def filtered(corpus: Corpus, wanted: SequenceMap, opening: OpenContext) -> Corpus:
    """Return the corpus of the sequences that a filter keeps.

    DataError if the filter is wrong at a sequence, and the budget does not hold it; ValueError
    if nothing is left.
    """
    opening.workers.check(wanted)
    stored = StoredStreams(corpus)
    form = SampleForm(StreamDefs(), "sequence", str(wanted))
    task = partial(FilteringTask.of_batch, stored, wanted, form)
    kept = _measured(stored, wanted, opening, task).counts > 0
    if not kept.any():
        raise ValueError(f"nothing is left: {wanted} keeps no sequence")
    return corpus.keep(kept)


def _lengths(
    stored: StoredStreams,
    wanted: SequenceMap,
    lengths: Lengths,
    look: FirstLook,
    opening: OpenContext,
) -> tuple[Sizes, Mapping[str, NDArray[np.uint32]]]:
    """Ask for the size and counts of every sequence, in one pass over stored sequences.

    Where heads of samples are enough for most sequences, the others are read again.
    """
    names = {info.name for info in stored.corpus.streams if info.is_bytes}
    heads = {name: most for name, most in lengths.heads.items() if name in names}
    sizes, carried, is_untold = _lengths_of(stored, wanted, lengths, look, opening, heads)
    if is_untold.any():
        rest = StoredStreams(stored.corpus.keep(is_untold))
        found = _lengths_of(rest, wanted, lengths, look, opening, {})
        sizes[is_untold] = found[0]
        for name, counts in carried.items():
            counts[is_untold] = found[1][name]
    return _one_each(sizes), carried


def _one_each(sizes: NDArray[np.uint32]) -> Sizes:
    """Return the sizes of maps that make one sequence of each, or none where the size is 0."""
    return Sizes((sizes > 0).astype(np.uint32), sizes[sizes > 0], False)


def _lengths_of(
    stored: StoredStreams,
    wanted: SequenceMap,
    lengths: Lengths,
    look: FirstLook,
    opening: OpenContext,
    heads: Mapping[str, int],
) -> tuple[NDArray[np.uint32], dict[str, NDArray[np.uint32]], NDArray[np.bool_]]:
    """Return sizes and counts of sequences, and a mask of those whose heads are too short."""
    function = lengths.of_heads if heads else lengths
    asked = replace(wanted, function=function, random=False, batched=False)
    task = partial(
        LengthsTask.of_batch,
        stored,
        asked,
        look.form,
        names=lengths.streams,
        are_cut=bool(heads),
    )
    how = f"{lengths.name}, of {heads}" if heads else lengths.name
    words = _measured(stored, wanted, opening, task, how, heads)
    sizes, carried = sizes_and_counts(
        words.sizes, words.counts, lengths.streams, look.definitions
    )
    firsts = words.sizes[np.cumsum(words.counts) - words.counts]
    return sizes, carried, (words.counts == 1) & (firsts == UNTOLD)


def _declared_sizes(
    stored: StoredStreams, wanted: SequenceMap, size_of: SizeOf, context: KeyContext
) -> Sizes:
    """Ask the user's function for the size of every sequence."""
    corpus = stored.corpus
    of_all = context.of_all_sweeps()
    sizes = corpus.core.sizes(0, corpus.num_sequences)
    names = stored.names_of_size()
    found = np.zeros(len(sizes), np.uint32)
    step = 1 << 16
    for begin in range(0, len(sizes), step):
        numbers = np.arange(begin, min(begin + step, len(sizes)), dtype=np.uint64)
        keys = [Key(of_all, 0, name) for name in corpus.ids.names(numbers)]
        for at, (size, key) in enumerate(
            zip(sizes[numbers].tolist(), keys, strict=True), begin
        ):
            given = {name: size if wide else 1 for name, wide in names.items()}
            try:
                returned = size_of(given, key)
            except Exception as error:
                error.add_note(f"raised by size= of {wanted}, at sequence {key.sequence_id!r}")
                raise
            checked = whole_number(returned)
            if checked is None or not 0 <= checked < 2**32:
                raise ValueError(
                    f"size= of {wanted} must return a whole number of samples in [0, 2^32), "
                    f"got {shown(returned)} for {key.sequence_id!r}"
                )
            found[at] = checked
    return _one_each(found)


def _measured(
    stored: StoredStreams,
    wanted: SequenceMap,
    opening: OpenContext,
    task: MakeTask,
    how: str = "",
    heads: Mapping[str, int] | None = None,
) -> Sizes:
    """Return the kept result of an earlier pass, or make a new pass."""
    store = MeasuredStore.of(stored.corpus, f"{wanted.fingerprint} {how}".rstrip())
    if (kept := store.read_index()) is not None:
        _, sizes, path = kept
        KeptCheck(stored, opening, task, f"{wanted} in {path}").sizes(sizes, heads)
        return sizes
    if (reason := why_undigested(wanted.fingerprint)) and stored.corpus.files:
        warnings.warn(
            f"{wanted} is measured whenever it is opened, as it has no digest ({reason}): give "
            "version=, and another one whenever it changes",
            SweephandHint,
            stacklevel=2,
        )
    count = stored.corpus.num_sequences
    with store.begin() as progress, show_progress(f"measuring {wanted}", count) as advance:
        if progress.found is not None:
            return progress.found
        advance(progress.num_done)
        for one in rounds(stored, opening, task, progress.num_done, heads):
            progress.add(one.sizes, several=one.several, is_clean=one.is_clean)
            advance(len(one.sizes))
        return progress.finish()


@dataclass
class Round:
    """Sizes of the sequences that come next in storage order."""

    # see `Measured`
    sizes: list[list[int]] = field(default_factory=list)
    several: bool = False
    made: list[list[Samples]] = field(default_factory=list)
    is_clean: bool = True  # whether none of them is damaged


MakeTask = Callable[[NDArray[np.uint64], _core.engine.Batch], MapTask]
"""Returns the task for the sequences with these numbers, which are those of a ragged batch."""


def rounds(
    stored: StoredStreams,
    opening: OpenContext,
    task: MakeTask,
    begin: int,
    heads: Mapping[str, int] | None = None,
) -> Iterator[Round]:
    """Measure all sequences from `begin`, round by round, with several in flight.

    Of streams that `heads` names, samples are cut to that many bytes.
    """

    def measured(
        numbers: NDArray[np.uint64], batch: _core.engine.Batch
    ) -> tuple[NDArray[np.uint64], list[Any]]:
        wanted = task(numbers, batch)
        costs = guess_seconds(stored.bytes_of(batch) + 1, wanted.guess)
        return numbers, opening.workers.run(wanted, costs)

    samples = max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, stored.corpus.sample_bytes)))
    done = begin
    with ThreadPoolExecutor(_BATCHES_AHEAD, "sweephand-measure") as ahead:
        asked: deque[Future[tuple[NDArray[np.uint64], list[Any]]]] = deque()
        for numbers, batch in one_pass(
            stored.corpus, opening.ledger, samples, begin=begin, heads=heads
        ):
            asked.append(ahead.submit(measured, numbers, batch))
            if len(asked) > _BATCHES_AHEAD:
                one = _round(*asked.popleft().result(), done, opening.ledger)
                done += len(one.sizes)
                yield one
        while asked:
            one = _round(*asked.popleft().result(), done, opening.ledger)
            done += len(one.sizes)
            yield one
    missing = stored.corpus.num_sequences - done
    if missing:
        yield Round([[1]] * missing, is_clean=False)


def _round(
    numbers: NDArray[np.uint64], parts: Iterable[Measured], done: int, ledger: Ledger
) -> Round:
    """Return the sizes of the sequences up to the last of `numbers`, damaged ones included."""
    found = Round()
    for part in parts:
        found.sizes += part.sizes
        found.made += part.made
        found.several = found.several or part.several
        for wrong in part.wrong.values():
            ledger.add(wrong)
            found.is_clean = False
    end = int(numbers[-1]) + 1 if len(numbers) else done
    if end - done != len(found.sizes):  # damaged sequences keep their places
        sizes = [[1] for _ in range(end - done)]
        for number, own in zip(numbers.tolist(), found.sizes, strict=True):
            sizes[number - done] = own
        found.sizes, found.is_clean = sizes, False
    return found
