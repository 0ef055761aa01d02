"""A plan of lengths: its arrays, its micro-batches laid out, and results per sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.assembler import make_assembler
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


class _Place(NamedTuple):
    """A micro-batch: its pieces in the arrays of a plan, and its shape."""

    pieces: slice
    rows: int
    width: int


def corpus_of(sizes: NDArray[np.uint32]) -> _core.index.Corpus:
    """Return sequences in hand as a corpus of one chunk."""
    num_samples = int(sizes.sum(dtype=np.int64))
    return _core.index.Corpus([len(sizes)], [num_samples], _core.index.StoredSizes(sizes))


@dataclass(frozen=True, eq=False)
class LengthsPlan:
    """The place of every sequence: the result of `plan_lengths`.

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
    loads : ndarray of float64, shape (workers, micro-batches)
        Cost of each by the balance, else samples; micro-batches of steps follow each other.
    sequence, start, length, step, worker, micro_batch, row, column : ndarray of int64
        For each placed piece of a sequence, in the order of the last five: the index of the
        sequence, the sample that the piece begins with, its samples, and where it is. `column`
        is the cell of the row that it begins in.

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
    loads: NDArray[np.float64] = field(repr=False)
    sequence: NDArray[np.int64] = field(repr=False)
    start: NDArray[np.int64] = field(repr=False)
    length: NDArray[np.int64] = field(repr=False)
    step: NDArray[np.int64] = field(repr=False)
    worker: NDArray[np.int64] = field(repr=False)
    micro_batch: NDArray[np.int64] = field(repr=False)
    row: NDArray[np.int64] = field(repr=False)
    column: NDArray[np.int64] = field(repr=False)
    # A micro-batch has a slot for each packed row, or one for all of its padded rows. The slot
    # of each placed piece, and the rows and cells of a row of each slot of all micro-batches.
    _slot: NDArray[np.int64] = field(repr=False)
    _rows: NDArray[np.int64] = field(repr=False)
    _widths: NDArray[np.int64] = field(repr=False)
    _sizes: NDArray[np.uint32] = field(repr=False)
    _aligned: Mapping[str, NDArray[np.uint32]] = field(repr=False)  # items of each sequence
    _num_labels: NDArray[np.int64] | None = field(repr=False)
    _label_weight: NDArray[np.float64] | None = field(repr=False)

    @property
    def fill_ratio(self) -> float:
        """Placed samples over the cells of all micro-batches, fillers included."""
        cells = int(self._rows @ self._widths)
        return int(self.length.sum()) / cells if cells else 1.0

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
        return np.unique(self.sequence[self.step == step])

    def _places(self, partition_index: int, step: int) -> list[_Place]:
        """Return the micro-batches of a worker."""
        check_int("partition_index", partition_index, 0, self.num_data_partitions)
        check_int("step", step, 0, self.num_steps)
        places, slots = [], self.layout.micro_batch_rows or 1
        before = (step * self.num_data_partitions + partition_index) * self.num_micro_batches
        for number in range(before, before + self.num_micro_batches):
            own = slice(number * slots, (number + 1) * slots)
            first, last = np.searchsorted(self._slot, [own.start, own.stop]).tolist()
            width = int(self._widths[own.start])
            places.append(_Place(slice(first, last), int(self._rows[own].sum()), width))
        return places

    def minibatches(
        self,
        data: Mapping[str, object],
        definitions: StreamsLike | None = None,
        partition_index: int = 0,
        step: int = 0,
    ) -> Iterator[LengthsMinibatch]:
        """Iterate over the micro-batches of a worker in an optimizer step, laid out.

        ValueError is raised if a stream has not the planned lengths, or lacks a sequence:
        naming its index.

        Parameters
        ----------
        data : dict
            Stream name to data of all n sequences: a list of arrays with None for those of
            other workers, an array with an entry each, or ``(values, offsets)``.
        definitions : StreamDefs, dict of StreamDef or list of str, optional
            As `ArrayDeserializer` takes them. With a loss mask or parts and without
            ``num_labels=`` of the plan, the data are wanted of all workers, to count labels.
        """
        return _deliver(self, data, definitions, partition_index, step)

    def put_back(
        self, values: Mapping[int, Any], partition_index: int = 0, step: int = 0
    ) -> list[Any]:
        """Return results of a worker's micro-batches per sequence, in the order of arrival.

        Parameters
        ----------
        values : dict
            Number of a micro-batch to its results: of every cell, (rows, row length, ...); of
            every sample, as `MinibatchData.values`; or of every sequence of it.

        Returns
        -------
        list
            n entries: the samples of a sequence as an array, or its single result; None
            where there is none. Other shapes are a ValueError.
        """
        places = self._places(partition_index, step)
        for number in values:
            check_int("a micro-batch", number, 0, len(places))
        arrays = {
            number: one if hasattr(one, "shape") else np.asarray(one)
            for number, one in values.items()
        }
        # Of one kind in all micro-batches: one that has a single sample does not say which.
        for kind in ("cells", "samples", "sequences"):
            parts = {n: _parted(self, places[n], one, kind) for n, one in arrays.items()}
            if all(one is not None for one in parts.values()):
                break
        else:
            number = next(number for number, one in parts.items() if one is None)
            place = places[number]
            sizes = self.length[place.pieces]
            raise ValueError(
                f"micro-batch {number} has {place.rows} rows of {place.width} cells, "
                f"{sizes.sum()} samples and {len(sizes)} sequences; its values have shape "
                f"{tuple(arrays[number].shape)}, or those of others are of another kind"
            )
        found: dict[int, list[tuple[int, Any]]] = {}
        for number, own in parts.items():
            its = places[number].pieces
            pieces = zip(self.sequence[its].tolist(), self.start[its].tolist(), strict=True)
            for (index, start), one in zip(pieces, own or [], strict=True):
                found.setdefault(index, []).append((start, one))
        result: list[Any] = [None] * len(self._sizes)
        for index, of_it in found.items():
            in_order = [one for _, one in sorted(of_it, key=lambda part: part[0])]
            result[index] = in_order[0]
            if len(in_order) > 1:
                join = np.stack if kind == "sequences" else np.concatenate
                result[index] = join(in_order)
        return result


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


def _deliver(
    plan: LengthsPlan,
    data: Mapping[str, object],
    definitions: StreamsLike | None,
    partition_index: int,
    step: int,
) -> Iterator[LengthsMinibatch]:
    """Iterate over micro-batches laid out, over a corpus of the sequences that are wanted."""
    places = plan._places(partition_index, step)
    if not places:
        return
    labels, weight = plan._num_labels, plan._label_weight
    counts_masks = labels is None and any(
        getattr(one, name, None)
        for one in (definitions.values() if isinstance(definitions, Mapping) else ())
        for name in ("loss_mask", "parts", "label_weights")
    )
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

    def pieces_of(which: Any, cells: NDArray[Any]) -> _core.compose.PlacedPieces:
        return _core.compose.PlacedPieces(
            np.searchsorted(held, plan.sequence[which]).astype(np.uint64),
            plan.start[which].astype(np.uint32),
            plan.length[which].astype(np.uint32),
            plan._sizes[plan.sequence[which]],
            cells.astype(np.uint32),
        )

    # In the order of arrival, so that sums of weights are the same for all numbers of workers.
    of_all = np.flatnonzero(plan.step == step)
    of_all = of_all[np.lexsort((plan.start[of_all], plan.sequence[of_all]))]
    counted = _core.compose.count_pieces(
        pieces_of(of_all, np.empty(0)), corpus.core if counts_masks else None
    )
    request = _core.compose.Request(
        counted.samples,
        plan.num_data_partitions,
        partition_index,
        crosses_sweeps=False,
        balance=None,
    )
    global_rows = int(plan._rows.reshape(plan.num_steps, -1)[step].sum())
    is_weighed = labels is not None or weight is not None
    of_step = (
        None if labels is None else int(plan.global_num_label_samples[step]),
        float(plan.global_label_weight[step]) if is_weighed else None,
    )
    for place in places:
        its = place.pieces
        indices, sizes = plan.sequence[its].copy(), plan.length[its]
        cells = np.empty(0)
        if isinstance(plan.layout, Packed):
            cells = np.stack([plan.row[its], plan.column[its]], axis=1)
        core = _core.compose.plan_of_pieces(
            pieces_of(its, cells),
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
    is_pair = isinstance(data, tuple) and len(data) == 2
    found = len(data[1]) - 1 if is_pair else len(data)
    if found != num_sequences:
        raise ValueError(
            f"stream {name!r} has {found} sequences, the plan {num_sequences}: give None for "
            "those of other workers"
        )
    if is_pair:
        values, offsets = data
        return [values[offsets[i] : offsets[i + 1]] for i in chosen.tolist()]
    if not isinstance(data, list):
        return np.asarray(data)[chosen]
    taken = [data[number] for number in chosen.tolist()]
    for number, one in zip(chosen.tolist(), taken, strict=True):
        if one is None:
            raise ValueError(f"stream {name!r} lacks sequence {number}, which is wanted here")
    return taken


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
