"""Delivers minibatches: made ahead by this process's engine, or elsewhere by a loader's."""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from sweephand import _core
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.read_through import CacheUse
from sweephand.corpus.streams import StreamInfo
from sweephand.corpus.turns import Turn
from sweephand.layouts import Layout, pad_element
from sweephand.maps.workers import MapWorkers
from sweephand.source.settings import Settings
from sweephand.source.timeline import Timeline

_CLOSE_SECONDS = 10.0


class Elsewhere(Protocol):
    """What knows of other processes that deliver a source's minibatches."""

    def position(self) -> _core.compose.Position | None:
        """Return where the next minibatch begins, or None if the source itself knows.

        Raises
        ------
        RuntimeError
            If nobody can know.
        """

    def come_back(self) -> _core.compose.Position | None:
        """Return the same, and leave it to the source from now on."""

    def move(self, position: _core.compose.Position) -> None:
        """Begin at another place."""

    def change(self) -> None:
        """Deliver something else from there on."""


class Delivery:
    """The engine of a source, in whichever process it is used.

    Parameters
    ----------
    make_engine : callable
        Returns an engine that stands at the start.
    turns : sequence of Turn
        Of the user's objects that the engine calls.
    workers : MapWorkers
        What maps run on.
    cache_use : CacheUse
        Is told where the source stands, and when it is closed.

    Attributes
    ----------
    elsewhere : Elsewhere or None
        Set by a loader whose processes deliver.
    """

    def __init__(
        self,
        make_engine: Callable[[], _core.engine.Engine],
        turns: Sequence[Turn],
        workers: MapWorkers,
        cache_use: CacheUse,
    ) -> None:
        self._make_engine = make_engine
        self._workers = workers
        self._turns = turns
        self._cache_use = cache_use
        self._closed = False
        self._earlier: list[_core.engine.EngineStats] = []
        self.elsewhere: Elsewhere | None = None
        self._engine = make_engine()
        # Before the engine goes, whose threads may wait for them.
        weakref.finalize(self, workers.close)

    def next(self, request: _core.compose.Request) -> _core.engine.Batch:
        """Return the next minibatch."""
        engine = self._engine
        if self._turns or self._closed or engine.forked or self.elsewhere is not None:
            engine = self._own()
            told = None if self.elsewhere is None else self.elsewhere.come_back()
            if told is not None:
                engine.resume(told)
        if self._cache_use.is_told:
            self._cache_use.stand(engine.time, request.num_workers, request.rank)
        return engine.next(request)

    @property
    def position(self) -> _core.compose.Position:
        """Where the next minibatch begins."""
        told = None if self.elsewhere is None else self.elsewhere.position()
        return self._engine.position if told is None else told

    @property
    def own_position(self) -> _core.compose.Position:
        """Where this process would go on, whatever others have delivered."""
        return self._engine.position

    @property
    def time(self) -> int:
        """Nominal time at which it begins."""
        return self._engine.time if self.elsewhere is None else self.position.time

    def go_to(self, position: _core.compose.Position) -> None:
        """Go to where a plan said that a minibatch begins."""
        engine = self._own()
        engine.resume(position)
        if self.elsewhere is not None:
            self.elsewhere.move(engine.position)

    def remake(self, make_engine: Callable[[], _core.engine.Engine]) -> None:
        """Go on from the same place with engines of another making.

        Raises
        ------
        ValueError
            If they have no such place: nothing is changed.
        """
        position, old = self.position, self._own()
        engine = make_engine()
        engine.resume(position)
        self._make_engine, self._engine = make_engine, engine
        if self.elsewhere is not None:
            self.elsewhere.change()
        self._earlier.append(old.stats())
        old.close(_CLOSE_SECONDS)

    def follow(self, before: Delivery) -> None:
        """Take the place of another delivery, which is closed."""
        self._earlier = before.stats()
        self.elsewhere = before.elsewhere
        if self.elsewhere is not None:
            self.elsewhere.change()
        before.close()

    def stats(self) -> list[_core.engine.EngineStats]:
        """Return what was delivered by this process, and what it took, engine by engine."""
        return [*self._earlier, self._own().stats()]

    def close(self) -> None:
        """Close, and wait for the threads: 10 seconds for code of the user, then warn."""
        end = time.monotonic() + _CLOSE_SECONDS
        while not self.close_within(0.1):  # here Ctrl-C is heard
            if time.monotonic() < end:
                continue
            calls = sorted({call for turn in self._turns for call in turn.calls})
            warnings.warn(
                f"the source is closed, but after {_CLOSE_SECONDS:g} s a thread is still in "
                f"{', '.join(calls) or 'the reading of data'}; it ends when that returns",
                RuntimeWarning,
                stacklevel=3,
            )
            return

    def close_within(self, seconds: float) -> bool:
        """Close, wait so long for the threads, and return whether they have ended."""
        self._closed = True
        self._workers.close()
        end = time.monotonic() + seconds
        ended = self._engine.forked or (
            self._engine.close(seconds)
            and self._workers.has_ended(max(0.0, end - time.monotonic()))
        )
        if ended:
            self._cache_use.close()
        return ended

    def _own(self) -> _core.engine.Engine:
        """Return the engine; in a forked child a new one, as its threads are not there."""
        if self._closed:
            raise RuntimeError("the source is closed; make a new one")
        for turn in self._turns:
            turn.check_not_mine()
        if self._engine.forked:
            position = self._engine.position
            self._engine = self._make_engine()
            self._engine.resume(position)
        return self._engine


def make_engine(
    corpus: Corpus, layout: Layout, timeline: Timeline, settings: Settings, ledger: Ledger
) -> _core.engine.Engine:
    """Return what makes minibatches ahead, standing at the start of the timeline."""

    def padding_of(info: StreamInfo) -> bytes:
        dtype = np.dtype(np.uint8) if info.is_bytes else info.dtype
        pad_value = 0 if info.is_bytes else layout.pad_value_of(info.name)
        return pad_element(info.name, dtype, pad_value).tobytes()

    assembler = make_assembler(
        corpus,
        layout.assemble_options,
        padding_of,
        load_ahead=settings.threads > 0,
        report=ledger.report_by(corpus.ids),
    )
    return _core.engine.Engine(
        timeline.make_planner(),
        assembler,
        # Who waits for maps needs no core: the next minibatches are begun meanwhile.
        settings.prefetch if corpus.is_mapped and settings.threads else settings.threads,
        settings.prefetch,
        timeline.make_look_ahead(),
    )


def counts_of(engines: Sequence[_core.engine.EngineStats]) -> dict[str, float]:
    """Return what engines, one after the other, have delivered, and what it took."""

    def total(count: Callable[[_core.engine.EngineStats], int]) -> int:
        return sum(map(count, engines))

    cells, samples = total(lambda one: one.cells), total(lambda one: one.samples)
    read = total(lambda one: one.load.waited_ns + one.write.waited_ns)
    return {
        "minibatches": total(lambda one: one.minibatches),
        "samples": samples,
        "waited_seconds": total(lambda one: one.waited_ns) * 1e-9,
        "read_seconds": read * 1e-9,
        "decode_seconds": total(lambda one: one.load.total_ns - one.load.waited_ns) * 1e-9,
        "assemble_seconds": total(lambda one: one.write.total_ns - one.write.waited_ns) * 1e-9,
        "bytes_assembled": total(lambda one: one.bytes_assembled),
        "chunks_loaded": total(lambda one: one.chunks_loaded),
        "chunk_hits": total(lambda one: one.chunk_hits),
        "bytes_loaded": total(lambda one: one.bytes_loaded),
        "bytes_held": engines[-1].bytes_held,
        "fill_ratio": samples / cells if cells else 1.0,
    }
