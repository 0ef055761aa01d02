"""A plan of lengths: its arrays, its micro-batches laid out, and results per sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.assembler import make_assembler
from sweephand.corpus.ids import GivenIds
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.layouts import Packed, padding_of
from sweephand.maps import OpenContext
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.labels import kind_without_stream
from sweephand.minibatch.minibatch import Minibatch
from sweephand.minibatch.pieces import repeat_last
from sweephand.source.open_corpus import lay_out

if TYPE_CHECKING:
    from sweephand.corpus.wanted_streams import StreamsLike


def _int64(numbers: NDArray[Any]) -> NDArray[np.int64]:
    made: NDArray[np.int64] = numbers.astype(np.int64)
    return made


@dataclass(frozen=True)
class LengthPieces:
    """Pieces of the sequences that have a place, in the order of arrival."""

    sequences: NDArray[np.uint32]
    firsts: NDArray[np.uint32]
    sizes: NDArray[np.uint32]
    cells: NDArray[np.uint32]

    def take(self, chosen: NDArray[Any]) -> LengthPieces:
        """Return some of them."""
        return LengthPieces(
            self.sequences[chosen], self.firsts[chosen], self.sizes[chosen], self.cells[chosen]
        )


@dataclass(frozen=True, eq=False)
class LengthsPlan:
    """Where every sequence goes: the result of `plan_lengths`.

    The arrays `sequence`, `start`, `length`, `step`, `worker`, `micro_batch`, `row` and
    `column` have an int64 for each placed piece of a sequence, in the order of the last five.

    Attributes
    ----------
    layout : Packed
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

    layout: Packed
    num_data_partitions: int
    num_steps: int
    num_micro_batches: int
    multiple_of: int
    left_out: Mapping[int, str]
    rest: NDArray[np.int64]
    _sizes: NDArray[np.uint32] = field(repr=False)
    _pieces: LengthPieces = field(repr=False)
    _placed: Sequence[NDArray[Any]] = field(repr=False)  # pieces of each step, as they are laid
    _ends: Sequence[NDArray[np.uint32]] = field(repr=False)  # of each slot for a row, in them
    _loads: Sequence[NDArray[np.float64]] = field(repr=False)
    _labels: NDArray[np.int64] = field(repr=False)
    _weights: NDArray[np.float64] = field(repr=False)
    _has_labels: bool = field(repr=False)

    @cached_property
    def _all(self) -> NDArray[Any]:
        return np.concatenate(self._placed)

    @cached_property
    def sequence(self) -> NDArray[np.int64]:
        """The index of the sequence."""
        return _int64(self._pieces.sequences[self._all])

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """The sample of the sequence that the piece begins with."""
        return _int64(self._pieces.firsts[self._all])

    @cached_property
    def length(self) -> NDArray[np.int64]:
        """Samples of the piece."""
        return _int64(self._pieces.sizes[self._all])

    @cached_property
    def _slot(self) -> NDArray[np.int64]:
        """The slot for a row, counted through all steps, workers and micro-batches."""
        counts = np.diff(np.stack([np.r_[0, ends] for ends in self._ends]), axis=1).reshape(-1)
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def _rows(self) -> int:
        return self.layout.micro_batch_rows or 1

    @cached_property
    def step(self) -> NDArray[np.int64]:
        """The optimizer step."""
        per_step = self.num_data_partitions * self.num_micro_batches * self._rows
        return self._slot // max(1, per_step)

    @cached_property
    def worker(self) -> NDArray[np.int64]:
        """The worker, of `num_data_partitions`."""
        per_worker = max(1, self.num_micro_batches * self._rows)
        return self._slot // per_worker % self.num_data_partitions

    @cached_property
    def micro_batch(self) -> NDArray[np.int64]:
        """The micro-batch of the worker in the step."""
        return self._slot // self._rows % max(1, self.num_micro_batches)

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """The row in the micro-batch."""
        return self._slot % self._rows

    @cached_property
    def column(self) -> NDArray[np.int64]:
        """The cell of the row that the piece begins in."""
        cells = self._pieces.cells[self._all].astype(np.int64)
        before = np.cumsum(cells) - cells
        is_first = np.diff(self._slot, prepend=-1) != 0
        row_lengths = np.diff(np.append(np.flatnonzero(is_first), len(cells)))
        column: NDArray[np.int64] = before - np.repeat(before[is_first], row_lengths)
        return column

    @property
    def fill_ratio(self) -> float:
        """Placed samples over the cells of all micro-batches, fillers included."""
        slots = sum(map(len, self._ends))
        cells = slots * self.layout.row_length
        return int(self.length.sum()) / cells if cells else 1.0

    @property
    def loads(self) -> NDArray[np.float64]:
        """Cost of each micro-batch by the balance, else samples: (workers, micro-batches).

        Of several steps, (steps * workers, micro-batches).
        """
        shape = self.num_steps * self.num_data_partitions, self.num_micro_batches
        return np.concatenate(self._loads).reshape(shape)

    @cached_property
    def global_num_label_samples(self) -> NDArray[np.int64]:
        """Labels of each step over all workers: int64, shape (steps,)."""
        own = [int(self._labels[self.sequences_of(step)].sum()) for step in self._steps]
        return np.array(own, np.int64)

    @cached_property
    def global_label_weight(self) -> NDArray[np.float64]:
        """Weight of the labels of each step, summed in the order of arrival: (steps,)."""
        sums = [
            float(np.add.accumulate(self._weights[chosen])[-1]) if len(chosen) else 0.0
            for chosen in map(self.sequences_of, self._steps)
        ]
        return np.array(sums)

    @property
    def _steps(self) -> range:
        return range(self.num_steps)

    def sequences_of(self, step: int) -> NDArray[np.int64]:
        """Return the indices of the sequences of a step over all workers, ascending."""
        check_int("step", step, 0, self.num_steps)
        return _int64(np.unique(self._pieces.sequences[self._placed[step]]))

    def places(self, partition_index: int, step: int) -> Iterator[slice]:
        """Iterate over the micro-batches of a worker: where their pieces are in the arrays."""
        check_int("partition_index", partition_index, 0, self.num_data_partitions)
        check_int("step", step, 0, self.num_steps)
        before = sum(map(len, self._placed[:step]))
        ends = np.r_[0, self._ends[step]]
        for number in range(self.num_micro_batches):
            first = (partition_index * self.num_micro_batches + number) * self._rows
            yield slice(before + int(ends[first]), before + int(ends[first + self._rows]))

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
        places = list(self.places(partition_index, step))
        if _counts_masks(definitions) and not self._has_labels:
            held = self.sequences_of(step)
        else:
            own = slice(places[0].start, places[-1].stop) if places else slice(0)
            held = np.unique(self.sequence[own])
        return _Streams(self, data, definitions, held, step).deliver(places, partition_index)

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


class LengthsMinibatch(Minibatch):
    """A micro-batch of a worker, by a plan of lengths.

    Attributes
    ----------
    indices : ndarray of int64
        The sequences, as the lengths count them, in the order of `ids`.
    global_label_weight : float
        Weight of all labels of the step, over all workers.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> plan = sh.plan_lengths([3, 5], sh.Packed(8))
    >>> (minibatch,) = plan.minibatches({"tokens": [np.arange(3), np.arange(5)]})
    >>> minibatch.indices, minibatch.is_filler
    (array([0, 1]), False)
    """

    __slots__ = ("_num_labels", "_slots", "global_label_weight", "indices")

    indices: NDArray[np.int64]
    global_label_weight: float
    _slots: NDArray[np.int64]  # columns of the pieces, and the end of what they take
    _num_labels: int | None

    @property
    def is_filler(self) -> bool:
        """True if it holds no sequence, and is there to make the numbers equal."""
        return not len(self.indices)

    @property
    def global_num_label_samples(self) -> int:
        """Labels of the step over all workers: the divisor of a sum of losses."""
        if self._num_labels is not None:
            return self._num_labels
        return super().global_num_label_samples

    @property
    def cu_seqlens_padded(self) -> NDArray[np.int32]:
        """Boundaries of the cells that segments take, as ``multiple_of`` rounds them up.

        They are those of consecutive segments: int32, shape (sequences + 1,).
        """
        cells = np.r_[0, np.cumsum(self._slots)]
        return repeat_last(cells, self.layout.cu_seqlens_capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        own = {name: getattr(self, name) for name in LengthsMinibatch.__slots__}
        return _remade, (super().__reduce__()[1], own)


def _remade(arguments: tuple[Any, ...], own: Mapping[str, Any]) -> LengthsMinibatch:
    made = LengthsMinibatch(*arguments)
    for name, value in own.items():
        setattr(made, name, value)
    return made


def _counts_masks(definitions: StreamsLike | None) -> bool:
    known = dict(definitions) if isinstance(definitions, Mapping) else {}
    return any(
        getattr(one, "loss_mask", None) is not None or getattr(one, "parts", None) is not None
        for one in known.values()
    )


class _Streams:
    """The corpus of some of the sequences of a plan, and what carries out a plan of it."""

    def __init__(
        self,
        plan: LengthsPlan,
        data: Mapping[str, object],
        definitions: StreamsLike | None,
        held: NDArray[np.int64],
        step: int,
    ) -> None:
        self.plan, self.held, self.step = plan, held, step
        num_sequences = len(plan._sizes)
        # Without sequences one is taken all the same, for the types of the streams.
        chosen = self.held if len(self.held) else _any_there(data)
        given = {name: _taken(name, one, chosen, num_sequences) for name, one in data.items()}
        corpus = ArrayDeserializer(given, definitions).open(Ledger())
        self.opening = OpenContext(ledger=Ledger())
        one_each = {name for name, one in given.items() if isinstance(one, np.ndarray)}
        self.corpus = lay_out(corpus, plan.layout, self.opening, one_each)
        if len(self.held):
            self._check_sizes(plan._sizes[self.held])
        self.contents = Contents(
            {info.name: (i, info) for i, info in enumerate(self.corpus.streams)},
            plan.layout,
            GivenIds([str(index) for index in chosen.tolist()]),
            None,
            kind_without_stream(self.corpus.streams, self.corpus.core),
        )
        self.assembler = make_assembler(
            self.corpus,
            plan.layout.assemble_options,
            partial(padding_of, plan.layout),
            load_ahead=False,
            report=self.opening.ledger.report_by(self.corpus.ids),
        )

    def _check_sizes(self, planned: NDArray[np.uint32]) -> None:
        found = self.corpus.core.sizes(0, self.corpus.num_sequences)
        wrong = np.flatnonzero(found != planned)
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"sequence {self.held[at]} has {found[at]} samples, planned are {planned[at]}"
            )

    def _counted(self, num_workers_pieces: slice) -> _core.compose.PieceCount:
        plan = self.plan
        sequences, starts = plan.sequence[num_workers_pieces], plan.start[num_workers_pieces]
        ends = starts + plan.length[num_workers_pieces]
        is_last = ends == plan._sizes[sequences]
        labels = own_labels = 0
        masks = self.corpus.masks
        if masks is not None and not plan._has_labels:
            numbers = np.searchsorted(self.held, sequences)
            stops = ends + ~is_last
            labels = _masks_between(masks, numbers, starts + 1, stops)
            own_labels = _masks_between(masks, numbers, starts + 1, ends)
        return _core.compose.PieceCount(
            int((ends - starts).sum()), len(sequences), int(is_last.sum()), labels, own_labels
        )

    def deliver(self, places: list[slice], partition_index: int) -> Iterator[LengthsMinibatch]:
        """Iterate over micro-batches."""
        plan = self.plan
        begin = sum(map(len, plan._placed[: self.step]))
        counted = self._counted(slice(begin, begin + len(plan._placed[self.step])))
        request = _core.compose.Request(
            counted.samples,
            plan.num_data_partitions,
            partition_index,
            crosses_sweeps=False,
            balance=None,
        )
        rows, global_rows = plan.layout.micro_batch_rows or 1, len(plan._ends[self.step])
        for place in places:
            indices, starts, sizes = plan.sequence[place], plan.start[place], plan.length[place]
            table = np.stack(
                [plan.row[place], plan.column[place], starts, plan._sizes[indices]], axis=1
            )
            core = _core.compose.plan_of_micro_batch(
                np.searchsorted(self.held, indices).astype(np.uint64),
                sizes.astype(np.uint32),
                table.astype(np.uint32),
                rows,
                plan.layout.row_length,
                request,
                counted,
                global_rows,
            )
            made = LengthsMinibatch(self.assembler.assemble(core), self.contents)
            made.indices = indices.copy()
            made._slots = -(-sizes // plan.multiple_of) * plan.multiple_of
            made._num_labels = (
                int(plan.global_num_label_samples[self.step]) if plan._has_labels else None
            )
            made.global_label_weight = float(plan.global_label_weight[self.step])
            yield made


def _masks_between(
    masks: Any, numbers: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> int:
    """Return how many samples of loss masks lie in ranges of sequences."""
    total = 0
    for number, begin, end in zip(
        numbers.tolist(), begins.tolist(), ends.tolist(), strict=True
    ):
        runs = masks.bounds[masks.offsets[number] : masks.offsets[number + 1]].reshape(-1, 2)
        low, high = np.maximum(runs[:, 0], begin), np.minimum(runs[:, 1], end)
        total += int(np.maximum(high.astype(np.int64) - low, 0).sum())
    return total


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
    places = list(plan.places(partition_index, step))
    for number in values:
        check_int("a micro-batch", number, 0, len(places))
    arrays = {
        number: one if hasattr(one, "shape") else np.asarray(one)
        for number, one in values.items()
    }
    # Of one kind in all micro-batches: one that has a single sample does not say which.
    for split in (_by_cells, _by_samples, _by_sequences):
        parts = {number: split(plan, places[number], one) for number, one in arrays.items()}
        if all(one is not None for one in parts.values()):
            break
    else:
        number = next(number for number, one in parts.items() if one is None)
        sizes, rows = plan.length[places[number]], plan.layout.micro_batch_rows or 1
        raise ValueError(
            f"micro-batch {number} has {rows} rows of {plan.layout.row_length} cells, "
            f"{int(sizes.sum())} samples and {len(sizes)} sequences; its values have shape "
            f"{tuple(arrays[number].shape)}, or other micro-batches have values of another kind"
        )
    found: dict[int, list[tuple[int, Any]]] = {}
    for number, own in parts.items():
        place = places[number]
        pieces = zip(plan.sequence[place].tolist(), plan.start[place].tolist(), strict=True)
        for (index, start), one in zip(pieces, own or [], strict=True):
            found.setdefault(index, []).append((start, one))
    result: list[Any] = [None] * len(plan._sizes)
    for index, its in found.items():
        in_order = [one for _, one in sorted(its, key=lambda part: part[0])]
        result[index] = in_order[0]
        if len(in_order) > 1:
            join = np.stack if split is _by_sequences else np.concatenate
            result[index] = join(in_order)
    return result


def _by_cells(plan: LengthsPlan, place: slice, array: Any) -> list[Any] | None:
    """Return what each piece has of (rows, row length, ...); None if that is not the shape."""
    rows = plan.layout.micro_batch_rows or 1
    if tuple(array.shape[:2]) != (rows, plan.layout.row_length):
        return None
    cells = zip(plan.row[place], plan.column[place], plan.length[place], strict=True)
    return [array[row, begin : begin + size] for row, begin, size in cells]


def _by_samples(plan: LengthsPlan, place: slice, array: Any) -> list[Any] | None:
    """Return the same of (samples, ...)."""
    ends = np.cumsum(plan.length[place]).tolist()
    if tuple(array.shape[:1]) != (ends[-1] if ends else 0,):
        return None
    return [array[begin:end] for begin, end in pairwise([0, *ends])]


def _by_sequences(plan: LengthsPlan, place: slice, array: Any) -> list[Any] | None:
    """Return the same of (sequences, ...)."""
    return list(array) if tuple(array.shape[:1]) == (place.stop - place.start,) else None
