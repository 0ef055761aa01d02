"""The place of a run on its plan, and the delivery of minibatches from there."""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.reader import UNKNOWN_CHUNK
from sweephand.layouts import padding_of
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.share import Position
from sweephand.source.limits import MAX_TIME
from sweephand.source.plan import Plan

if TYPE_CHECKING:
    from sweephand.corpus.calls import CallLock
    from sweephand.corpus.reader import Reader


_CLOSE_SECONDS = 10.0


class Lender(Protocol):
    """A desk that lends the sequences of a source, which serves none meanwhile."""

    @property
    def position(self) -> int:
        """Nominal time at which the desk is."""

    def follow_events(self) -> None:
        """Lend by other events from there on."""


@dataclass(frozen=True, eq=False)
class _Delivery:
    """A plan and its engine. Engines do not hold their cursor, which ends them."""

    plan: Plan
    # those of the corpus of the plan, or they through the cache of the node
    readers: Sequence[Reader]
    cache: Any  # the `NodeReads`, if any comes through a `NodeCache`
    call_locks: Sequence[CallLock]  # of the user's objects that engines call

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the delivery of a plan, with its use of the node's cache."""
        options = plan.options
        call_locks = [
            call_lock for reader in plan.corpus.readers for call_lock in reader.call_locks
        ]
        readers, cache = plan.corpus.readers, None
        if options.node_cache is not None:
            uses = partial(ChunkUses, plan)
            readers, cache = options.node_cache.read_through(plan.corpus, uses)
        return cls(plan, readers, cache, call_locks)

    def make_engine(self) -> _core.engine.Engine:
        """Return an engine at the start of the plan."""
        plan = self.plan
        corpus, layout, options = plan.corpus, plan.layout, plan.options
        assembler = make_assembler(
            corpus,
            layout.assemble_options,
            partial(padding_of, layout),
            load_ahead=options.threads > 0,
            report=plan.opened.ledger.report_by(corpus.ids),
            readers=self.readers,
        )
        return _core.engine.Engine(
            plan.make_planner(),
            assembler,
            # Who waits for maps needs no core: the next minibatches are begun meanwhile.
            options.prefetch if corpus.is_mapped and options.threads else options.threads,
            options.prefetch,
            options.num_threads is None,
            corpus.is_mapped,  # functions of Python, which may hold its lock
            _core.engine.LookAhead(
                plan.order, plan.end, plan.shares_by_lanes, corpus.readers[0].asks_a_store
            ),
        )


class Cursor:
    """The place of a run on a plan, whose corpus it closes, and the delivery from there.

    Safe for several threads, and in a process that is forked from that of the cursor.
    """

    def __init__(self, plan: Plan) -> None:
        self.lender: Lender | None = None  # the desk that lends its sequences
        self.has_run_out = False  # a loop over minibatches has come to the end of data
        self._closed = False
        self._earlier: list[_core.engine.EngineStats] = []
        self._last: tuple[tuple[int, int, int, bool], _core.compose.Request] | None = None
        self._delivery = _Delivery.of(plan)
        self._engine = self._delivery.make_engine()
        # Before the engine goes, whose threads may wait for them.
        weakref.finalize(self, plan.opened.workers.close)

    @property
    def plan(self) -> Plan:
        """Plan that is delivered."""
        return self._delivery.plan

    def request(
        self,
        size: int,
        num_partitions: int = 1,
        partition_index: int = 0,
        *,
        crosses_sweeps: bool = True,
    ) -> _core.compose.Request:
        """Return a request for a minibatch, checked unless it repeats the last."""
        asked = size, num_partitions, partition_index, crosses_sweeps
        last = self._last  # read once: another thread may ask too
        # 4.0 and True are equal to integers, and no sizes or indices.
        are_ints = type(size) is type(num_partitions) is type(partition_index) is int
        if last is not None and last[0] == asked and are_ints:
            return last[1]
        request = self.plan.request(*asked[:3], crosses_sweeps=crosses_sweeps)
        self._last = asked, request
        return request

    def last_size(self) -> int:
        """Return the size that was requested last; 1 where it does not matter."""
        if not self.plan.layout.depends_on_size:
            return 1
        if self._last is None:
            raise ValueError(
                f"with {type(self.plan.layout).__name__} it depends on the minibatch size when "
                "a sequence comes; ask for a minibatch first"
            )
        return self._last[0][0]

    def next(
        self,
        request: _core.compose.Request,
        contents: Contents | None = None,
        device: object = None,
    ) -> Minibatch:
        """Return the next minibatch, by default with every stream under its name."""
        engine = self._own()
        self.check_serves()
        if (cache := self._delivery.cache) is not None:
            cache.publish(engine.time, request.num_workers, request.rank)
        shown = self.plan.contents if contents is None else contents
        return Minibatch(engine.next(request), shown, device)

    def check_serves(self) -> None:
        """Raise RuntimeError if a desk lends the sequences, which would be served twice."""
        if self.lender is not None:
            raise RuntimeError(
                "the source lends by its desk and serves no minibatches: take them by "
                "desk.take(n); desk.load_state_dict moves both"
            )

    @property
    def readers(self) -> Sequence[Reader]:
        """Readers of the corpus, as long as the source is open."""
        self._own()
        return self._delivery.readers

    @property
    def position(self) -> Position:
        """The begin of the next minibatch."""
        if self.lender is not None:
            return Position(self.lender.position)
        return Position.of(self._engine.position)

    @property
    def time(self) -> int:
        """Nominal time at which the next minibatch begins."""
        return self._engine.time if self.lender is None else self.lender.position

    def go_to(self, position: Position) -> None:
        """Go to where a minibatch begins; ValueError if the plan has no such place."""
        self.check_serves()
        self._own().resume(position.to_core())

    def go_to_time(self, time: int) -> None:
        """Go to a nominal time, from inside a sequence to the start of the next sequence."""
        check_int("current_position", time, 0, MAX_TIME)
        self.go_to(Position(time))

    def follow(self, plan: Plan) -> None:
        """Go on from the same place by another plan; nothing is changed if that cannot be."""
        position, old, before = self.position, self._own(), self._delivery
        is_opened = plan.opened is not before.plan.opened
        try:
            delivery = _Delivery.of(plan) if is_opened else replace(before, plan=plan)
            engine = delivery.make_engine()
            engine.resume(position.to_core())
        except BaseException:
            if is_opened:
                plan.opened.workers.close()
            raise
        self._delivery, self._engine = delivery, engine
        if self.lender is not None:
            self.lender.follow_events()
        self._earlier.append(old.stats())
        old.close(_CLOSE_SECONDS)
        if is_opened:
            weakref.finalize(self, plan.opened.workers.close)
            before.plan.opened.workers.close()
            if before.cache is not None:
                before.cache.close()

    def stats(self) -> dict[str, float]:
        """Return counts of the samples that this process has delivered, and their timings."""
        engines = [*self._earlier, self._own().stats()]

        def total(count: Callable[[_core.engine.EngineStats], int]) -> int:
            return sum(map(count, engines))

        cells, samples = total(lambda one: one.cells), total(lambda one: one.samples)
        read = total(lambda one: one.load.waited_ns + one.write.waited_ns)
        decoded = total(lambda one: one.load.total_ns - one.load.waited_ns)
        assembled = total(lambda one: one.write.total_ns - one.write.waited_ns)
        counts: dict[str, float] = {
            "minibatches": total(lambda one: one.minibatches),
            "samples": samples,
            "waited_seconds": total(lambda one: one.waited_ns) * 1e-9,
            "made_ahead": total(lambda one: one.made_ahead),
            "serves_ahead": engines[-1].serves_ahead,
            "read_seconds": read * 1e-9,
            "decode_seconds": decoded * 1e-9,
            "assemble_seconds": assembled * 1e-9,
            "bytes_assembled": total(lambda one: one.bytes_assembled),
            "chunks_loaded": total(lambda one: one.chunks_loaded),
            "chunk_hits": total(lambda one: one.chunk_hits),
            "bytes_loaded": total(lambda one: one.bytes_loaded),
            "bytes_held": engines[-1].bytes_held,
            "fill_ratio": samples / cells if cells else 1.0,
        }
        time, cache = self._engine.time, self._delivery.cache
        for name, before in self.plan.corpus_positions(time).items():
            counts[f"share_of_{name}"] = before / time if time else 0.0
        return counts if cache is None else counts | cache.stats()

    def close(self) -> None:
        """Close, and wait for the threads: 10 seconds for code of the user, then warn."""
        end = time.monotonic() + _CLOSE_SECONDS
        while not self.close_within(0.1):  # here Ctrl-C is heard
            if time.monotonic() < end:
                continue
            calls = sorted(
                {call for call_lock in self._delivery.call_locks for call in call_lock.calls}
            )
            warnings.warn(
                f"the source is closed, but after {_CLOSE_SECONDS:g} s a thread is still in "
                f"{', '.join(calls) or 'the reading of data'}; it ends when that returns",
                RuntimeWarning,
                stacklevel=3,
            )
            return

    def close_within(self, seconds: float) -> bool:
        """Close, wait up to `seconds` for the threads, and return True if they have ended."""
        self._closed = True
        self.plan.opened.workers.close()
        end = time.monotonic() + seconds
        ended = self._engine.forked or (
            self._engine.close(seconds)
            and self.plan.opened.workers.has_ended(max(0.0, end - time.monotonic()))
        )
        if ended and self._delivery.cache is not None:
            self._delivery.cache.close()
        return ended

    def _own(self) -> _core.engine.Engine:
        """Return the engine; a forked child makes a new engine, as it has no threads."""
        if self._closed:
            raise RuntimeError("the source is closed; make a new one")
        for call_lock in self._delivery.call_locks:
            call_lock.check_not_mine()
        if self._engine.forked:
            position = self._engine.position
            self._engine = self._delivery.make_engine()
            self._engine.resume(position)
        return self._engine


class ChunkUses:
    """Times at which the readers of lanes read the chunks of a corpus."""

    def __init__(self, plan: Plan) -> None:
        corpus, options = plan.corpus, plan.options
        # A digest of what numbers the chunks, and of what says when they come.
        order = (
            *corpus.names,
            options.randomization_seed,
            options.randomize,
            options.lanes,
            str(plan.opened.window),
            "" if corpus.has_sweeps else plan.events.fingerprint,  # which change weights
        )
        digest = _core.base.Digest()
        digest.update(repr(order).encode() + corpus.chunk_sequences.tobytes())
        self.timeline = int(digest.hex()[:16], 16)
        # If all chunks of a part are open all the time, or have an order of their own, only the
        # sweep between two uses is known.
        parts = plan.corpus.parts.values()
        opened = plan.order.own_block_chunks
        if not options.randomize:
            opened = [part.open_chunks for part in parts]
        counts = [len(part.chunk_starts) for part in parts]
        is_known = [
            part.order is None and num_open < count
            for part, num_open, count in zip(parts, opened, counts, strict=True)
        ]
        self._is_known = np.repeat(is_known, counts)
        self._uses = _core.order.ChunkUses(plan.order, plan.end, plan.shares_by_lanes)
        self._sweep, self._limit = corpus.core.num_samples, plan.limit

    def next(
        self,
        chunks: NDArray[np.uint64],
        time: int,
        readers: Sequence[tuple[int, int]],
        *,
        skips_one: bool,
    ) -> NDArray[np.uint64]:
        """Return when each chunk is read next; see `next` of ``_core.order.ChunkUses``."""
        later = time + self._sweep if time + self._sweep < self._limit else UNKNOWN_CHUNK
        times = np.full(len(chunks), later, np.uint64)
        known = chunks != UNKNOWN_CHUNK
        known[known] = self._is_known[chunks[known]]
        if known.any():
            lanes = [_core.order.LaneReader(*reader) for reader in readers]
            times[known] = self._uses.next(chunks[known], time, lanes, skips_one)
        return times
