"""What the shares of a minibatch must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.combinations import shares
from tests.combinations.combination import Combination, EventSpec
from tests.combinations.made import items_of, mask_of, part_of, values_of, weight_of
from tests.combinations.plans import PlannedMinibatch
from tests.combinations.serve import BASE
from tests.combinations.units import Piece, Unit

import sweephand as sh

IGNORED = -100


class Oracle:
    """What is delivered of what is planned, with the events until now."""

    def __init__(self, combination: Combination, specs: Sequence[EventSpec]) -> None:
        self.combination = combination
        self.specs = specs

    def id_of(self, piece: Piece) -> str:
        return self.combination.id_of(piece.corpus, piece.made)

    def banned(self, time: int) -> set[str]:
        """The ids that are left out of what begins at a time."""
        all_ids = self.combination.all_ids
        return {
            all_ids[number % len(all_ids)]
            for spec in self.specs
            if spec.kind == "ban" and spec.at <= time
            for number in spec.numbers
        }

    def version(self, time: int) -> int:
        changes = [s for s in self.specs if s.kind == "map_version" and s.at <= time]
        return 2 if changes else 1

    def values(self, piece: Piece, time: int) -> NDArray[np.int64]:
        combination = self.combination
        corpus = combination.made[piece.corpus]
        values = values_of(
            corpus.all[piece.made],
            BASE * piece.corpus,
            combination.order.seed,
            piece.sweep,
            corpus.sizes,
            self.version(time),
        )
        return values[piece.first : piece.first + piece.size]

    def joined(self, piece: Piece) -> NDArray[np.int64]:
        base = BASE * piece.corpus + 1000 * self.label(piece)
        return -(base + self.stored_samples(piece))

    def stored_samples(self, piece: Piece) -> NDArray[np.int64]:
        """Which samples of the stored sequence the piece has, where no map changes sizes."""
        frame = self.combination.made[piece.corpus].all[piece.made].frame
        return (piece.first if frame is None else frame) + np.arange(piece.size)

    def items(self, piece: Piece) -> NDArray[np.int64]:
        """What the sequence carries, with its first piece."""
        if piece.first or piece.corpus == self.combination.bare:
            return np.zeros(0, np.int64)
        return items_of(self.label(piece), BASE * piece.corpus)

    def mask(self, piece: Piece) -> NDArray[np.uint8]:
        if not self.combination.masks:
            return np.ones(piece.size, np.uint8)
        return mask_of(self.label(piece), self.stored_samples(piece))

    def part(self, piece: Piece) -> NDArray[np.int32]:
        samples = self.stored_samples(piece)
        if not self.combination.has_parts:
            return np.zeros(piece.size, np.int32)
        return part_of(self.label(piece), samples)

    def is_label(self, piece: Piece) -> NDArray[np.bool_]:
        """Which samples but the first are the label of the one before."""
        part = self.part(piece)
        return (self.mask(piece)[1:] > 0) & (part[1:] == part[:-1])

    def label_weight(self, piece: Piece) -> float:
        """The sum of the weights of the labels of a piece, from left to right."""
        piece = replace(piece, size=piece.size + piece.goes_on)
        samples = self.stored_samples(piece) * (self.combination.weights == "each")
        weights = weight_of(self.label(piece), samples)[1:] if self.combination.weights else 1.0
        return _sum_of(np.where(self.is_label(piece), weights, 0.0).tolist())

    def label(self, piece: Piece) -> int:
        return self.combination.made[piece.corpus].all[piece.made].number


def check_minibatch(
    oracle: Oracle, planned: PlannedMinibatch, found: Sequence[sh.Minibatch], workers: int
) -> None:
    """Hold the shares of all workers to the plan."""
    combination = oracle.combination
    dealt = shares.shares(combination, planned, workers)
    _check_label_samples(combination, found)
    _check_label_weights(oracle, planned, found)
    assert {one.global_num_sequences for one in found} == {sum(len(one.ids) for one in found)}
    for minibatch, units in zip(found, dealt, strict=True):
        assert bool(minibatch) == bool(planned.units)
        if not planned.units:
            assert not minibatch.ids
            continue
        assert minibatch.nominal_time == planned.time
        assert minibatch.global_num_samples == planned.num_samples
        if planned.sweeps_ended is not None:
            assert minibatch.sweeps_ended == planned.sweeps_ended
            assert minibatch.end_of_sweep == (planned.sweeps_ended > 0)
        if planned.bucket_key is not None:
            assert minibatch.bucket_key == planned.bucket_key
        check_share(oracle, planned, minibatch, units)


def _check_label_samples(combination: Combination, found: Sequence[sh.Minibatch]) -> None:
    """How many labels count, over all workers, is known to each."""
    if not found[0]:
        return
    if shares.has_one_sample_each(combination):
        own = [one.num_samples for one in found]
    else:
        own = [_num_labels(one["x"]) for one in found]
        unshifted = sum(_num_labels(one["x"], shifted=False) for one in found)
        for one in found:
            assert one["x"].global_num_labels() == sum(own)
            assert one["x"].global_num_labels(shifted=False) == unshifted
    assert [one.num_label_samples for one in found] == own
    assert {one.global_num_label_samples for one in found} == {sum(own)}


def _check_label_weights(
    oracle: Oracle, planned: PlannedMinibatch, found: Sequence[sh.Minibatch]
) -> None:
    """Their sum is known, to the bit; without weights it is the number of labels."""
    if not found[0]:
        return
    if not oracle.combination.weights:
        assert {one.global_label_weight for one in found} == {found[0].global_num_label_samples}
        return
    begins = _begins(planned)
    wanted = _sum_of(
        oracle.label_weight(piece)
        for unit in planned.units
        for place, piece in enumerate(unit.pieces)
        if oracle.id_of(piece) not in oracle.banned(begins[id(unit), place])
    )
    assert {one.global_label_weight for one in found} == {wanted}
    delivered = sum(float(one["x"].label_weights().sum()) for one in found)
    assert delivered == pytest.approx(wanted)


def _sum_of(numbers: Iterable[float]) -> float:
    """From left to right, as ``sum`` of some versions does not."""
    return reduce(add, numbers, 0.0)


def _num_labels(data: sh.MinibatchData, *, shifted: bool = True) -> int:
    is_label = data.loss_mask(shifted)
    assert ((data.labels(shifted=shifted) != IGNORED) == is_label).all()
    return int(is_label.sum())


def check_share(
    oracle: Oracle, planned: PlannedMinibatch, minibatch: sh.Minibatch, units: Sequence[Unit]
) -> None:
    whole = isinstance(oracle.combination.layout, sh.Bucketed | sh.TruncatedBPTT)
    begins = _begins(planned)
    rows: list[list[Piece]] = []
    left_out: list[str] = []
    values, joined, labels, items, masks, parts = [], [], [], [], [], []
    for unit in units:
        time = planned.time if whole else unit.time
        rows.append([])
        for place, piece in enumerate(unit.pieces):
            if oracle.id_of(piece) in oracle.banned(begins[id(unit), place]):
                left_out.append(oracle.id_of(piece))
                continue
            rows[-1].append(piece)
            values.append(oracle.values(piece, time))
            joined.append(oracle.joined(piece))
            labels.append(oracle.label(piece))
            items.append(oracle.items(piece))
            masks.append(oracle.mask(piece))
            parts.append(oracle.part(piece))
    pieces = [piece for row in rows for piece in row]
    assert minibatch.ids == [oracle.id_of(piece) for piece in pieces]
    assert Counter(minibatch.banned_ids) == Counter(left_out)
    assert minibatch.num_sequences == len(pieces)
    assert minibatch.num_samples == sum(piece.size for piece in pieces)
    _check_stream(minibatch, "x", values)
    if oracle.combination.joined is not None:
        _check_stream(minibatch, "y", joined)
    if "label" in minibatch:
        assert np.ravel(minibatch["label"].values).tolist() == labels
    if oracle.combination.carries:
        _check_items(minibatch["items"], items)
    if oracle.combination.masks:
        _check_stream(minibatch, "mask", masks)
    if oracle.combination.has_parts:
        _check_stream(minibatch, "part", parts)
    if oracle.combination.masks or oracle.combination.has_parts:
        _check_num_labels(oracle, minibatch["x"], pieces)
    if isinstance(oracle.combination.layout, sh.Packed):
        lengths = {unit.row_length for unit in planned.units}
        check_rows(oracle, minibatch, rows, values, max(lengths))
    cells = minibatch.num_samples
    if minibatch["x"].is_padded:
        cells = np.asarray(minibatch["x"].mask).size
        if not isinstance(oracle.combination.layout, sh.Packed):
            _check_padding(minibatch["x"])
    assert minibatch.fill_ratio == (minibatch.num_samples / cells if cells else 1.0)


def _begins(planned: PlannedMinibatch) -> dict[tuple[int, int], int]:
    """When each piece begins: what comes before it in the minibatch, row by row."""
    time, begins = planned.time, {}
    for unit in planned.units:
        for place, piece in enumerate(unit.pieces):
            begins[id(unit), place] = time
            time += piece.size
    return begins


def _check_stream(
    minibatch: sh.Minibatch, name: str, wanted: Sequence[NDArray[np.int64]]
) -> None:
    found = minibatch[name].as_sequences()
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.tolist() == other.tolist()


def _check_items(data: sh.MinibatchData, wanted: Sequence[NDArray[np.int64]]) -> None:
    """What is carried stands sequence after sequence."""
    found = np.split(np.asarray(data.values), np.asarray(data.offsets)[1:-1])
    assert len(data.offsets) == len(wanted) + 1
    assert [one.tolist() for one in found[: len(wanted)]] == [one.tolist() for one in wanted]


def _check_num_labels(oracle: Oracle, data: sh.MinibatchData, pieces: Sequence[Piece]) -> None:
    """Of whole sequences, all samples but the first are labels, as far as there is a loss."""
    if any(piece.first or piece.goes_on for piece in pieces) or data.info.is_single:
        return
    assert _num_labels(data) == sum(int(oracle.is_label(piece).sum()) for piece in pieces)


def _check_padding(data: Any) -> None:
    """The samples of padded rows, row after row, are those of the sequences."""
    cells, mask = np.asarray(data.asarray()), np.asarray(data.mask)
    assert cells[mask > 0].tolist() == [
        value for one in data.as_sequences() for value in one.tolist()
    ]
    assert not cells[mask == 0].any()


def check_rows(
    oracle: Oracle,
    minibatch: sh.Minibatch,
    rows: Sequence[Sequence[Piece]],
    values: Sequence[NDArray[np.int64]],
    length: int,
) -> None:
    """Packed rows: what is in the cells, segments, positions and labels."""
    shape = (len(rows), length)
    cells = np.zeros(shape, np.int64)
    labels = np.full(shape, IGNORED)
    segments, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    starts = np.zeros(shape, np.uint8)
    left = iter(values)
    for r, row in enumerate(rows):
        column = number = 0
        for piece in row:
            run, place = next(left), slice(column, column + piece.size)
            cells[r, place] = run
            starts[r, place] = 1
            starts[r, column] = 1 if piece.first else 2
            labels[r, column : column + piece.size - 1] = np.where(
                oracle.is_label(piece), run[1:], IGNORED
            )
            for size in np.unique(oracle.part(piece), return_counts=True)[1].tolist():
                number += 1
                segments[r, column : column + size] = number
                positions[r, column : column + size] = np.arange(size)
                column += size
    data = minibatch["x"]
    assert data.asarray().tolist() == cells.tolist()
    assert data.mask.tolist() == starts.tolist()
    assert minibatch.segment_ids.tolist() == segments.tolist()
    assert minibatch.position_ids.tolist() == positions.tolist()
    found = data.labels()
    ends = {
        (r, sum(one.size for one in row[: n + 1]) - 1)
        for r, row in enumerate(rows)
        for n, piece in enumerate(row)
        if piece.goes_on
    }
    for r, column in ends:  # the label of the last sample of a piece is in the next one
        labels[r, column] = found[r, column]
    assert found.tolist() == labels.tolist()
