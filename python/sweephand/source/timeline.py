"""The timeline of a source: which minibatch comes when, without reading data."""

from __future__ import annotations

from collections.abc import Iterator

from sweephand import _core
from sweephand.checks import check_int
from sweephand.corpus.corpus import Corpus
from sweephand.layouts import Layout
from sweephand.minibatch.planned_minibatch import PlannedMinibatch
from sweephand.source.limits import END_OF_TIME, MAX_TIME
from sweephand.source.requests import Requests, SizeSchedule, size_at
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
        self, corpus: Corpus, layout: Layout, settings: Settings, window: Window
    ) -> None:
        self._corpus = corpus
        self._layout = layout
        self._settings = settings
        self.limit = settings.limits.in_samples(corpus.core.num_samples)
        self._order = _core.order.Timeline(
            corpus=corpus.core,
            settings=_core.order.OrderSettings(
                seed=settings.randomization_seed,
                num_lanes=settings.lanes,
                window_chunks=window.chunks,
                window_samples=window.samples,
                randomize=settings.randomize,
            ),
        )

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self._settings.lanes if self._settings.randomize else 1

    @property
    def block_chunks(self) -> int:
        """Chunks that every lane has open."""
        if not self._settings.randomize:
            return self._corpus.open_chunks
        return self._order.block_chunks

    def make_planner(self) -> _core.compose.Planner:
        """Return what says which sequences make up each minibatch, standing at the start."""
        return _core.compose.Planner(
            self._order, self._layout.planner_choices, min(self.limit, END_OF_TIME)
        )

    def make_chunk_uses(self) -> _core.order.ChunkUses:
        """Return what says when chunks are read."""
        by_lanes = self._settings.randomize and self._layout.shares_by_lanes
        return _core.order.ChunkUses(self._order, min(self.limit, END_OF_TIME), by_lanes)

    def make_look_ahead(self) -> _core.engine.LookAhead:
        """Return what says which chunks will be wanted soon."""
        by_lanes = self._settings.randomize and self._layout.shares_by_lanes
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
