"""The plan of a source: which minibatch comes when, without reading data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.corpus import ShareChange
from sweephand.corpus.ids import encoded
from sweephand.events.event import Ban, Event, MapVersion, Skip, Weights
from sweephand.events.event_list import EventList
from sweephand.layouts.attention import cost_of, costs_of_items
from sweephand.minibatch.contents import Contents, Keys
from sweephand.minibatch.labels import LabelKind, kind_of_corpus, kind_without_stream
from sweephand.minibatch.share import Position
from sweephand.source.limits import (
    END_OF_TIME,
    FULL_DATA_SWEEP,
    INFINITELY_REPEAT,
    MAX_TIME,
    even_workers,
)
from sweephand.source.open_corpus import OpenCorpus, open_corpus
from sweephand.source.options import SourceOptions
from sweephand.source.schedules import SizeSchedule, size_at

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.corpus.reader import Reader
    from sweephand.corpus.streams import StreamInfo
    from sweephand.layouts import Layout
    from sweephand.minibatch.share import PlannedMinibatch
    from sweephand.source.options import Window
    from sweephand.source.state import State


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans, ascending, with touching spans joined."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


@dataclass(frozen=True)
class Effects:
    """Effects of events on the timeline of a corpus."""

    corpus: Corpus  # with the weights of a mixture as they change
    # spans of nominal time, ascending, apart from each other
    skips: tuple[tuple[int, int], ...] = ()
    # nominal times, ascending, and which sequences are left out from there on
    bans: tuple[tuple[int, NDArray[np.uint64]], ...] = ()
    # nominal times, ascending, that no minibatch reaches over, besides where skips begin
    cuts: tuple[int, ...] = ()

    def after(self, event: Event, options: SourceOptions, opened: OpenCorpus) -> Effects:
        """Return the effects together with those of a later event."""
        if isinstance(event, Ban):
            banned = event.at, self.corpus.ids.numbers_of(event.ids)
            return replace(self, bans=(*self.bans, banned))
        if isinstance(event, Weights):
            order = make_order(self.corpus, options, opened.window)[0]
            boundary = make_planner(order, opened.layout, END_OF_TIME).boundary(event.at)
            change = ShareChange(order.free_key(boundary), event.weights)
            return replace(self, corpus=self.corpus.changed(change))
        if isinstance(event, MapVersion):  # maps see to the rest
            return replace(self, cuts=(*self.cuts, event.at))
        return self  # of skips all at once, as they may overlap

    @property
    def change_plans(self) -> bool:
        """True if events change minibatches beyond the order and the layout."""
        return bool(self.skips or self.bans or self.cuts)

    @cached_property
    def core(self) -> _core.compose.Events:
        """The same for the core, but for weights."""
        bans = _core.compose.Bans(sum(len(numbers) for _, numbers in self.bans))
        for at, numbers in self.bans:
            bans.add(at, numbers)
        skips = [_core.compose.Skip(begin, end) for begin, end in self.skips]
        return _core.compose.Events(skips, list(self.cuts), bans)


@dataclass(frozen=True, eq=False)
class Plan:
    """The sweeps of a corpus, laid on nominal time, changed by events and cut into minibatches.

    It is immutable and reads no data: any number of threads may ask it.
    """

    options: SourceOptions
    opened: OpenCorpus  # before events change it, with its layout and window
    events: EventList
    # a minibatch may hold the end of one sweep and the beginning of the next
    crosses_sweeps: bool = True

    @classmethod
    def open(
        cls, options: SourceOptions, events: EventList, *, crosses_sweeps: bool = True
    ) -> Plan:
        """Open the corpus of the options; ValueError if it does not fit these or the events."""
        opened = open_corpus(options, events)
        try:
            return cls(options, opened, events, crosses_sweeps)
        except BaseException:
            opened.workers.close()
            raise

    def __post_init__(self) -> None:
        _ = self.limit  # an event that does not fit is an error here

    def with_events(self, events: EventList) -> Plan:
        """Return the plan with other events; other versions of maps open the corpus anew."""
        if events.opening != self.events.opening:
            return Plan.open(self.options, events, crosses_sweeps=self.crosses_sweeps)
        return replace(self, events=events)

    @cached_property
    def effects(self) -> Effects:
        """The effects of the events."""
        effects = Effects(self.opened.corpus)
        for event in self.events.in_time:
            try:
                effects = effects.after(event, self.options, self.opened)
            except (KeyError, TypeError, ValueError) as error:
                reason = error.args[0] if error.args else error
                raise ValueError(f"the event {event.name!r} at {event.at}: {reason}") from error
        skips = _joined([(one.at, one.stop) for one in self.events if isinstance(one, Skip)])
        return replace(effects, skips=tuple(skips))

    @property
    def corpus(self) -> Corpus:
        """The sequences that are served, of a mixture with weights as events change them."""
        return self.effects.corpus

    @property
    def layout(self) -> Layout:
        """The layout, with everything decided that follows from lengths."""
        return self.opened.layout

    @cached_property
    def _order_and_limit(self) -> tuple[_core.order.Timeline, int]:
        return make_order(self.corpus, self.options, self.opened.window)

    @cached_property
    def _cost(self) -> _core.compose.Cost | None:
        """The cost that evens shares, with that of carried streams."""
        balance = self.options.balance
        counts = self.corpus.counts
        sizes = {
            name: _core.index.StoredSizes(counts[name]) for name in costs_of_items(balance)
        }
        return cost_of(balance, sizes)

    @property
    def order(self) -> _core.order.Timeline:
        """The order of the sequences."""
        return self._order_and_limit[0]

    @property
    def limit(self) -> int:
        """The end of the timeline, in samples; `INFINITELY_REPEAT` if there is none."""
        return self._order_and_limit[1]

    @property
    def is_infinite(self) -> bool:
        """True if the timeline has no end."""
        return self.limit == INFINITELY_REPEAT

    @property
    def end(self) -> int:
        """The end of the timeline as the core counts it."""
        return min(self.limit, END_OF_TIME)

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self.options.lanes if self.options.randomize else 1

    @property
    def block_chunks(self) -> int:
        """Chunks that every lane has open, of every corpus."""
        return self.order.block_chunks if self.options.randomize else self.corpus.open_chunks

    @property
    def open_chunks(self) -> int:
        """Chunks that are open at a time, over all lanes."""
        if not self.options.randomize:
            return self.corpus.open_chunks
        of_each = zip(self.corpus.parts.values(), self.order.own_block_chunks, strict=True)
        return sum(
            min(len(corpus.chunk_starts), self.num_lanes * blocks)
            for corpus, blocks in of_each
            if not corpus.resident
        )

    @property
    def shares_by_lanes(self) -> bool:
        """True if each worker takes the sequences of its lanes."""
        return self.layout.fits_in_order and self.options.randomize

    def memory_bound(self, size: int) -> int:
        """Return about how many bytes are held at most; see `MinibatchSource.memory_bound`."""
        corpus, layout = self.opened.corpus, self.layout
        size = min(size, corpus.core.num_samples)
        first = min(corpus.chunk_starts.bounds(0)[1], _FEW_SEQUENCES)
        cells = layout.num_cells(size, lambda: corpus.core.sizes(0, first))
        # Masks and marks of every cell of a stream.
        is_dense = layout.form is not _core.engine.Form.RAGGED
        marks = (is_dense + 8 * layout.has_segments) * len(corpus.streams)
        ahead = self.options.prefetch if self.options.threads else 0
        held = int((ahead + 2) * cells * (corpus.sample_bytes + marks))
        return held if corpus.resident else held + self._window_bytes(size)

    def _window_bytes(self, size: int) -> int:
        corpus, num_threads = self.opened.corpus, self.options.threads
        num_chunks = len(corpus.chunk_starts)
        window = min(num_chunks, self.open_chunks)
        window_samples = corpus.core.num_samples * window / num_chunks
        made_at_once = size * (num_threads + 1)
        at_hand = self.layout.samples_at_hand(math.ceil(window_samples))
        ahead = _LOADED_AHEAD if num_threads and corpus.readers[0].load_threads else 0
        borders = math.ceil((made_at_once + at_hand) / window_samples + ahead)
        chunks = min(num_chunks, window * (1 + borders))
        # Chunks are held as they are stored, too, while they are loaded.
        stored = max(one.load_threads * one.holds_stored for one in corpus.readers)
        loads = min(chunks, stored if num_threads else 1)
        if any(reader.is_parsed for reader in corpus.readers):
            # Columns grow by doubling, in each thread that parses and in the caller's.
            loads += min(loads, num_threads + 1)
        # The largest chunk, with its share of the plans. Values are known from what is stored
        # or, where they are parsed, from their number and type.
        sequences = corpus.chunk_sequences.astype(np.float64)
        samples = corpus.sizing.chunk_samples.astype(np.float64)
        block = _WORD * sequences
        largest = block + sum(_bytes_of(one, sequences, samples) for one in corpus.readers)
        return int((chunks + loads) * (int(largest.max()) + 1))

    @cached_property
    def contents(self) -> Contents:
        """Of minibatches with every stream under its name."""
        return self._contents_of(self._keys)

    @cached_property
    def _keys(self) -> dict[str, tuple[int, StreamInfo]]:
        return {info.name: (i, info) for i, info in enumerate(self.corpus.streams)}

    def contents_by(self, names: Mapping[Any, str]) -> Contents:
        """Return the parts that all minibatches share, with streams by other keys."""
        return self._contents_of({key: self._keys[name] for key, name in names.items()})

    def _contents_of(self, keys: Keys) -> Contents:
        return Contents(keys, self.layout, self.corpus.ids, self, self._unlabelled)

    @cached_property
    def _unlabelled(self) -> LabelKind:
        return kind_without_stream(self.corpus.streams, self.corpus.core)

    # Sweeps, and the corpora of a mixture

    def check_has_sweeps(
        self,
        wanted: str,
        instead: str = "source.minibatches(size), and give max_samples to the source",
    ) -> None:
        """Raise ValueError if there is no single corpus whose sweep could be `wanted`."""
        if self.corpus.at_end != "stop":
            raise ValueError(
                f"{wanted} is one sweep of one corpus, and a mixture has several; write "
                f"{instead}"
            )

    @property
    def sweep_samples(self) -> int:
        """Samples of one sweep; of a mixture those of all corpora."""
        return self.corpus.core.num_samples

    def end_of_sweep(self, time: int) -> int:
        """Return the nominal time at which the sweep of `time` ends."""
        return (time // self.sweep_samples + 1) * self.sweep_samples

    def corpus_positions(self, time: int) -> dict[str, int]:
        """Return how many samples of every corpus of a mixture begin before a nominal time."""
        if self.corpus.has_sweeps:
            return {}
        check_int("time", time, 0, MAX_TIME)
        times = self.order.own_times(min(time, self.limit))
        return dict(zip(self.corpus.parts, times, strict=True))

    def sweeps_ended_by(self, start: int, stop: int) -> dict[str, int]:
        """Return how many sweeps of every corpus of a mixture end in ``[start, stop)``."""
        before, after = self.corpus_positions(start), self.corpus_positions(stop)
        sizes = {name: part.core.num_samples for name, part in self.corpus.parts.items()}
        return {
            name: after[name] // sizes[name] - before[name] // sizes[name] for name in before
        }

    # Minibatches

    def request(
        self,
        size: int,
        num_partitions: int = 1,
        partition_index: int = 0,
        *,
        crosses_sweeps: bool = True,
    ) -> _core.compose.Request:
        """Return a request for a minibatch; ValueError if it cannot be served."""
        check_int("num_data_partitions", num_partitions, 1, 2**31)
        check_int("partition_index", partition_index, 0, num_partitions)
        lanes = self.options.lanes
        if self.shares_by_lanes and num_partitions > lanes:
            even = ", ".join(map(str, even_workers(lanes)))
            raise ValueError(
                f"num_data_partitions must be in [1, {lanes}], the number of lanes, "
                f"got {num_partitions}; {even} have equally many lanes each; a larger "
                "num_lanes, which is another order, serves more"
            )
        given: object = size
        is_sweep = isinstance(given, Integral) and given == FULL_DATA_SWEEP
        if not is_sweep:
            check_int("minibatch_size_in_samples", size, 1, 2**63)
        elif self.corpus.at_end == "repeat":
            raise ValueError("a mixture that repeats has no sweep: give a number of samples")
        memory_limit = self.options.memory_limit
        if memory_limit is not None and (needed := self.memory_bound(size)) > memory_limit:
            raise ValueError(
                f"minibatches of {size} samples need about {needed} bytes, memory_limit is "
                f"{memory_limit}; lower the size, window or prefetch"
            )
        return _core.compose.Request(
            2**64 - 1 if is_sweep else size,
            num_partitions,
            partition_index,
            crosses_sweeps=crosses_sweeps and self.crosses_sweeps,
            balance=self._cost,
        )

    def whole_request(self, size: int, *, crosses_sweeps: bool) -> _core.compose.Request:
        """Return an unchecked request for all of a minibatch."""
        balance = self._cost
        return _core.compose.Request(size, 1, 0, crosses_sweeps=crosses_sweeps, balance=balance)

    def make_planner(self) -> _core.compose.Planner:
        """Return a planner of minibatches, at the start of the timeline."""
        planner = make_planner(self.order, self.layout, self.end)
        if not self.effects.change_plans:
            return planner
        return _core.compose.EventPlanner(self.order, planner, self.effects.core)

    def minibatches(
        self,
        start: int | Position,
        size: int | SizeSchedule,
        num_partitions: int = 1,
        partition_index: int = 0,
        *,
        crosses_sweeps: bool = True,
    ) -> Iterator[PlannedMinibatch]:
        """Iterate over the minibatches from a place on, or a worker's shares of them."""
        from sweephand.minibatch.share import PlannedMinibatch

        planner = self.make_planner()
        labels = kind_of_corpus(self.corpus.streams, self.corpus.core)
        if isinstance(start, Position):
            planner.resume(start.to_core())
        else:
            check_int("start", start, 0, MAX_TIME)
            planner.seek(start)
        share = num_partitions, partition_index
        while True:
            now = size_at(size, planner.time)
            plan = planner.next(self.request(now, *share, crosses_sweeps=crosses_sweeps))
            if plan.end_of_data:
                return
            yield PlannedMinibatch(plan, self.corpus.ids, labels)

    def count_equal(self, begin: int, end: int, size: int | SizeSchedule) -> int | None:
        """Return the number of minibatches of a time, or None if it has to be planned."""
        length = self.corpus.core.common_size  # 0: lengths differ
        is_simple = length and self.layout.fits_in_order
        if not is_simple or not isinstance(size, int):
            return None
        sequences = -(-max(0, end - begin) // length)
        return -(-sequences // max(1, size // length))

    def sequence_ids(self, start: int, stop: int, size: int) -> list[str]:
        """Return the ids of the sequences that start in ``[start, stop)``."""
        check_int("start", start, 0, MAX_TIME)
        check_int("stop", stop, 0, MAX_TIME)
        return self.corpus.ids.names(self.make_planner().sequences_in(start, stop, size))

    def find(self, sequence_id: str, sweep: int, size: int) -> int:
        """Return the nominal time of a sequence in a sweep; KeyError if there is none."""
        check_int("sweep", sweep, 0, MAX_TIME // self.sweep_samples)
        number = self.corpus.ids.number_of(sequence_id)
        return self.make_planner().find(number, sweep, size)

    @cached_property
    def state(self) -> State:
        """State of the start; computed on demand, as it looks at all lengths."""
        from sweephand.source.state import State

        opened = self.opened
        return State.at_start(opened.corpus, opened.layout, self.options, opened.window)

    def state_at(self, position: Position) -> dict[str, Any]:
        """Return the state of a source at a place: JSON of under 1 kB."""
        return replace(
            self.state,
            position=position.time,
            progress=list(position.progress),
            events=self.events.fingerprint,
        ).to_dict()

    @cached_property
    def order_description(self) -> dict[str, Any]:
        """All that decides the order, but for events, with the fingerprint of all ids."""
        corpus = self.opened.corpus
        described = self.state.to_dict()
        for name in ("position", "progress", "version"):
            del described[name]
        return {**described, "ids": corpus.ids.fingerprint(corpus.num_sequences)}


_FEW_SEQUENCES = 10_000
_LOADED_AHEAD = 0.25  # of a window: cpp/engine/engine.hpp
_WORD = 8  # bytes of an offset, of a number as it is parsed, and of a place in a block
_MOST_GROWTH = 8  # of numbers that are parsed: a byte of a record is a word
_ROOM = 1.25  # a column that grew gives back what is more than a quarter
_SPARSE_GROWTH = 3  # a pair of four bytes is a word and an index of four

Counts = NDArray[np.float64]


def _bytes_of(reader: Reader, sequences: Counts, samples: Counts) -> Counts:
    stored = samples * reader.sample_bytes
    offsets = np.zeros_like(stored)
    numbers = np.zeros_like(stored)
    for info in reader.streams:
        counts = sequences if info.is_single else samples
        offsets += 0 if info.is_single else _WORD * (sequences + 1)
        if info.is_variable:
            offsets += _WORD * (counts + 1)
        else:
            least = _WORD if info.dtype.kind in "biu" else reader.float_bytes
            word = max(least, info.dtype.itemsize)
            numbers += counts * math.prod(info.shape) * word
    if not reader.is_parsed:
        return stored + offsets
    parsed = np.minimum(numbers, _MOST_GROWTH * stored)
    if any(info.is_sparse for info in reader.streams):
        parsed += _SPARSE_GROWTH * stored
    elif any(info.is_bytes for info in reader.streams):
        parsed += stored
    return _ROOM * (np.maximum(stored, parsed) + offsets)


_OF_A_CORPUS = 10  # the purpose of a key: docs/order.md, "Mixtures"


def make_order(
    corpus: Corpus, options: SourceOptions, window: Window
) -> tuple[_core.order.Timeline, int]:
    """Return the order of a corpus, and its end in samples or INFINITELY_REPEAT."""

    def settings_of(part: Corpus, name: str) -> _core.order.OrderSettings:
        own, seed = window, options.randomization_seed
        if name:
            own = options.window.of(part)
            digest = _core.base.name_digest(encoded(name))
            seed = _core.base.derive_key([1, seed, _OF_A_CORPUS, digest])
        return _core.order.OrderSettings(
            seed=seed,
            num_lanes=options.lanes,
            window_chunks=own.chunks,
            window_samples=own.samples,
            randomize=options.randomize,
        )

    return corpus.timeline(settings_of, options.limits)


def make_planner(
    order: _core.order.Timeline, layout: Layout, end: int
) -> _core.compose.Planner:
    """Return the planner of minibatches of an order, at its start; `end` is in samples."""
    if getattr(layout, "micro_batch_cells", None) is not None:
        raise ValueError("micro_batch_cells is for plan_lengths; a source has no such parts")
    return _core.compose.Planner(order, layout.planner_choices, end)


class WholePlans:
    """Minibatches of a plan for all workers together, from any place on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._planner = plan.make_planner()
        self._request = plan.whole_request(1, crosses_sweeps=True)
        self._place = _core.compose.Position(self._planner.time, [])

    @property
    def position(self) -> Position:
        """The begin of the next minibatch."""
        return Position.of(self._place)

    def go_to(self, position: Position) -> None:
        """Go to where a minibatch begins."""
        if position != self.position:
            self._place = position.to_core()
            self._planner.resume(self._place)

    def next(self, num_samples: int, *, crosses_sweeps: bool) -> _core.compose.Plan:
        """Return the next minibatch; ValueError if the request cannot be served."""
        last = self._request
        if last.num_samples != num_samples or last.crosses_sweeps is not crosses_sweeps:
            self._request = self._plan.whole_request(num_samples, crosses_sweeps=crosses_sweeps)
        plan = self._planner.next(self._request)
        self._place = plan.next
        return plan
