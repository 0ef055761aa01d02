"""The timeline of a source: which minibatch comes when, without reading data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from sweephand import _core
from sweephand.checks import check_int
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.mixing import Mixing
from sweephand.layouts import Layout, Packed
from sweephand.minibatch.label_count import kind_of_corpus
from sweephand.minibatch.planned_minibatch import PlannedMinibatch
from sweephand.source.effects import effects_of
from sweephand.source.limits import END_OF_TIME, INFINITELY_REPEAT, MAX_TIME
from sweephand.source.order import make_order
from sweephand.source.requests import Requests, SizeSchedule, size_at
from sweephand.source.scores import ScoredOrder
from sweephand.source.settings import Settings
from sweephand.source.window import Window


class Timeline:
    """The sweeps of a corpus, laid on nominal time and cut into minibatches.

    Attributes
    ----------
    effects : Effects
        Of the events.
    corpus : Corpus
        The same, with the weights of a mixture as events change them.
    limit : int
        The end, in samples; `INFINITELY_REPEAT` if there is none.
    """

    def __init__(
        self,
        corpus: Corpus,
        layout: Layout,
        settings: Settings,
        window: Window,
        scores: ScoredOrder | None = None,
    ) -> None:
        self._layout = layout
        self._settings = settings
        self._window = window
        self._scores = scores
        self.limit = INFINITELY_REPEAT
        self.effects = effects_of(settings.events, corpus, layout, self)
        self.corpus = corpus = self.effects.corpus
        self._order, self.limit = self._order_of(corpus)
        self._mixed: tuple[Mixing, _core.order.MixedTimeline] | None = None
        if isinstance(self._order, _core.order.MixedTimeline):
            assert corpus.mixing is not None
            self._mixed = corpus.mixing, self._order

    def _order_of(self, corpus: Corpus) -> tuple[_core.order.Timeline, int]:
        return make_order(corpus, self._settings, self._window, self._scores)

    def later_part(self, time: int) -> int:
        """Return the first time from `time` on before which nothing is of a later part."""
        return _common_boundary(self._planners, time)

    @cached_property
    def _planners(self) -> list[_core.compose.Planner]:
        lengths = [None, *(length for _, length in self.effects.rows)]
        return [self._planner(self._order, length) for length in lengths]

    def boundary(self, corpus: Corpus, lengths: Sequence[int | None], time: int) -> int:
        """Return the first time from `time` on at which a part begins in rows of any length."""
        return self._boundary_in(self._order_of(corpus)[0], lengths, time)

    def free_key(self, corpus: Corpus, lengths: Sequence[int | None], time: int) -> int:
        """Return the key from which on other shares change nothing before that boundary."""
        order, _ = self._order_of(corpus)
        assert isinstance(order, _core.order.MixedTimeline)
        return order.free_key(self._boundary_in(order, lengths, time))

    def _boundary_in(
        self, order: _core.order.Timeline, lengths: Sequence[int | None], time: int
    ) -> int:
        return _common_boundary([self._planner(order, length) for length in lengths], time)

    def _planner(
        self, order: _core.order.Timeline, row_length: int | None = None
    ) -> _core.compose.Planner:
        layout = self._layout
        if row_length is not None:
            assert isinstance(layout, Packed)
            layout = replace(layout, row_length=row_length)
        return _core.compose.Planner(order, layout.planner_choices, self._end)

    @property
    def _end(self) -> int:
        return min(self.limit, END_OF_TIME)

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self._settings.lanes if self._settings.randomize else 1

    @property
    def block_chunks(self) -> int:
        """Chunks that every lane has open, of every corpus."""
        if not self._settings.randomize:
            return self.corpus.open_chunks
        return self._order.block_chunks

    @property
    def open_chunks(self) -> int:
        """Chunks that are open at a time, over all lanes."""
        if self._mixed is None:
            return self.num_lanes * self.block_chunks
        if not self._settings.randomize:
            return self.corpus.open_chunks
        mixing, order = self._mixed
        of_each = zip(mixing.corpora, order.own_block_chunks, strict=True)
        return sum(
            min(len(corpus.chunk_sequences), self.num_lanes * blocks)
            for corpus, blocks in of_each
            if not corpus.resident
        )

    @property
    def is_endless(self) -> bool:
        """Whether there is no sweep that could end."""
        return self._mixed is not None and self._mixed[0].at_end == "repeat"

    def corpus_positions(self, time: int) -> dict[str, int]:
        """Return how many samples of every corpus of a mixture begin before a nominal time."""
        if self._mixed is None:
            return {}
        mixing, order = self._mixed
        check_int("time", time, 0, MAX_TIME)
        times = order.own_times(min(time, self.limit))
        return dict(zip(mixing.names, times, strict=True))

    def shares(self, time: int) -> dict[str, float]:
        """Return the share of each corpus of a mixture of all samples before a nominal time."""
        return {
            f"share_of_{name}": samples / time if time else 0.0
            for name, samples in self.corpus_positions(time).items()
        }

    def sweeps_ended_by(self, start: int, stop: int) -> dict[str, int]:
        """Return how many sweeps of every corpus of a mixture end in ``[start, stop)``."""
        if self._mixed is None:
            return {}
        before, behind = self.corpus_positions(start), self.corpus_positions(stop)
        sizes = [corpus.core.num_samples for corpus in self._mixed[0].corpora]
        return {
            name: behind[name] // size - before[name] // size
            for name, size in zip(before, sizes, strict=True)
        }

    def make_planner(self) -> _core.compose.Planner:
        """Return what says which sequences make up each minibatch, standing at the start."""
        rows = self.effects.rows
        begins_otherwise = bool(rows) and rows[0][0] == 0
        planner = self._planner(self._order, rows[0][1] if begins_otherwise else None)
        if not self.effects.change_plans:
            return planner
        changed = _core.compose.EventPlanner(self._order, planner, self.effects.core)
        for begin, row_length in rows[begins_otherwise:]:
            changed.hand_over(begin, self._planner(self._order, row_length))
        return changed

    def make_chunk_uses(self) -> _core.order.ChunkUses:
        """Return what says when chunks are read."""
        by_lanes = self._layout.shares_by_lanes and not self._settings.keeps_order
        return _core.order.ChunkUses(self._order, self._end, by_lanes)

    def make_look_ahead(self) -> _core.engine.LookAhead:
        """Return what says which chunks will be wanted soon."""
        by_lanes = self._layout.shares_by_lanes and not self._settings.keeps_order
        with_open = self.corpus.readers[0].asks_a_store
        end = self._end
        return _core.engine.LookAhead(self._order, end, by_lanes, with_open)

    def sequence_ids(self, start: int, stop: int, minibatch_size: int) -> list[str]:
        """Return the ids of the sequences that start in ``[start, stop)``."""
        check_int("start", start, 0, MAX_TIME)
        check_int("stop", stop, 0, MAX_TIME)
        numbers = self.make_planner().sequences_in(start, stop, minibatch_size)
        return self.corpus.ids.names(numbers)

    def find(self, sequence_id: str, sweep: int, minibatch_size: int) -> int:
        """Return the nominal time of a sequence in a sweep; KeyError if there is none."""
        check_int("sweep", sweep, 0, MAX_TIME // self.corpus.core.num_samples)
        number = self.corpus.ids.number(sequence_id)
        return self.make_planner().find(number, sweep, minibatch_size)

    def plan(
        self,
        start: int | _core.compose.Position,
        size: int | SizeSchedule,
        requests: Requests,
        workers: int = 1,
        rank: int = 0,
        *,
        crosses_sweeps: bool = True,
    ) -> Iterator[PlannedMinibatch]:
        """Iterate over what will be delivered from a place on."""
        planner = self.make_planner()
        labels = kind_of_corpus(self.corpus.streams, self.corpus.core)
        if isinstance(start, int):
            check_int("start", start, 0, MAX_TIME)
            planner.seek(start)
        else:
            planner.resume(start)
        while True:
            wanted = size_at(size, planner.time)
            plan = planner.next(
                requests.check(wanted, workers, rank, crosses_sweeps=crosses_sweeps)
            )
            if plan.end_of_data:
                return
            yield PlannedMinibatch(plan, self.corpus.ids, labels)


def _common_boundary(planners: Sequence[_core.compose.Planner], time: int) -> int:
    found, before = planners[0].boundary(time), None
    # The beginning of a part in one length may be inside a part in another.
    while len(planners) > 1 and found != before and found < END_OF_TIME:
        before = found
        for planner in planners:
            if found < END_OF_TIME:  # behind the end of the data there is none
                found = planner.boundary(found)
    return found
