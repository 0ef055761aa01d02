"""The minibatch source: a minibatch is a pure function of corpus, seed and nominal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from sweephand import _core
from sweephand.checks import check_int
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.node_cache import NodeCache
from sweephand.corpus.read_through import CacheUse, read_through
from sweephand.corpus.streams import StreamInfo
from sweephand.deserializers.serve import Servable, deserializers_of
from sweephand.errors import DataError, StateError
from sweephand.events.event import Event
from sweephand.events.event_file import events_given
from sweephand.events.event_list import EventList
from sweephand.layouts import Layout
from sweephand.maps.workers import MapWorkers
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch
from sweephand.source.added import at_first, with_fingerprints
from sweephand.source.at_exit import close_at_exit
from sweephand.source.balance import Balance
from sweephand.source.by_score import ByScore
from sweephand.source.chunk_uses import ChunkUses
from sweephand.source.delivery import Delivery, counts_of
from sweephand.source.eventful import EventfulSource
from sweephand.source.foreign_names import NEXT, SOURCE, names_ours
from sweephand.source.hints import Hints
from sweephand.source.limits import INFINITELY_REPEAT, MAX_TIME, limit_of_old_name
from sweephand.source.memory import MemoryNeed
from sweephand.source.old_names import OldOptions, threads_of_old_name
from sweephand.source.open_corpus import check_lengths, open_corpus, treat_long
from sweephand.source.origin import Order
from sweephand.source.requests import Requests
from sweephand.source.scores import scores_of
from sweephand.source.settings import Settings
from sweephand.source.state import State
from sweephand.source.window import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS


class MinibatchSource(EventfulSource):
    """Deliver minibatches in an order that is a pure function of corpus, seed and nominal time.

    Parameters
    ----------
    deserializers : Deserializer, list of them, dict of arrays, or table
        Where the data come from. A dict is that of `ArrayDeserializer`, and a DataFrame, Arrow
        table or Hugging Face Dataset goes through `ArrowDeserializer`.
    max_samples : int
        End of the timeline, in samples: a sequence that starts before it is delivered whole.
        ``FULL_DATA_SWEEP`` is one sweep.
    max_sweeps : int
        End of the timeline, in sweeps. At most one of both limits is given.
    randomize : bool
        Shuffle every sweep; False delivers the order of the corpus.
    order : ByScore, optional
        Put what is shuffled in an order by score: easy to hard, short to long.
    randomization_window_in_chunks : int
        Chunks that are open at a time over all workers. Given explicitly it holds for every
        deserializer; by default data that are resident or randomly accessible are shuffled as a
        whole, or from a million sequences of unequal lengths on within 512 chunks of 1,024
        sequences, others within 128 chunks. Beside a window in samples 0 means not given; alone
        it is refused: in CNTK it shuffles nothing, which is ``randomize=False``.
    randomization_window_in_samples : int
        The same in samples; ``FULL_DATA_SWEEP`` shuffles all as a whole. At most one of both is
        given.
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
    balance : {None, "samples", "attention"} or Attention
        None: every worker takes its lanes, or rows in turn. "samples": few sequences move so
        that shares have nearly equal numbers of samples; packed rows and sequences of a bucket
        are dealt so, in equal numbers. "attention", which is ``Attention()``: the same by a
        cost that grows with the square of the length. The global minibatch never changes.
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
    num_map_workers : int, optional
        What maps of the corpus run on; 0: the threads that prepare minibatches. By default as
        many as there are cores.
    map_executor : {"threads", "processes"}
        Threads are for functions that release the GIL, as decoders do; the functions that
        processes call must be found by their names, as pickle finds them.
    map_timeout : float, optional
        Seconds after which a map that was called for a sequence, or as many times for a batch,
        is given up, where maps have workers: a `DataError` names both. Its process is ended, a
        thread is left behind.
    node_cache : NodeCache, optional
        Where what is read of a store is kept on a disk of this node, for all its processes.
    events : list of Event, or path, optional
        What happens on the timeline: `list(source.events)` of another source, or a JSON file in
        which they are kept: what `events` of the source adds is written there at once.
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

    _crosses_sweeps = True

    @names_ours(SOURCE, "MinibatchSource", OldOptions.__annotations__)
    def __init__(
        self,
        deserializers: Servable,
        *,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        randomize: bool = True,
        order: ByScore | None = None,
        randomization_window_in_chunks: int = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        num_lanes: int | None = None,
        layout: Layout | None = None,
        frame_mode: bool = False,
        truncation_length: int = 0,
        balance: Balance = None,
        missing: Literal["error", "drop"] = "error",
        max_errors: int = 0,
        num_threads: int | None = None,
        prefetch: int = 2,
        memory_limit: int | None = None,
        num_map_workers: int | None = None,
        map_executor: Literal["threads", "processes"] = "threads",
        map_timeout: float | None = None,
        node_cache: NodeCache | None = None,
        events: Sequence[Event]
        | Sequence[Mapping[str, Any]]
        | PathLike[str]
        | str
        | None = None,
        epoch_size: int | None = None,
        **old: Unpack[OldOptions],
    ) -> None:
        given, events_file = events_given(events)
        settings = Settings(
            max_samples=limit_of_old_name(epoch_size, max_samples),
            max_sweeps=max_sweeps,
            randomize=randomize,
            order=order,
            randomization_window_in_chunks=randomization_window_in_chunks,
            randomization_window_in_samples=randomization_window_in_samples,
            randomization_seed=randomization_seed,
            num_lanes=num_lanes,
            layout=layout,
            frame_mode=frame_mode,
            truncation_length=truncation_length,
            balance=balance,
            missing=missing,
            max_errors=max_errors,
            num_threads=threads_of_old_name(num_threads, old),
            prefetch=prefetch,
            memory_limit=memory_limit,
            num_map_workers=num_map_workers,
            map_executor=map_executor,
            map_timeout=map_timeout,
            node_cache=node_cache,
            crosses_sweeps=self._crosses_sweeps,
            events=EventList(given),
            events_file=events_file,
        )
        self._open(deserializers, settings)

    def _open(self, deserializers: Servable, settings: Settings) -> None:
        # What a copy is made of; not the user's own, which may be read only once.
        self._deserializers, self._settings = deserializers_of(deserializers), settings
        self._ledger = ledger = Ledger(settings.max_errors)
        workers = MapWorkers(settings.map_workers, settings.map_executor, settings.map_timeout)
        try:
            corpus = open_corpus(self._deserializers, settings, ledger, workers)
        except BaseException:
            workers.close()
            raise
        self._keys = {info.name: (i, info) for i, info in enumerate(corpus.streams)}
        whole = corpus
        corpus, self._long = treat_long(settings.chosen_layout, whole)
        check_lengths(settings.chosen_layout, corpus)
        as_whole = settings.order is not None
        self._settings = settings = with_fingerprints(settings, whole)
        self._window, corpus = settings.window.for_corpus(corpus, as_whole=as_whole)
        self._without_events = corpus
        self._scores = scores_of(settings, whole, corpus)
        first = at_first(corpus)
        self._layout = settings.chosen_layout.settle(first.core)
        self._order = Order(first, self._layout, settings, self._window, self._scores)
        self._set(self._timeline_of(settings))
        self._memory = MemoryNeed(
            corpus=self._corpus,
            layout=self._layout,
            window_chunks=self._timeline.open_chunks,
            num_threads=settings.threads,
            prefetch=settings.prefetch,
        )
        self._hints = Hints()
        self._requests = Requests(
            settings, self._layout, self._memory, is_endless=self._timeline.is_endless
        )
        turns = [turn for reader in self._corpus.readers for turn in reader.turns]
        served, self._cache_use = self._corpus, CacheUse()
        if settings.node_cache is not None:
            if served.mixing is not None:
                raise ValueError("node_cache is for one corpus; a mixture has none yet")
            future = partial(
                ChunkUses, served, self._timeline, settings, self._window, self._scores
            )
            made_of = self._deserializers, *settings.of_chunks
            served, self._cache_use = read_through(served, settings.node_cache, future, made_of)
        self._through_cache = served if settings.node_cache is not None else None
        self._delivery = Delivery(self._making(), turns, workers, self._cache_use)
        close_at_exit(self)

    @names_ours(NEXT)
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
        request = self._requests.get(
            minibatch_size_in_samples, num_data_partitions, partition_index
        )
        contents = self._contents if input_map is None else self._map_inputs(input_map)
        return Minibatch(self._delivery.next(request), contents, device)

    @property
    def current_position(self) -> int:
        """Nominal time in samples of the size-defining stream, where the next minibatch begins.

        It can be set; a place inside a sequence moves at once to the start of the next one.
        """
        return self._delivery.time

    @current_position.setter
    def current_position(self, time: int) -> None:
        check_int("current_position", time, 0, MAX_TIME)
        self._delivery.go_to(_core.compose.Position(time, []))

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Return where the source stands: JSON of under 1 kB, for any number of workers."""
        return self._state_at(self._delivery.position)

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, in this or in another process.

        Raises
        ------
        StateError
            If it is no state, or was taken of another corpus, seed, window, lanes or layout;
            the source is unchanged.
        """
        found = State.from_dict(state)
        found.check_same_order(self._order.state, self._settings.events)
        try:
            self._delivery.go_to(_core.compose.Position(found.position, found.progress))
        except ValueError as error:
            raise StateError(f"the state is of no place in this order: {error}") from None

    state_dict = get_checkpoint_state
    load_state_dict = restore_from_checkpoint

    def _state_at(self, position: _core.compose.Position) -> dict[str, Any]:
        return replace(
            self._order.state,
            position=position.time,
            progress=position.progress,
            events=self._settings.events.told,
        ).to_dict()

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
            callers for minibatches that were not ready; what all threads of the source took:
            ``read_seconds`` waiting while data were read, for a disk, a network or a lock,
            ``decode_seconds`` making chunks of them and ``assemble_seconds`` minibatches;
            ``bytes_assembled``; ``chunks_loaded``, ``chunk_hits``, ``bytes_loaded`` and
            ``bytes_held`` of chunks that are not resident;
            ``fill_ratio``, samples over the cells of dense arrays so far. Per sweep:
            ``dropped_sequences`` by a join or the layout, ``dropped_samples`` of those that are
            too long for the layout, and ``split_sequences`` with ``split_samples``. With a
            `NodeCache` also the ranges of objects that this process has found in it and not,
            ``cache_hits`` and ``cache_misses``, with ``cache_bytes_read`` from the disk and
            ``cache_bytes_fetched`` from the store, ``cache_evictions`` to make room, and
            ``cache_damaged`` entries, which were fetched again; and ``cache_chunks_mapped``,
            ``cache_chunks_offered`` of decoded ones. Of a mixture ``share_of_<corpus>``, of all
            samples before the position.
        """
        return {
            **counts_of(self._delivery.stats()),
            "dropped_sequences": self._corpus.num_dropped + self._long.dropped_sequences,
            "dropped_samples": self._long.dropped_samples,
            "split_sequences": self._long.split_sequences,
            "split_samples": self._long.split_samples,
            **self._cache_use.stats(),
            **self._timeline.shares(self._delivery.own_position.time),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what makes the same source again, at the same place."""
        return self._made_at(self._delivery.position)

    def _made_at(self, place: _core.compose.Position) -> tuple[Any, ...]:
        made_of = type(self), self._deserializers, self._settings
        return _remake, (*made_of, place.time, place.progress)

    def _reopen(self, settings: Settings) -> None:
        place, before = self._delivery.position, self._delivery
        made = _remake(type(self), self._deserializers, settings, place.time, place.progress)
        self.__dict__ |= made.__dict__
        self._delivery.follow(before)

    def close(self) -> None:
        """End the threads and give back memory; arrays that were handed out stay valid.

        Whoever waits for a minibatch is told that the source is closed. Code that makes a chunk
        is waited for, but no more than 10 seconds: then a RuntimeWarning names it, the source
        counts as closed, and its threads end when that code does.
        """
        self._delivery.close()

    def close_within(self, seconds: float) -> bool:
        """Close, wait so long for the threads, and return whether they have ended."""
        return self._delivery.close_within(seconds)

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

    def _map_inputs(self, input_map: Mapping[Any, str | StreamInfo]) -> Contents:
        keys = {
            key: self._keys[self.stream_info(stream).name] for key, stream in input_map.items()
        }
        return self._contents_of(keys)


def _remake(
    kind: type[MinibatchSource],
    deserializers: Servable,
    settings: Settings,
    time: int,
    progress: list[int],
) -> MinibatchSource:
    source = kind.__new__(kind)
    source._open(deserializers, settings)
    source._delivery.go_to(_core.compose.Position(time, progress))
    return source
