"""The minibatch source: a minibatch is a pure function of corpus, seed and nominal time."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sweephand.base.other_names import answers_other_names
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.errors import StateError
from sweephand.events.event_list import EventList, events_given
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.share import Position
from sweephand.source.answers import Answers
from sweephand.source.cursor import Cursor
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.loops import checked_size, loop
from sweephand.source.options import SourceOptions, takes_arguments_of
from sweephand.source.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from sweephand.corpus.streams import StreamInfo
    from sweephand.deserializers.array import SourceData
    from sweephand.events.event import Event
    from sweephand.loans import Desk
    from sweephand.source.events import Events
    from sweephand.source.loops import SweepLoop
    from sweephand.source.schedules import Size


class MinibatchSource(Answers):
    """Deliver minibatches in an order that is a pure function of corpus, seed and nominal time.

    Parameters
    ----------
    deserializers : Deserializer, list of them, dict of arrays, or table
        Where the data come from. A dict is that of `ArrayDeserializer`, and a DataFrame, Arrow
        table or Hugging Face Dataset goes through `ArrowDeserializer`.
    max_samples, max_sweeps : int
        End of the timeline, in samples or in sweeps; at most one is given. A sequence that
        starts before it is delivered whole. ``FULL_DATA_SWEEP`` is one sweep.
    randomize : bool
        Shuffle every sweep; False delivers the order of the corpus.
    randomization_window_in_chunks : int
        Chunks that are open at a time over all workers. Given explicitly it holds for every
        deserializer; by default data that are resident or randomly accessible are shuffled as a
        whole, or from a million sequences of unequal lengths on within 512 chunks of 1,024
        sequences, and all other data within 128 chunks. 0 alone is refused: in CNTK it shuffles
        nothing, which is ``randomize=False``.
    randomization_window_in_samples : int
        The same in samples, in place of chunks; ``FULL_DATA_SWEEP`` shuffles all as a whole.
    randomization_seed : int
        In [0, 2^64).
    num_lanes : int, optional
        Parts of a sweep that are read side by side, 48 by default; at most as many workers can
        share the data.
    layout : Layout, optional
        `Ragged()` by default.
    frame_mode, truncation_length : bool, int
        CNTK's spellings of ``layout=Frames()`` and ``layout=TruncatedBPTT(length)``.
    balance : {None, "samples", "attention"} or Attention
        None: every worker takes its lanes, or rows in turn. "samples": few sequences move so
        that shares have nearly equal numbers of samples; packed rows and sequences of a bucket
        are dealt so, in equal numbers. "attention", which is ``Attention()``: the same by a
        cost that grows with the square of the length. The global minibatch never changes.
    missing : {"error", "drop"}
        Raise for a sequence that another joined deserializer lacks, or leave it out.
    max_errors : int
        Budget of damaged items that are skipped, counted and listed in `errors`.
    num_threads : int, optional
        Threads that prepare minibatches ahead; 0 prepares each in the caller's thread. By
        default half of the cores, which rest while a loop asks for small minibatches faster
        than they could prepare them.
    prefetch : int
        Minibatches that are prepared ahead; 0 is the same as no threads.
    memory_limit : int, optional
        In bytes. A minibatch size that would need more is refused; see `memory_bound`. So is
        a stored picture, sound or video whose header asks for more: a `DataError`.
    num_map_workers : int, optional
        Workers that run maps of the corpus, by default one per core; with 0 the threads that
        prepare minibatches do.
    map_executor : {"threads", "processes"}, optional
        Threads are for functions that release the GIL, as decoders do; processes find the
        functions by their names, as pickle does. By default threads, until a second of calls
        has shown that a function of an importable module holds the GIL.
    map_timeout : float, optional
        Seconds per sequence after which a call of a map by a worker is given up: a `DataError`
        names both. Its process is ended, a thread is abandoned.
    node_cache : NodeCache, optional
        A folder on a disk of this node for data read from a store, shared by its processes.
    events : list of Event, or path, optional
        Events on the timeline: `list(source.events)` of another source, or a JSON file, to
        which events that are added are written at once.

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

    @answers_other_names
    @takes_arguments_of(SourceOptions)
    def __init__(self, deserializers: SourceData, **given: Any) -> None:
        options = SourceOptions(deserializers, **given)
        self._open(options, *events_given(options.events))

    def _open(self, options: SourceOptions, events: Sequence[Event], path: Path | None) -> None:
        listed = EventList(tuple(events))
        plan = Plan.open(options, listed, crosses_sweeps=self._crosses_sweeps)
        self._events_path = path
        self._cursor = Cursor(plan)
        if not _open:  # again, to run before functions registered meanwhile
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _open.add(self)

    @property
    def cursor(self) -> Cursor:
        """The place of the run on the plan."""
        return self._cursor

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
        num_data_partitions, partition_index : int
            Workers that share every minibatch, and which of them asks. All must ask for the
            same size at the same nominal time.

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
        cursor = self._cursor
        asked = minibatch_size_in_samples, num_data_partitions, partition_index
        request = cursor.request(*asked)
        contents = None
        if input_map is not None:
            names = {key: self.stream_info(one).name for key, one in input_map.items()}
            contents = cursor.plan.contents_by(names)
        return cursor.next(request, contents, device)

    def minibatches(
        self, size: Size, *, num_data_partitions: int = 1, partition_index: int = 0
    ) -> Iterator[Minibatch]:
        """Iterate over minibatches until the end of data.

        A source without ``max_sweeps`` or ``max_samples`` has none: leave such a loop by
        ``break``, or take `sweep`.

        Parameters
        ----------
        size : int, str, list or schedule
            Samples in a minibatch over all workers. A list or a text such as ``"128*2 + 1024"``
            is read as `minibatch_size_schedule` does, its epochs are sweeps. A schedule is
            asked for ``size[time]``, the nominal time.
        num_data_partitions, partition_index : int
            As in `next_minibatch`, as are errors.
        """
        sizes = checked_size(self._cursor, size, num_data_partitions, partition_index)
        return loop(self._cursor, sizes, num_data_partitions, partition_index)

    def sweep(
        self, size: Size, *, num_data_partitions: int = 1, partition_index: int = 0
    ) -> SweepLoop:
        """Return a sweep from here, or the rest of a sweep, to loop over.

        No minibatch reaches over the end of the sweep. The next loop is the next sweep; after a
        ``break`` the next one goes on after it. Limits of the source end it sooner. Parameters
        and errors are those of `minibatches`.

        Returns
        -------
        SweepLoop
            Its ``len()`` is the number of minibatches, found from lengths alone.

        Raises
        ------
        RuntimeError
            When a loop begins and the source has ended.

        Examples
        --------
        >>> import numpy as np, sweephand as sh
        >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(5)}))
        >>> for number in range(2):
        ...     sweep = source.sweep(2)
        ...     print(len(sweep), sum(minibatch.num_samples for minibatch in sweep))
        3 5
        3 5
        """
        from sweephand.source.loops import SweepLoop

        self.timeline.check_has_sweeps("source.sweep(size)")
        sizes = checked_size(self._cursor, size, num_data_partitions, partition_index)
        return SweepLoop(self._cursor, sizes, num_data_partitions, partition_index)

    epoch = sweep  # the name that users of PyTorch know

    def lend(self, copies: int = 1) -> Desk:
        """Return a desk that lends the sequences: see `Desk`. The source serves by it alone."""
        from sweephand.loans import Desk

        return Desk(self, copies)

    @property
    def position(self) -> Position:
        """Position of the run: opaque, comparable, and a list as JSON. It can be set."""
        return self._cursor.position

    @position.setter
    def position(self, position: Position | Sequence[Any]) -> None:
        time, progress = position
        self._cursor.go_to(Position(time, tuple(progress)))

    @property
    def current_position(self) -> int:
        """Nominal time in samples of the size-defining stream, where the next minibatch begins.

        It can be set; a place inside a sequence moves at once to the start of the next one.
        """
        return self._cursor.time

    @current_position.setter
    def current_position(self, time: int) -> None:
        self._cursor.go_to_time(time)

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Return the checkpoint state: JSON of under 1 kB, for any number of workers."""
        return self.timeline.state_at(self.position)

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken, in this or in another process.

        Raises
        ------
        StateError
            If it is no state, or was taken of another corpus, seed, window, lanes or layout;
            the source is unchanged.
        """
        from sweephand.source.state import State

        found = State.from_dict(state)
        found.check_same_order(self.timeline.state, self.timeline.events)
        try:
            self._cursor.go_to(Position(found.position, tuple(found.progress)))
        except ValueError as error:
            raise StateError(f"the state is of no place in this order: {error}") from None

    state_dict = get_checkpoint_state
    load_state_dict = restore_from_checkpoint

    @property
    def events(self) -> Events:
        """The events on the timeline; its methods add to them."""
        from sweephand.source.events import Events

        return Events(self._cursor, self._events_path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a recipe for the same source at the same place."""
        plan = self.timeline
        options = replace(plan.options, events=None)
        made = type(self), options, list(plan.events), self._events_path, self.position
        return _remake, made

    def close(self) -> None:
        """End the threads and give back memory; arrays that were handed out stay valid.

        A thread that waits for a minibatch gets an error. Code that makes a chunk is waited
        for, but no more than 10 seconds: then a RuntimeWarning names it.
        """
        self._cursor.close()

    def close_within(self, seconds: float) -> bool:
        """Close, wait up to `seconds` for the threads, and return True if they have ended."""
        return self._cursor.close_within(seconds)

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the source."""
        self.close()

    def __bool__(self) -> bool:
        return True


def _remake(
    kind: type[MinibatchSource],
    options: SourceOptions,
    events: Sequence[Event],
    path: Path | None,
    position: Position,
) -> MinibatchSource:
    source = kind.__new__(kind)
    source._open(options, events, path)
    source.position = position
    return source


_EXIT_SECONDS = 1.0


_open: weakref.WeakSet[MinibatchSource] = weakref.WeakSet()


def _close_all() -> None:
    """Ask all to end, then wait for all together: the process ends anyway."""
    closing = list(_open)
    for one in closing:
        one.close_within(0.0)
    end = time.monotonic() + _EXIT_SECONDS
    for one in closing:
        one.close_within(max(0.0, end - time.monotonic()))
    if threading.active_count() > 1:
        time.sleep(0.05)  # daemon threads that were in a call leave it while they can


class MinibatchSourceFromData(MinibatchSource):
    """Deliver arrays in their order, again and again, never across the end of the data.

    Parameters
    ----------
    data_streams : dict
        Stream name to data, as `ArrayDeserializer` takes them.
    max_samples : int
        End of the timeline, in samples.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSourceFromData({"x": np.arange(5)}, max_samples=10)
    >>> [minibatch["x"].values.tolist() for minibatch in source.minibatches(3)]
    [[0, 1, 2], [3, 4], [0, 1, 2], [3, 4]]
    """

    _crosses_sweeps = False

    def __init__(
        self, data_streams: Mapping[str, object], max_samples: int = INFINITELY_REPEAT
    ) -> None:
        super().__init__(
            ArrayDeserializer(data_streams), max_samples=max_samples, randomize=False
        )
