"""The questions that a source answers by its plan and index, without reading data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from sweephand.corpus.streams import StreamInfo, Streams, name_of
from sweephand.source.cursor import Cursor
from sweephand.source.loops import FOR_TORCH, WRITE_LOOP
from sweephand.source.plan import Plan
from sweephand.source.schedules import Size, size_of

if TYPE_CHECKING:
    from sweephand.errors import DataError
    from sweephand.layouts import Layout
    from sweephand.minibatch.minibatch import HtmlPage
    from sweephand.minibatch.share import PlannedMinibatch


class Answers:
    """Questions to a source about its order, contents and needs, answered without reading."""

    @property
    def timeline(self) -> Plan:
        """The plan of the source: immutable; each added event makes a new plan."""
        return self.cursor.plan

    @property
    def cursor(self) -> Cursor:
        """The place of the run on the plan."""
        raise NotImplementedError

    @property
    def streams(self) -> Streams:
        """The streams by name, also as attributes: ``source.streams.features``."""
        return Streams(self.timeline.corpus.streams)

    def stream_infos(self) -> list[StreamInfo]:
        """Return all streams, as CNTK's users ask for them."""
        return list(self.streams.values())

    def stream_info(self, name: str | StreamInfo) -> StreamInfo:
        """Return the stream of a name, or of the name that an info has.

        Raises
        ------
        ValueError
            If there is none, naming those that are there.
        """
        name = name_of(name)
        keys = self.timeline.contents.keys
        if name not in keys:
            raise ValueError(f"no stream {name!r}, there are: {', '.join(keys)}")
        return keys[name][1]

    def __getitem__(self, name: str | StreamInfo) -> StreamInfo:
        """Return the stream of a name; KeyError if there is none."""
        return self.streams[name]

    def corpus_positions(self, time: int | None = None) -> dict[str, int]:
        """Return how many samples of each corpus of a mixture begin before a nominal time.

        All sweeps are counted; by default the time is `current_position`. It is empty if the
        source has one corpus.
        """
        return self.timeline.corpus_positions(self.cursor.time if time is None else time)

    @property
    def is_infinite(self) -> bool:
        """True if the timeline has no end."""
        return self.timeline.is_infinite

    @property
    def num_samples_per_sweep(self) -> int:
        """Samples of one sweep, in the size-defining stream; of a mixture those of all."""
        return self.timeline.sweep_samples

    @property
    def num_sequences_per_sweep(self) -> int:
        """Sequences of one sweep; of a mixture those of all."""
        return self.timeline.corpus.core.num_sequences

    @property
    def num_lanes(self) -> int:
        """Lanes that a sweep is read in, side by side."""
        return self.timeline.num_lanes

    @property
    def layout(self) -> Layout:
        """The layout, with everything decided that follows from lengths."""
        return self.timeline.layout

    def sequence_ids(self, start: int, stop: int) -> list[str]:
        """Return the ids of the sequences that start in ``[start, stop)``; nothing is read.

        Those that are not delivered because of a limit are left out. In `Bucketed` and
        `TruncatedBPTT` it holds for the minibatch size that was asked for last.
        """
        return self.timeline.sequence_ids(start, stop, self.cursor.last_size())

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
        return self.timeline.find(sequence_id, sweep, self.cursor.last_size())

    def plan(
        self,
        size: Size,
        *,
        start: int | None = None,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> Iterator[PlannedMinibatch]:
        """Iterate over the plans of `minibatches`; nothing is read, nothing moves.

        ``start`` is the nominal time to begin at, by default `current_position`.
        """
        return self.timeline.minibatches(
            self.cursor.position if start is None else start,
            size_of(size, self.num_samples_per_sweep),
            num_data_partitions,
            partition_index,
        )

    def show(
        self,
        size: int,
        step: int | None = None,
        *,
        time: int | None = None,
        decode: object = None,
        path: str | PathLike[str] | None = None,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> HtmlPage:
        """Return a page of a minibatch, which a notebook shows; the source does not move.

        It has the timeline with its events, who gets which part, and of the first rows their
        tokens, labels, masks, pictures and sounds. It is below about 1 MB for any minibatch.

        Parameters
        ----------
        size, num_data_partitions, partition_index : int
            As in `next_minibatch`.
        step, time : int, optional
            The step of this size, counted from 0, or the nominal time; by default where the
            source is.
        decode : callable, tokenizer, dict or list, optional
            Text of token ids: a function of a list of ids or of one id, an object with such a
            method ``decode``, or texts by id. A dict by stream name has one for each stream;
            else it holds for all streams of tokens.
        path : path, optional
            The file of HTML, which needs no other, that the page is written to as well.

        Raises
        ------
        IndexError
            If the data end before the step.
        """
        from sweephand.minibatch.minibatch import make_page

        with closing(twin_of(self.timeline)) as twin:
            if step is None and time is None:
                twin.go_to(self.cursor.position)
            page = make_page(
                "source",
                twin,
                size,
                step=step,
                time=time,
                decode=decode,
                workers=num_data_partitions,
                rank=partition_index,
            )
        if path is not None:
            page.write(path)
        return page

    def memory_bound(self, minibatch_size_in_samples: int) -> int:
        """Return about how many bytes the source holds at most.

        ``window * (1 + borders) + loads + (prefetch + 2) minibatches``. The window is
        ``num_lanes * block_chunks`` of the largest chunks, or nothing if the data are resident;
        borders of windows are those that the minibatches at hand cross, mostly one; the loads
        are chunks as they are stored, held until they are decoded.
        """
        return self.timeline.memory_bound(minibatch_size_in_samples)

    @property
    def errors(self) -> list[DataError]:
        """Damaged items that were skipped, within the budget of ``max_errors``."""
        return list(self.timeline.opened.ledger.errors)

    def stats(self) -> dict[str, float]:
        """Return counts since the source was made.

        Returns
        -------
        dict
            ``minibatches`` and ``samples`` delivered to this worker; ``waited_seconds`` by
            callers for minibatches that were not ready; ``made_ahead``, the minibatches that
            threads began, and ``serves_ahead``, True unless the caller's thread makes its own
            now. Of all threads of the source: ``read_seconds`` waiting for a disk, a network or
            a lock, ``decode_seconds`` making chunks and ``assemble_seconds`` minibatches;
            ``bytes_assembled``; ``chunks_loaded``, ``chunk_hits``, ``bytes_loaded`` and
            ``bytes_held`` of chunks that are not resident; ``fill_ratio``, samples over the
            cells of dense arrays. Per sweep: ``samples_in`` = ``samples_served`` +
            ``dropped_samples``; ``dropped_sequences`` by a join or the layout, and
            ``split_sequences`` with ``split_samples``. With a `NodeCache` also the ranges of
            objects that were in it and not, ``cache_hits`` and ``cache_misses``, with
            ``cache_bytes_read`` from the disk and ``cache_bytes_fetched`` from the store,
            ``cache_evictions`` to make room, and ``cache_damaged`` entries, which were fetched
            again. Of a mixture ``share_of_<corpus>``, of all samples before the position. Of
            maps the sequences ``mapped_by_caller``, ``mapped_by_threads`` and
            ``mapped_by_processes``; ``map_seconds`` that a call takes, and ``map_locked``, the
            part of it in which others wait for the GIL.
        """
        long = self.timeline.opened.long
        return {
            **self.cursor.stats(),
            "samples_in": self.num_samples_per_sweep + long.dropped_samples,
            "samples_served": self.num_samples_per_sweep,
            **self.timeline.opened.workers.stats(),
            "dropped_sequences": self.timeline.corpus.num_dropped + long.dropped_sequences,
            "dropped_samples": long.dropped_samples,
            "split_sequences": long.split_sequences,
            "split_samples": long.split_samples,
        }

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a source is not iterated over by itself: {WRITE_LOOP}; {FOR_TORCH}")

    def __len__(self) -> int:
        raise TypeError(
            "it has source.num_sequences_per_sweep sequences, and len(source.sweep(size)) "
            f"minibatches; {FOR_TORCH}"
        )

    def __repr__(self) -> str:
        plan = self.timeline
        streams = ", ".join(info.brief for info in plan.corpus.streams)
        return (
            f"{type(self).__name__}({self.num_sequences_per_sweep} sequences, "
            f"{self.num_samples_per_sweep} samples a sweep; {streams}; {plan.layout!r}; "
            f"at nominal time {self.cursor.time})"
        )


def twin_of(plan: Plan, layout: Layout | None = None) -> Cursor:
    """Return a cursor at the start of the same timeline, opened anew, without threads."""
    changes: dict[str, Any] = {"num_threads": 0, "num_map_workers": 0}
    if layout is not None:
        changes |= {"layout": layout, "frame_mode": False, "truncation_length": 0}
    options = replace(plan.options, events=None, **changes)
    return Cursor(Plan.open(options, plan.events, crosses_sweeps=plan.crosses_sweeps))
