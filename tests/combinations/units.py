"""What a layout makes as one, sequences and rows, in the order of the timeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests import model, model_layouts
from tests.combinations.combination import Combination, EventSpec
from tests.model import ModelCorpus
from tests.model_events import ChangedMixture

import sweephand as sh


@dataclass(frozen=True)
class Piece:
    """Samples of a sequence that is planned: number of its corpus, and of it there."""

    corpus: int
    made: int
    sweep: int
    first: int
    size: int
    goes_on: bool = False


@dataclass(frozen=True)
class Unit:
    time: int
    pieces: tuple[Piece, ...]
    lane: int = 0
    row_length: int = 0

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def sweep(self) -> int:
        return self.pieces[0].sweep


def limit_of(combination: Combination, corpus: ModelCorpus) -> int | None:
    if combination.max_sweeps is not None:
        return combination.max_sweeps * corpus.num_samples
    return combination.max_samples


def mixture_of(combination: Combination, specs: Sequence[EventSpec]) -> ChangedMixture:
    """The mixture of the model, with what its events change."""
    return ChangedMixture(
        corpora=dict(
            zip(combination.names, [made.model for made in combination.made], strict=True)
        ),
        knots=combination.knots,
        settings=combination.order,
        at_end=combination.at_end,
        sweeps=combination.max_sweeps or 1,
        changes=[
            (spec.at, spec.numbers)
            for spec in sorted(specs, key=lambda spec: spec.at)
            if spec.kind == "weights"
        ],
    )


def sequences(combination: Combination, specs: Sequence[EventSpec]) -> Iterator[Unit]:
    """Units that are a sequence each."""
    if combination.is_mixture:
        for one in mixture_of(combination, specs).order():
            if combination.max_samples is not None and one.time >= combination.max_samples:
                return
            piece = Piece(one.corpus, one.sequence, one.sweep, 0, one.size)
            yield Unit(one.time, (piece,), one.lane)
        return
    corpus = combination.made[0].model
    limit = limit_of(combination, corpus)
    for entry in model.timeline(corpus, combination.order):
        if limit is not None and entry.time >= limit:
            return
        piece = Piece(0, entry.sequence, entry.sweep, 0, entry.size)
        yield Unit(entry.time, (piece,), entry.lane)


def rows(combination: Combination) -> Iterator[Unit]:
    """Units that are a packed row each, of one corpus."""
    layout = combination.layout
    assert isinstance(layout, sh.Packed)
    corpus = combination.made[0].model
    limit = limit_of(combination, corpus)
    for sweep in itertools.count():
        for row in model_layouts.packed_sweep(
            corpus,
            combination.order,
            layout.row_length,
            layout.look_ahead,
            sweep,
            limits=combination.limits(0),
        ):
            if limit is not None and row.time >= limit:
                return
            pieces = tuple(
                Piece(0, one.sequence, sweep, one.first, one.size, one.goes_on)
                for one in row.pieces
            )
            yield Unit(row.time, pieces, row_length=layout.row_length)
