"""The minibatch source: a minibatch is a pure function of corpus, seed and nominal time."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Protocol, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.casts import element_type
from sweephand.checks import check_int
from sweephand.corpus.join import open_all
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamInfo, Streams, name_of
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import DataError, StateError
from sweephand.layouts import Frames, Layout, Ragged, TruncatedBPTT, pad_element
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.planned import PlannedMinibatch
from sweephand.source.at_exit import close_at_exit
from sweephand.source.described import Described, describe_chunks, describe_sizes, room_beside
from sweephand.source.limits import (
    END_OF_TIME,
    FULL_DATA_SWEEP,
    INFINITELY_REPEAT,
    MAX_TIME,
    Limits,
    limit_of_old_name,
)
from sweephand.source.long_sequences import treat_long
from sweephand.source.memory import MemoryNeed
from sweephand.source.old_names import OldOptions, threads_of_old_name
from sweephand.source.state import ORDER_VERSION, State
from sweephand.source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS, Window

DEFAULT_NUM_LANES = 48
_CLOSE_SECONDS = 10.0


class SizeSchedule(Protocol):
    """Minibatch sizes, indexed by the samples seen."""

    def __getitem__(self, samples_seen: int) -> int:
        """Return the size of the minibatch that begins there."""


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


class MinibatchSource:
    """Deliver minibatches in an order that is a pure function of corpus, seed and nominal time.

    Parameters
    ----------
    deserializers : Deserializer, or a list with one
        Where the data come from.
    max_samples : int
        End of the timeline, in samples: a sequence that starts before it is delivered whole.
        ``FULL_DATA_SWEEP`` is one sweep.
    max_sweeps : int
        End of the timeline, in sweeps. At most one of both limits is given.
    randomize : bool
        Shuffle every sweep; False delivers the order of the corpus.
    randomization_window_in_chunks : int
        Chunks that are open at a time over all workers. Given explicitly it holds for every
        deserializer; by default data that are resident or randomly accessible are shuffled as a
        whole, others within 128 chunks. Beside a window in samples 0 means not given; alone it
        is refused: in CNTK it shuffles nothing, which is ``randomize=False``.
    randomization_window_in_samples : int
        The same in samples. At most one of both is given.
    randomization_seed : int
        In [0, 2^64).
    num_lanes : int, optional
        Parts of a sweep that are read side by side, 48 by default; at most as many workers can
        share the data.
    layout : Layout, optional
        `Ragged()` by default.
    frame_mode : bool
        CNTK's spelling of ``layout=Frames()``.
    truncation_length : int
        CNTK's spelling of ``layout=TruncatedBPTT(length)``.
    balance : {None, "samples"}
        None: every worker takes its lanes. "samples": few sequences move so that shares have
        nearly equal numbers of samples.
    missing : {"error", "drop"}
        What a join does with a sequence that another deserializer lacks.
    max_errors : int
        Budget of damaged items that are skipped, counted and listed in `errors`.
    num_threads : int, optional
        Threads that prepare minibatches ahead; 0 prepares each in the caller's thread. By
        default half of the cores, at least 1.
    prefetch : int
        Minibatches that are prepared ahead; 0 is the same as no threads.
    memory_limit : int, optional
        In bytes. A minibatch size that would need more is refused; see `memory_bound`.
    epoch_size : int, optional
        Old name of `max_samples`; deprecated.
    **old
        Other options of CNTK: ``multithreaded_deserializer=False`` is ``num_threads=1``;
        ``trace_level`` is refused, saying what to do instead.

    Raises
    ------
    ValueError
        If settings contradict each other or the corpus cannot be served.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"x": np.arange(6.0), "y": np.arange(6) % 2})
    >>> with sh.MinibatchSource(corpus, randomization_seed=1, max_sweeps=1) as source:
    ...     for minibatch in source.minibatches(4):
    ...         print(minibatch.nominal_time, minibatch.num_samples, minibatch.end_of_sweep)
    0 4 False
    4 2 True
    """

    def __init__(
        self,
        deserializers: Deserializer | Sequence[Deserializer],
        *,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        randomize: bool = True,
        randomization_window_in_chunks: int = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        num_lanes: int | None = None,
        layout: Layout | None = None,
        frame_mode: bool = False,
        truncation_length: int = 0,
        balance: Literal["samples"] | None = None,
        missing: Literal["error", "drop"] = "error",
        max_errors: int = 0,
        num_threads: int | None = None,
        prefetch: int = 2,
        memory_limit: int | None = None,
        epoch_size: int | None = None,
        **old: Unpack[OldOptions],
    ) -> None:
        num_threads = threads_of_old_name(num_threads, old)
        # What a copy in another process is made of.
        self._arguments = {
            name: value for name, value in locals().items() if name not in ("self", "old")
        }
        limits = Limits.check(limit_of_old_name(epoch_size, max_samples), max_sweeps)
        window = Window.check(
            randomize, randomization_window_in_chunks, randomization_window_in_samples
        )
        self._layout = _choose_layout(layout, frame_mode, truncation_length)
        check_int("randomization_seed", randomization_seed, 0, 2**64)
        check_int("max_errors", max_errors, 0, 2**63)
        check_int("prefetch", prefetch, 0, 2**16)
        if balance not in (None, "samples"):
            raise ValueError(f"balance must be None or 'samples', got {balance!r}")
        if balance and not randomize:
            raise ValueError(
                "balance needs randomize=True: unshuffled sequences are dealt in turn"
            )
        if missing not in ("error", "drop"):
            raise ValueError(f"missing must be 'error' or 'drop', got {missing!r}")
        if memory_limit is not None:
            check_int("memory_limit", memory_limit, 1, 2**63)
        self._num_lanes = DEFAULT_NUM_LANES if num_lanes is None else num_lanes
        check_int("num_lanes", self._num_lanes, 1, 2**16)
        self._num_threads = _default_threads() if num_threads is None else num_threads
        check_int("num_threads", self._num_threads, 0, 2**10)
        if prefetch == 0:
            self._num_threads = 0
        self._prefetch = prefetch
        self._randomize = randomize
        self._seed = randomization_seed
        self._balance = balance
        self._memory_limit = memory_limit

        ledger = self._ledger = Ledger(max_errors)
        self._opened = open_all(
            deserializers,
            isinstance(self._layout, Frames),
            missing,
            ledger,
            windowed=window.explicit,
        )
        self._infos = list(self._opened.streams)
        self._keys = {info.name: (i, info) for i, info in enumerate(self._infos)}
        self._layout.check_streams(self._keys)
        size_stream = _size_stream(self._infos)
        sizing, self._corpus = self._opened.measure(size_stream)
        self._opened, self._long = treat_long(self._layout, self._opened, self._corpus)
        if self._long.dropped_sequences:
            sizing, self._corpus = self._opened.measure(size_stream)
        self._layout = self._layout.settle(self._corpus)
        self._window = window.for_corpus(self._opened.resident)
        self._timeline = _core.order.Timeline(
            corpus=self._corpus,
            settings=_core.order.OrderSettings(
                seed=randomization_seed,
                num_lanes=self._num_lanes,
                window_chunks=self._window.chunks,
                window_samples=self._window.samples,
                randomize=randomize,
            ),
        )
        self._memory = MemoryNeed(
            opened=self._opened,
            corpus=self._corpus,
            layout=self._layout,
            largest_chunk_samples=int(sizing.chunk_samples.max()),
            window_chunks=self.num_lanes * self.block_chunks,
            num_threads=self._num_threads,
            prefetch=prefetch,
        )
        self._sizes_known = sizing.fingerprinted
        self._limit = limits.in_samples(self._corpus.num_samples)
        self._end = min(self._limit, END_OF_TIME)
        self._last_request: tuple[tuple[int, int, int], _core.compose.Request] | None = None
        self._state = self._state_at_start()
        self._closed = False
        self._turns = self._opened.turns
        self._engine = self._make_engine()
        close_at_exit(self)

    def next_minibatch(
        self,
        minibatch_size_in_samples: int,
        input_map: Mapping[Any, str | StreamInfo] | None = None,
        device: object = None,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> Minibatch:
        """Return the next minibatch, or this worker's share of it.

        Parameters
        ----------
        minibatch_size_in_samples : int
            Upper bound over all workers; a single longer sequence comes alone.
            ``FULL_DATA_SWEEP`` takes what is left of the sweep.
        input_map : dict, optional
            Key of the result to stream name or info; by default every stream under its name.
        device : torch device or str, optional
            Default device of ``MinibatchData.torch()``.
        num_data_partitions : int
            Workers that share every minibatch. All of them must ask for the same size at the
            same nominal time.
        partition_index : int
            Which of them asks, in ``[0, num_data_partitions)``.

        Returns
        -------
        Minibatch
            Falsy at the end of data, at every further call too.

        Raises
        ------
        ValueError
            If an argument is wrong; the source is unchanged.
        DataError
            If the data are wrong; the position stays, so that another call tries again.
        """
        request = self._request(minibatch_size_in_samples, num_data_partitions, partition_index)
        keys = self._keys if input_map is None else self._map_inputs(input_map)
        engine = self._engine
        if self._turns or self._closed or engine.forked or self._elsewhere is not None:
            engine = self._live_engine()
        batch = engine.next(request)
        return Minibatch(batch, keys, self._layout, self._opened.ids, device)

    def minibatches(
        self,
        size: int | SizeSchedule,
        *,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> Iterator[Minibatch]:
        """Iterate over minibatches until the end of data.

        Parameters
        ----------
        size : int or schedule
            Samples in a minibatch over all workers; a schedule is indexed by the nominal time:
            ``size[time]``.
        num_data_partitions, partition_index : int
            As in `next_minibatch`.
        """
        while True:
            minibatch = self.next_minibatch(
                _size_at(size, self.current_position),
                num_data_partitions=num_data_partitions,
                partition_index=partition_index,
            )
            if not minibatch:
                return
            yield minibatch

    def _next_of(
        self, request: _core.compose.Request
    ) -> tuple[Minibatch, _core.compose.Position]:
        """Return the next minibatch, and where the one after it begins."""
        batch = self._live_engine().next(request)
        minibatch = Minibatch(batch, self._keys, self._layout, self._opened.ids)
        return minibatch, batch.next_position

    def _go_to(self, position: _core.compose.Position) -> None:
        """Go to where a plan said that a minibatch begins."""
        engine = self._own_engine()
        engine.resume(position)
        if self._elsewhere is not None:
            self._elsewhere.move(engine.position)

    def _state_at(self, position: _core.compose.Position) -> dict[str, Any]:
        return replace(
            self._state, position=position.time, progress=position.progress
        ).to_dict()

    def _position(self) -> _core.compose.Position:
        """Return where the next minibatch begins."""
        told = None if self._elsewhere is None else self._elsewhere.position()
        return self._engine.position if told is None else told

    # Set by a loader whose processes deliver.
    _elsewhere: Elsewhere | None = None

    @property
    def current_position(self) -> int:
        """Nominal time in samples of the size-defining stream, where the next minibatch begins.

        It can be set; a place inside a sequence moves at once to the start of the next one.
        """
        return self._engine.time if self._elsewhere is None else self._position().time

    @current_position.setter
    def current_position(self, time: int) -> None:
        check_int("current_position", time, 0, MAX_TIME)
        self._go_to(_core.compose.Position(time, []))

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Return where the source stands: JSON of under 1 kB, for any number of workers."""
        return self._state_at(self._position())

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, in this or in another process.

        Raises
        ------
        StateError
            If it is no state, or was taken of another corpus, seed, window, lanes or layout;
            the source is unchanged.
        """
        found = State.from_dict(state)
        found.check_same_order(self._state)
        try:
            self._go_to(_core.compose.Position(found.position, found.progress))
        except ValueError as error:
            raise StateError(f"the state is of no place in this order: {error}") from None

    state_dict = get_checkpoint_state
    load_state_dict = restore_from_checkpoint

    @property
    def streams(self) -> Streams:
        """The streams by name, also as attributes: ``source.streams.features``."""
        return Streams(self._infos)

    def stream_info(self, name: str | StreamInfo) -> StreamInfo:
        """Return the stream of a name, or of the name that an info has.

        Raises
        ------
        ValueError
            If there is none, naming those that are there.
        """
        name = name_of(name)
        if name not in self._keys:
            raise ValueError(f"no stream {name!r}, there are: {', '.join(self._keys)}")
        return self._keys[name][1]

    def __getitem__(self, name: str | StreamInfo) -> StreamInfo:
        """Return the stream of a name; KeyError if there is none."""
        return self.streams[name]

    @property
    def is_infinite(self) -> bool:
        """Whether the timeline has no end."""
        return self._limit == INFINITELY_REPEAT

    @property
    def num_samples_per_sweep(self) -> int:
        """Samples of one sweep, in the size-defining stream."""
        return self._corpus.num_samples

    @property
    def num_sequences_per_sweep(self) -> int:
        """Sequences of one sweep."""
        return self._corpus.num_sequences

    @property
    def chunk_sequences(self) -> NDArray[np.uint64]:
        """Sequences of every chunk: uint64, shape (chunks,)."""
        return self._opened.chunk_sequences

    @property
    def is_randomized(self) -> bool:
        """Whether sweeps are shuffled."""
        return self._randomize

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self._num_lanes if self._randomize else 1

    @property
    def block_chunks(self) -> int:
        """Chunks that are shuffled together; every lane has one such block open."""
        if not self._randomize:
            return self._opened.open_chunks
        num_chunks = self._corpus.num_chunks
        if self._window.samples:
            chunk_lanes = self._num_lanes * self._corpus.num_samples
            return max(1, self._window.samples * num_chunks // chunk_lanes)
        return (
            max(1, self._window.chunks // self._num_lanes)
            if self._window.chunks
            else num_chunks
        )

    @property
    def layout(self) -> Layout:
        """The layout, with everything decided that follows from lengths."""
        return self._layout

    def sequence_ids(self, start: int, stop: int) -> list[str]:
        """Return the ids of the sequences that start in ``[start, stop)``; nothing is read.

        Those that are not delivered because of a limit are left out. In `Bucketed` and
        `TruncatedBPTT` it holds for the minibatch size that was asked for last.
        """
        check_int("start", start, 0, MAX_TIME)
        check_int("stop", stop, 0, MAX_TIME)
        numbers = self._make_planner().sequences_in(start, stop, self._last_size())
        return self._opened.ids.names(numbers)

    def find(self, sequence_id: str, sweep: int = 0) -> int:
        """Return the nominal time of a sequence in a sweep; nothing is read.

        In layouts of rows it is the time at which the sequence begins inside its row. In
        `Bucketed` and `TruncatedBPTT` it holds for the minibatch size that was asked for last.

        Raises
        ------
        KeyError
            If there is no such sequence.
        ValueError
            If the time depends on the minibatch size and none was asked for yet.
        """
        check_int("sweep", sweep, 0, MAX_TIME // self._corpus.num_samples)
        number = self._opened.ids.number(sequence_id)
        return self._make_planner().find(number, sweep, self._last_size())

    def plan(
        self,
        size: int | SizeSchedule,
        *,
        start: int | None = None,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> Iterator[PlannedMinibatch]:
        """Iterate over what `minibatches` would deliver; nothing is read, nothing moves.

        Parameters
        ----------
        size : int or schedule
            As in `minibatches`.
        start : int, optional
            Nominal time to begin at; by default `current_position`.
        num_data_partitions, partition_index : int
            As in `next_minibatch`.
        """
        return self._plan(size, start, num_data_partitions, partition_index)

    def _plan(
        self,
        size: int | SizeSchedule,
        start: int | None = None,
        workers: int = 1,
        rank: int = 0,
        *,
        crosses_sweeps: bool = True,
    ) -> Iterator[PlannedMinibatch]:
        planner = self._make_planner()
        if start is None:
            planner.resume(self._position())
        else:
            check_int("start", start, 0, MAX_TIME)
            planner.seek(start)
        while True:
            wanted = _size_at(size, planner.time)
            request = self._check_request(wanted, workers, rank, crosses_sweeps=crosses_sweeps)
            plan = planner.next(request)
            if plan.end_of_data:
                return
            yield PlannedMinibatch(plan, self._opened.ids)

    @property
    def errors(self) -> list[DataError]:
        """Damaged items that were skipped, within the budget of ``max_errors``."""
        return list(self._ledger.errors)

    def stats(self) -> dict[str, float]:
        """Return counts since the source was made.

        Returns
        -------
        dict
            ``minibatches`` and ``samples`` delivered to this worker; ``waited_seconds`` by
            callers for minibatches that were not ready; ``bytes_assembled``; ``chunks_loaded``,
            ``chunk_hits``, ``bytes_loaded`` and ``bytes_held`` of chunks that are not resident;
            ``fill_ratio``, samples over the cells of dense arrays so far. Per sweep:
            ``dropped_sequences`` by a join or the layout, ``dropped_samples`` of those that are
            too long for the layout, and ``split_sequences`` with ``split_samples``.
        """
        found = self._own_engine().stats()
        return {
            "minibatches": found.minibatches,
            "samples": found.samples,
            "waited_seconds": found.waited_ns * 1e-9,
            "bytes_assembled": found.bytes_assembled,
            "chunks_loaded": found.chunks_loaded,
            "chunk_hits": found.chunk_hits,
            "bytes_loaded": found.bytes_loaded,
            "bytes_held": found.bytes_held,
            "fill_ratio": found.samples / found.cells if found.cells else 1.0,
            "dropped_sequences": self._opened.num_dropped + self._long.dropped_sequences,
            "dropped_samples": self._long.dropped_samples,
            "split_sequences": self._long.split_sequences,
            "split_samples": self._long.split_samples,
        }

    def memory_bound(self, minibatch_size_in_samples: int) -> int:
        """Return about how many bytes the source holds at most.

        ``window * (1 + borders) + loads + (prefetch + 2) minibatches``. The window is
        ``num_lanes * block_chunks`` of the largest chunks, or nothing if the data are resident.
        Minibatches that are made while the blocks of a window give way to others need both:
        there are as many borders as such minibatches reach over, mostly one. The loads are
        files' chunks as they are stored, held until they are decoded: one for each thread that
        loads ahead, of a store 16. The minibatches are those ahead of the caller, the one that
        is asked for, and the one before it; without threads none is ahead.
        """
        return self._memory.bound(minibatch_size_in_samples)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what makes the same source again, at the same place."""
        position = self._position()
        return _remake, (type(self), self._arguments, position.time, position.progress)

    def close(self) -> None:
        """End the threads and give back memory; arrays that were handed out stay valid.

        Whoever waits for a minibatch is told that the source is closed. Code that makes a chunk
        is waited for, but no more than 10 seconds: then a RuntimeWarning names it, the source
        counts as closed, and its threads end when that code does.
        """
        end = time.monotonic() + _CLOSE_SECONDS
        while not self.close_within(0.1):  # here Ctrl-C is heard
            if time.monotonic() < end:
                continue
            calls = sorted({call for turn in self._turns for call in turn.calls})
            warnings.warn(
                f"the source is closed, but after {_CLOSE_SECONDS:g} s a thread is still in "
                f"{', '.join(calls) or 'the reading of data'}; it ends when that returns",
                RuntimeWarning,
                stacklevel=2,
            )
            return

    def close_within(self, seconds: float) -> bool:
        """Close, wait so long for the threads, and return whether they have ended."""
        self._closed = True
        return self._engine.forked or self._engine.close(seconds)

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the source."""
        self.close()

    def _live_engine(self) -> _core.engine.Engine:
        """Return the engine, standing behind what other processes have delivered."""
        engine = self._own_engine()
        told = None if self._elsewhere is None else self._elsewhere.come_back()
        if told is not None:
            engine.resume(told)
        return engine

    def _own_engine(self) -> _core.engine.Engine:
        """Return the engine; in a forked child a new one, as its threads are not there."""
        if self._closed:
            raise RuntimeError("the source is closed")
        for turn in self._turns:
            turn.check_not_mine()
        if self._engine.forked:
            position = self._engine.position
            self._engine = self._make_engine()
            self._engine.resume(position)
        return self._engine

    def _make_planner(self) -> _core.compose.Planner:
        return self._layout.make_planner(
            self._timeline,
            self._end,
            crosses_sweeps=self._crosses_sweeps,
            balance_samples=self._balance == "samples",
        )

    def _make_engine(self) -> _core.engine.Engine:
        specs = []
        size_stream = _size_stream(self._infos)
        for (member, column), info in zip(self._opened.places, self._infos, strict=True):
            dtype = np.dtype(np.uint8) if info.is_bytes else info.dtype
            pad_value = 0 if info.is_bytes else self._layout.pad_value_of(info.name)
            specs.append(
                _core.engine.StreamSpec(
                    name=info.name,
                    member=member,
                    column=column,
                    type=element_type(dtype),
                    element_bytes=dtype.itemsize,
                    variable=info.is_variable,
                    sample_elements=int(np.prod(info.shape, dtype=np.int64)),
                    broadcast=info.broadcast,
                    counts=info.defines_mb_size
                    if size_stream
                    else self._opened.opened[member].sized_by_streams,
                    pad_value=pad_element(info.name, dtype, pad_value).tobytes(),
                )
            )
        assembler = _core.engine.Assembler(
            self._opened.members,
            specs,
            self._layout.assemble_options(),
            self._num_threads > 0,
            self._ledger.report_by(self._opened.ids),
        )
        return _core.engine.Engine(
            self._make_planner(), assembler, self._num_threads, self._prefetch
        )

    _crosses_sweeps = True

    def _request(self, size: int, workers: int, rank: int) -> _core.compose.Request:
        """Return the request, checked if it is not the last one again."""
        key = (size, workers, rank)
        last = self._last_request  # read once: another thread may ask too
        # Known is known: but 4.0 and True are equal to integers, and no sizes or ranks.
        if last is None or last[0] != key or not all(type(number) is int for number in key):
            last = (key, self._check_request(*key))
            self._last_request = last
        return last[1]

    def _check_request(
        self,
        size: int,
        workers: int,
        rank: int,
        num_skipped: int = 0,
        crosses_sweeps: bool = True,
    ) -> _core.compose.Request:
        check_int("num_data_partitions", workers, 1, 2**31)
        check_int("partition_index", rank, 0, workers)
        by_lanes = self._randomize and self._layout.shares_by_lanes
        if by_lanes and workers > self._num_lanes:
            raise ValueError(
                f"num_data_partitions must be in [1, {self._num_lanes}], the number of lanes, "
                f"got {workers}; a larger num_lanes, which is another order, serves more"
            )
        if size != FULL_DATA_SWEEP:
            check_int("minibatch_size_in_samples", size, 1, 2**63)
        if self._memory_limit is not None:
            needed = self.memory_bound(size)
            if needed > self._memory_limit:
                raise ValueError(
                    f"minibatches of {size} samples need about {needed} bytes, memory_limit is "
                    f"{self._memory_limit}; lower the size, window or prefetch"
                )
        samples = 2**64 - 1 if size == FULL_DATA_SWEEP else size
        return _core.compose.Request(samples, workers, rank, num_skipped, crosses_sweeps)

    def _last_size(self) -> int:
        """Return the size that was asked for last; 1 where it does not matter."""
        if not self._layout.depends_on_size:
            return 1
        if self._last_request is None:
            raise ValueError(
                f"with {type(self._layout).__name__} it depends on the minibatch size when a "
                "sequence comes; ask for a minibatch first"
            )
        return self._last_request[0][0]

    def _map_inputs(
        self, input_map: Mapping[Any, str | StreamInfo]
    ) -> dict[Any, tuple[int, StreamInfo]]:
        return {
            key: self._keys[self.stream_info(stream).name] for key, stream in input_map.items()
        }

    def _state_at_start(self) -> State:
        one_block = self._window.chunks == 0 and self._window.samples == 0
        depends_on_chunks = (self._randomize and not one_block) or not self._sizes_known
        room = room_beside(self._layout.num_progress)
        return State(
            position=0,
            progress=[],
            order_version=ORDER_VERSION,
            names=Described.of(self._opened.names),
            streams=Described.of([info.describe() for info in self._infos], room=room),
            sizes=describe_sizes(self._corpus) if self._sizes_known else "",
            chunks=describe_chunks(self._corpus) if depends_on_chunks else "",
            randomize=self._randomize,
            seed=self._seed,
            window=str(self._window),
            num_lanes=self._num_lanes,
            layout=Described.of([self._layout.describe()], self._layout.summary(), room),
        )


def _remake(
    kind: type[MinibatchSource], arguments: dict[str, Any], time: int, progress: list[int]
) -> MinibatchSource:
    source = kind.__new__(kind)
    MinibatchSource.__init__(source, **arguments)
    source._engine.resume(_core.compose.Position(time, progress))
    return source


def _choose_layout(layout: Layout | None, frame_mode: bool, truncation_length: int) -> Layout:
    check_int("truncation_length", truncation_length, 0, 2**31)
    if frame_mode and truncation_length:
        raise ValueError("frame_mode and truncation_length exclude each other")
    if layout is not None:
        if frame_mode or truncation_length:
            raise ValueError("give a layout, or frame_mode or truncation_length, not both")
        if not isinstance(layout, Layout):
            raise TypeError(f"layout must be a Layout such as sh.Padded(), got {layout!r}")
        return layout
    if truncation_length:
        return TruncatedBPTT(truncation_length)
    return Frames() if frame_mode else Ragged()


def _size_at(size: int | SizeSchedule, time: int) -> int:
    """Return a size as it is, or what a schedule says of a time."""
    is_schedule = hasattr(size, "__getitem__") and not isinstance(size, np.generic)
    return cast(SizeSchedule, size)[time] if is_schedule else cast(int, size)


def _size_stream(infos: Sequence[StreamInfo]) -> str | None:
    chosen = [info.name for info in infos if info.defines_mb_size]
    if len(chosen) > 1:
        raise ValueError(
            f"only one stream can define the minibatch size, got: {', '.join(chosen)}"
        )
    return chosen[0] if chosen else None


def _default_threads() -> int:
    return max(1, (os.cpu_count() or 2) // 2)
