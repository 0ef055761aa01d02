"""A plan of lengths: its arrays, its micro-batches laid out, and results per sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.columns import runs
from sweephand.corpus.ids import GivenIds
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.layouts import Bucketed, Packed, Padded, padding_of
from sweephand.maps import OpenContext
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.labels import kind_without_stream
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.segments import repeat_last
from sweephand.source.open_corpus import lay_out

if TYPE_CHECKING:
    from sweephand.corpus.streams import StreamsLike


LengthsLayout = Packed | Padded | Bucketed


def _none() -> NDArray[np.uint32]:
    return np.empty(0, np.uint32)


class _Place(NamedTuple):
    """A micro-batch: its pieces in the arrays of a plan, and its shape."""

    pieces: slice
    rows: int
    width: int


@dataclass(frozen=True)
class LengthPieces:
    """Pieces of the sequences that have a place, in the order of arrival."""

    sequences: NDArray[np.uint32]
    firsts: NDArray[np.uint32]
    sizes: NDArray[np.uint32]
    cells: NDArray[np.uint32]  # of a padded layout the width that they need
    marks: NDArray[np.uint32] = field(default_factory=_none)  # bits of aligned items
    groups: NDArray[np.uint32] = field(default_factory=_none)
    loads: tuple[tuple[NDArray[np.uint32], int], ...] = ()  # limited items, and the most

    def take(self, chosen: NDArray[Any]) -> LengthPieces:
        """Return some of them."""
        some = {
            name: own[chosen]
            for name, own in vars(self).items()
            if name != "loads" and len(own)
        }
        return replace(
            self, **some, loads=tuple((own[chosen], most) for own, most in self.loads)
        )


def corpus_of(sizes: NDArray[np.uint32]) -> _core.index.Corpus:
    """Return sequences in hand as a corpus of one chunk."""
    num_samples = int(sizes.sum(dtype=np.int64))
    return _core.index.Corpus([len(sizes)], [num_samples], _core.index.StoredSizes(sizes))


def _column(name: str, doc: str) -> cached_property[NDArray[np.int64]]:
    def column(plan: LengthsPlan) -> NDArray[np.int64]:
        return plan._table[name]

    column.__doc__ = doc
    return cached_property(column)


@dataclass(frozen=True, eq=False)
class LengthsPlan:
    """The place of every sequence: the result of `plan_lengths`.

    The arrays `sequence`, `start`, `length`, `step`, `worker`, `micro_batch`, `row` and
    `column` have an int64 for each placed piece of a sequence, in the order of the last five.

    Attributes
    ----------
    layout : Packed, Padded or Bucketed
        That of the request, with boundaries chosen.
    num_data_partitions, num_steps, multiple_of : int
        As they were asked for.
    num_micro_batches : int
        Of every worker, in every step.
    left_out : dict of str
        Why each sequence that has no place has none, by its index.
    rest : ndarray of int64
        The indices of the sequences that are left for a later plan, ascending.

    Examples
    --------
    >>> import sweephand as sh
    >>> plan = sh.plan_lengths([3, 5, 2, 6], sh.Packed(8), num_data_partitions=2)
    >>> plan.num_micro_batches, plan.fill_ratio, plan.left_out
    (1, 1.0, {})
    """

    layout: LengthsLayout
    num_data_partitions: int
    num_steps: int
    num_micro_batches: int
    multiple_of: int
    left_out: Mapping[int, str]
    rest: NDArray[np.int64]
    _sizes: NDArray[np.uint32] = field(repr=False)
    _aligned: Mapping[str, NDArray[np.uint32]] = field(repr=False)  # items of each sequence
    _narrowest: int = field(repr=False)  # cells of a filler of a padded layout
    _pieces: LengthPieces = field(repr=False)
    _placed: Sequence[NDArray[Any]] = field(repr=False)  # pieces of each step, as they are laid
    _ends: Sequence[NDArray[np.uint32]] = field(repr=False)  # of each slot for a row, in them
    _loads: Sequence[NDArray[np.float64]] = field(repr=False)
    _num_labels: NDArray[np.int64] | None = field(repr=False)
    _label_weight: NDArray[np.float64] | None = field(repr=False)

    sequence = _column("sequence", "The index of the sequence.")
    start = _column("start", "The sample of the sequence that the piece begins with.")
    length = _column("length", "Samples of the piece.")
    step = _column("step", "The optimizer step.")
    worker = _column("worker", "The worker, of `num_data_partitions`.")
    micro_batch = _column("micro_batch", "The micro-batch of the worker in the step.")
    row = _column("row", "The row in the micro-batch.")
    column = _column("column", "The cell of the row that the piece begins in.")

    @cached_property
    def _table(self) -> dict[str, NDArray[np.int64]]:
        """A column for each of the attributes that placed pieces have."""
        placed = np.concatenate(self._placed)
        sequence, start, length, cells = (
            own[placed].astype(np.int64)
            for own in (
                self._pieces.sequences,
                self._pieces.firsts,
                self._pieces.sizes,
                self._pieces.cells,
            )
        )
        slot, counts = self._slots
        before = np.cumsum(cells) - cells
        column = before - np.repeat(
            before[(np.cumsum(counts) - counts)[counts > 0]], counts[counts > 0]
        )
        row, rows = slot % self._rows, self._rows
        if not self._is_packed:
            row = runs(0, counts)
            left = getattr(self.layout, "side", "right") == "left"
            column = self._grid[1][slot] - length if left else np.zeros_like(length)
        micro_batch, workers = max(1, self.num_micro_batches), self.num_data_partitions
        return {
            "sequence": sequence,
            "start": start,
            "length": length,
            "step": slot // (rows * micro_batch * workers),
            "worker": slot // (rows * micro_batch) % workers,
            "micro_batch": slot // rows % micro_batch,
            "row": row,
            "column": column,
        }

    @cached_property
    def _slots(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slot for a row of each placed piece, of those of all steps; pieces of each."""
        ends = np.stack([np.r_[0, ends] for ends in self._ends]).astype(np.int64)
        counts = np.diff(ends, axis=1).reshape(-1)
        return np.repeat(np.arange(len(counts)), counts), counts

    @property
    def _is_packed(self) -> bool:
        return isinstance(self.layout, Packed)

    @property
    def _rows(self) -> int:
        """Slots for rows in a micro-batch; one has all rows of a padded layout."""
        return self.layout.micro_batch_rows or 1

    @cached_property
    def _grid(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and cells of a row in each slot."""
        slot, counts = self._slots
        if isinstance(self.layout, Packed):
            return np.ones_like(counts), np.full_like(counts, self.layout.row_length)
        widths = np.full_like(counts, self._narrowest)
        np.maximum.at(widths, slot, self._pieces.cells[np.concatenate(self._placed)])
        return np.maximum(counts, 1), widths

    @property
    def fill_ratio(self) -> float:
        """Placed samples over the cells of all micro-batches, fillers included."""
        rows, widths = self._grid
        cells = int(rows @ widths)
        return int(self.length.sum()) / cells if cells else 1.0

    @property
    def loads(self) -> NDArray[np.float64]:
        """Cost of each micro-batch by the balance, else samples: (workers, micro-batches).

        The micro-batches of several steps follow each other.
        """
        workers = self.num_data_partitions
        return np.concatenate([one.reshape(workers, -1) for one in self._loads], axis=1)

    @cached_property
    def unaligned(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """Aligned items that only some workers have, by step and micro-batch."""
        shape = self.num_steps, self.num_data_partitions, self.num_micro_batches
        found: dict[tuple[int, int], tuple[str, ...]] = {}
        for name, items in self._aligned.items():
            has = np.zeros(shape, bool)
            carries = (self.start == 0) & (items[self.sequence] > 0)
            has[self.step[carries], self.worker[carries], self.micro_batch[carries]] = True
            for place in zip(*np.nonzero(has.any(axis=1) & ~has.all(axis=1)), strict=True):
                at = int(place[0]), int(place[1])
                found[at] = (*found.get(at, ()), name)
        return dict(sorted(found.items()))

    @cached_property
    def global_num_label_samples(self) -> NDArray[np.int64]:
        """Labels of each step over all workers: int64, shape (steps,)."""
        labels = (
            self._sizes.astype(np.int64) - 1 if self._num_labels is None else self._num_labels
        )
        own = [int(labels[self._sequences_of(step)].sum()) for step in range(self.num_steps)]
        return np.array(own, np.int64)

    @cached_property
    def global_label_weight(self) -> NDArray[np.float64]:
        """Weight of the labels of each step, summed in the order of arrival: (steps,)."""
        weights = self._label_weight
        if weights is None:
            return self.global_num_label_samples.astype(np.float64)
        own = [weights[self._sequences_of(step)] for step in range(self.num_steps)]
        return np.array([np.add.accumulate(np.r_[0.0, one])[-1] for one in own])

    def _sequences_of(self, step: int) -> NDArray[np.int64]:
        """Return the indices of the sequences of a step over all workers, ascending."""
        return np.unique(self._pieces.sequences[self._placed[step]]).astype(np.int64)

    def _places(self, partition_index: int, step: int) -> list[_Place]:
        """Return the micro-batches of a worker."""
        check_int("partition_index", partition_index, 0, self.num_data_partitions)
        check_int("step", step, 0, self.num_steps)
        before = sum(map(len, self._placed[:step]))
        ends = np.r_[0, self._ends[step]]
        rows, widths = (own.reshape(self.num_steps, -1)[step] for own in self._grid)
        places = []
        for number in range(self.num_micro_batches):
            first = (partition_index * self.num_micro_batches + number) * self._rows
            last = first + self._rows
            places.append(
                _Place(
                    slice(before + int(ends[first]), before + int(ends[last])),
                    int(rows[first:last].sum()),
                    int(widths[first]),
                )
            )
        return places

    def minibatches(
        self,
        data: Mapping[str, object],
        definitions: StreamsLike | None = None,
        partition_index: int = 0,
        step: int = 0,
    ) -> Iterator[LengthsMinibatch]:
        """Iterate over the micro-batches of a worker, laid out.

        Parameters
        ----------
        data : dict
            Stream name to data of all n sequences: a list of arrays with None for those of
            other workers, an array with an entry each, or ``(values, offsets)``.
        definitions : StreamDefs, dict of StreamDef or list of str, optional
            As `ArrayDeserializer` takes them. With a loss mask or parts and without
            ``num_labels=`` of the plan, the data are wanted of all workers, to count labels.
        partition_index : int
            The worker.
        step : int
            The optimizer step.

        Raises
        ------
        ValueError
            If a stream has not the planned lengths, or lacks a sequence: naming its index.
        """
        places = self._places(partition_index, step)
        if places:
            yield from _deliver(self, data, definitions, places, partition_index, step)

    def put_back(
        self, values: Mapping[int, Any], partition_index: int = 0, step: int = 0
    ) -> list[Any]:
        """Return results of micro-batches per sequence, in the order of arrival.

        Parameters
        ----------
        values : dict
            Number of a micro-batch to its results: of every cell, (rows, row length, ...); of
            every sample, as `MinibatchData.values`; or of every sequence of it.
        partition_index, step : int
            The worker and the step that they are of.

        Returns
        -------
        list
            n entries: the samples of a sequence as an array, or its single result; None
            where there is none.

        Raises
        ------
        ValueError
            If there is no such micro-batch, or its results have another shape.
        """
        return _put_back(self, values, partition_index, step)


class _Known(NamedTuple):
    """What a plan knows of a micro-batch."""

    indices: NDArray[np.int64]
    cells: NDArray[np.int64]  # that each piece takes
    num_labels: int | None  # of the step; None: they are counted from masks
    label_weight: float | None


class LengthsMinibatch(Minibatch):
    """A micro-batch of a worker, by a plan of lengths.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> plan = sh.plan_lengths([3, 5], sh.Packed(8))
    >>> (minibatch,) = plan.minibatches({"tokens": [np.arange(3), np.arange(5)]})
    >>> minibatch.indices, minibatch.is_filler
    (array([0, 1]), False)
    """

    __slots__ = ("_known",)

    _known: _Known

    @property
    def indices(self) -> NDArray[np.int64]:
        """The sequences, as the lengths count them, in the order of `ids`."""
        return self._known.indices

    @property
    def is_filler(self) -> bool:
        """True if it holds no sequence, and is there to make the numbers equal."""
        return not len(self.indices)

    @property
    def global_num_label_samples(self) -> int:
        """Labels of the step over all workers: the divisor of a sum of losses."""
        known = self._known.num_labels
        return super().global_num_label_samples if known is None else known

    @property
    def global_label_weight(self) -> float:
        """Weight of all labels of the step, over all workers."""
        known = self._known.label_weight
        return super().global_label_weight if known is None else known

    @property
    def cu_seqlens_padded(self) -> NDArray[np.int32]:
        """Boundaries of the cells that segments take, as ``multiple_of`` rounds them up.

        They are those of consecutive segments: int32, shape (sequences + 1,).
        """
        cells = np.r_[0, np.cumsum(self._known.cells)]
        return repeat_last(cells, self.layout.cu_seqlens_capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_with, (super().__reduce__()[1], self._known)


def _made_with(arguments: tuple[Any, ...], known: _Known) -> LengthsMinibatch:
    made = LengthsMinibatch(*arguments)
    made._known = known
    return made


def _counts_masks(definitions: StreamsLike | None) -> bool:
    known = dict(definitions) if isinstance(definitions, Mapping) else {}
    names = ("loss_mask", "parts", "label_weights")
    return any(getattr(one, name, None) for one in known.values() for name in names)


def _deliver(
    plan: LengthsPlan,
    data: Mapping[str, object],
    definitions: StreamsLike | None,
    places: Sequence[_Place],
    partition_index: int,
    step: int,
) -> Iterator[LengthsMinibatch]:
    """Iterate over micro-batches laid out, over a corpus of the sequences that are wanted."""
    labels, weight = plan._num_labels, plan._label_weight
    counts_masks = labels is None and _counts_masks(definitions)
    own = plan.sequence[places[0].pieces.start : places[-1].pieces.stop]
    held = plan._sequences_of(step) if counts_masks else np.unique(own)
    # Without sequences one is taken all the same, for the types of the streams.
    chosen = held if len(held) else _any_there(data)
    given = {name: _taken(name, one, chosen, len(plan._sizes)) for name, one in data.items()}
    opening = OpenContext(ledger=Ledger())
    opened = ArrayDeserializer(given, definitions).open(opening.ledger)
    one_each = {name for name, one in given.items() if isinstance(one, np.ndarray)}
    corpus = lay_out(opened, plan.layout, opening, one_each)
    found, planned = corpus.core.sizes(0, len(held)), plan._sizes[held]
    if (found != planned).any():
        at = int((found != planned).argmax())
        raise ValueError(
            f"sequence {held[at]} has {found[at]} samples, planned are {planned[at]}"
        )
    contents = Contents(
        {info.name: (i, info) for i, info in enumerate(corpus.streams)},
        plan.layout,
        GivenIds([str(index) for index in chosen.tolist()]),
        None,
        kind_without_stream(corpus.streams, corpus_of(plan._sizes)),
    )
    assembler = make_assembler(
        corpus,
        plan.layout.assemble_options,
        partial(padding_of, plan.layout),
        load_ahead=False,
        report=opening.ledger.report_by(corpus.ids),
    )

    def pieces_of(
        indices: NDArray[Any], starts: NDArray[Any], sizes: NDArray[Any], cells: NDArray[Any]
    ) -> _core.compose.PlacedPieces:
        return _core.compose.PlacedPieces(
            np.searchsorted(held, indices).astype(np.uint64),
            starts.astype(np.uint32),
            sizes.astype(np.uint32),
            plan._sizes[indices],
            cells.astype(np.uint32),
        )

    # In the order of arrival, so that sums of weights are the same for all numbers of workers.
    all_of_step = plan._pieces.take(np.sort(plan._placed[step]))
    counted = _core.compose.count_pieces(
        pieces_of(all_of_step.sequences, all_of_step.firsts, all_of_step.sizes, _none()),
        corpus.core if counts_masks else None,
    )
    request = _core.compose.Request(
        counted.samples,
        plan.num_data_partitions,
        partition_index,
        crosses_sweeps=False,
        balance=None,
    )
    global_rows = int(plan._grid[0].reshape(plan.num_steps, -1)[step].sum())
    is_weighed = labels is not None or weight is not None
    of_step = (
        None if labels is None else int(plan.global_num_label_samples[step]),
        float(plan.global_label_weight[step]) if is_weighed else None,
    )
    for place in places:
        its = place.pieces
        indices, sizes = plan.sequence[its].copy(), plan.length[its]
        is_packed = isinstance(plan.layout, Packed)
        cells = np.stack([plan.row[its], plan.column[its]], axis=1) if is_packed else _none()
        core = _core.compose.plan_of_pieces(
            pieces_of(indices, plan.start[its], sizes, cells),
            request,
            counted,
            place.rows,
            place.width,
            global_rows,
        )
        known = _Known(indices, -(-sizes // plan.multiple_of) * plan.multiple_of, *of_step)
        yield _made_with((assembler.assemble(core), contents), known)


def _any_there(data: Mapping[str, object]) -> NDArray[np.int64]:
    """Return the number of a sequence that all lists have."""
    lists = [one for one in data.values() if isinstance(one, list)]
    there = (
        number
        for number in range(max(map(len, lists), default=1))
        if all(len(one) > number and one[number] is not None for one in lists)
    )
    found = next(there, None)
    if found is None:
        raise ValueError(
            "no sequence is there to give the types of the streams, and this worker has none "
            "of its own: give any one array in each list"
        )
    return np.array([found])


def _taken(name: str, data: Any, chosen: NDArray[np.int64], num_sequences: int) -> Any:
    """Return some sequences of a stream."""
    if isinstance(data, tuple) and len(data) == 2:
        values, offsets = data[0], np.asarray(data[1], np.int64)
        _check_length(name, len(offsets) - 1, num_sequences)
        return [values[offsets[i] : offsets[i + 1]] for i in chosen.tolist()]
    _check_length(name, len(data), num_sequences)
    if not isinstance(data, list):
        return np.asarray(data)[chosen]
    taken = [data[number] for number in chosen.tolist()]
    for number, one in zip(chosen.tolist(), taken, strict=True):
        if one is None:
            raise ValueError(f"stream {name!r} lacks sequence {number}, which is wanted here")
    return taken


def _check_length(name: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise ValueError(
            f"stream {name!r} has {found} sequences, the plan {wanted}: give None for those of "
            "other workers"
        )


def _put_back(
    plan: LengthsPlan, values: Mapping[int, Any], partition_index: int, step: int
) -> list[Any]:
    """Return the values of micro-batches per sequence."""
    places = plan._places(partition_index, step)
    for number in values:
        check_int("a micro-batch", number, 0, len(places))
    arrays = {
        number: one if hasattr(one, "shape") else np.asarray(one)
        for number, one in values.items()
    }
    # Of one kind in all micro-batches: one that has a single sample does not say which.
    for kind in ("cells", "samples", "sequences"):
        parts = {n: _parted(plan, places[n], one, kind) for n, one in arrays.items()}
        if all(one is not None for one in parts.values()):
            break
    else:
        number = next(number for number, one in parts.items() if one is None)
        place = places[number]
        sizes = plan.length[place.pieces]
        raise ValueError(
            f"micro-batch {number} has {place.rows} rows of {place.width} cells, "
            f"{int(sizes.sum())} samples and {len(sizes)} sequences; its values have shape "
            f"{tuple(arrays[number].shape)}, or other micro-batches have values of another kind"
        )
    found: dict[int, list[tuple[int, Any]]] = {}
    for number, own in parts.items():
        its = places[number].pieces
        pieces = zip(plan.sequence[its].tolist(), plan.start[its].tolist(), strict=True)
        for (index, start), one in zip(pieces, own or [], strict=True):
            found.setdefault(index, []).append((start, one))
    result: list[Any] = [None] * len(plan._sizes)
    for index, of_it in found.items():
        in_order = [one for _, one in sorted(of_it, key=lambda part: part[0])]
        result[index] = in_order[0]
        if len(in_order) > 1:
            join = np.stack if kind == "sequences" else np.concatenate
            result[index] = join(in_order)
    return result


def _parted(plan: LengthsPlan, place: _Place, array: Any, kind: str) -> list[Any] | None:
    """Return the values of each piece; None if the shape is that of another kind."""
    its, sizes = place.pieces, plan.length[place.pieces]
    wanted = {
        "cells": (place.rows, place.width),
        "samples": (int(sizes.sum()),),
        "sequences": (len(sizes),),
    }[kind]
    if tuple(array.shape[: len(wanted)]) != wanted:
        return None
    if kind == "cells":
        cells = zip(plan.row[its], plan.column[its], sizes, strict=True)
        return [array[row, begin : begin + size] for row, begin, size in cells]
    if kind == "samples":
        return [array[begin:end] for begin, end in pairwise([0, *np.cumsum(sizes).tolist()])]
    return list(array)
