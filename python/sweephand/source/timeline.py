"""The timeline of a source: which minibatch comes when, without reading data."""

from __future__ import annotations

from collections.abc import Iterator

from sweephand import _core
from sweephand.checks import check_int
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.mixing import Mixing
from sweephand.layouts import Layout
from sweephand.minibatch.planned_minibatch import PlannedMinibatch
from sweephand.source.limits import END_OF_TIME, MAX_TIME
from sweephand.source.order import make_order
from sweephand.source.requests import Requests, SizeSchedule, size_at
from sweephand.source.scores import ScoredOrder
from sweephand.source.settings import Settings
from sweephand.source.window import Window


class Timeline:
    """The sweeps of a corpus, laid on nominal time and cut into minibatches.

    Attributes
    ----------
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
        self._corpus = corpus
        self._layout = layout
        self._settings = settings
        self._order, self.limit = make_order(corpus, settings, window, scores)
        self._mixed: tuple[Mixing, _core.order.MixedTimeline] | None = None
        if isinstance(self._order, _core.order.MixedTimeline):
            assert corpus.mixing is not None
            self._mixed = corpus.mixing, self._order

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self._settings.lanes if self._settings.randomize else 1

    @property
    def block_chunks(self) -> int:
        """Chunks that every lane has open, of every corpus."""
        if not self._settings.randomize:
            return self._corpus.open_chunks
        return self._order.block_chunks

    @property
    def open_chunks(self) -> int:
        """Chunks that are open at a time, over all lanes."""
        if self._mixed is None:
            return self.num_lanes * self.block_chunks
        if not self._settings.randomize:
            return self._corpus.open_chunks
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
        return _core.compose.Planner(
            self._order, self._layout.planner_choices, min(self.limit, END_OF_TIME)
        )

    def make_chunk_uses(self) -> _core.order.ChunkUses:
        """Return what says when chunks are read."""
        by_lanes = self._layout.shares_by_lanes and not self._settings.keeps_order
        return _core.order.ChunkUses(self._order, min(self.limit, END_OF_TIME), by_lanes)

    def make_look_ahead(self) -> _core.engine.LookAhead:
        """Return what says which chunks will be wanted soon."""
        by_lanes = self._layout.shares_by_lanes and not self._settings.keeps_order
        with_open = self._corpus.readers[0].asks_a_store
        end = min(self.limit, END_OF_TIME)
        return _core.engine.LookAhead(self._order, end, by_lanes, with_open)

    def sequence_ids(self, start: int, stop: int, minibatch_size: int) -> list[str]:
        """Return the ids of the sequences that start in ``[start, stop)``."""
        check_int("start", start, 0, MAX_TIME)
        check_int("stop", stop, 0, MAX_TIME)
        numbers = self.make_planner().sequences_in(start, stop, minibatch_size)
        return self._corpus.ids.names(numbers)

    def find(self, sequence_id: str, sweep: int, minibatch_size: int) -> int:
        """Return the nominal time of a sequence in a sweep; KeyError if there is none."""
        check_int("sweep", sweep, 0, MAX_TIME // self._corpus.core.num_samples)
        number = self._corpus.ids.number(sequence_id)
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
            yield PlannedMinibatch(plan, self._corpus.ids)
