"""Rows and buckets of a mixture, from the first sequences of it: parts may have a million."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from tests.combinations.combination import Combination, EventSpec
from tests.combinations.units import Piece, Unit, mixture_of
from tests.model_events import ChangedMixture
from tests.model_mixtures import (
    ENDLESS,
    BucketMinibatch,
    Mixed,
    bucket_parts,
    bucketed_mixture,
    first_in_sight,
    packed_mixture,
    row_parts,
)

import sweephand as sh

REACH = 2**13  # no run comes so far


def reached(combination: Combination, specs: Sequence[EventSpec], size: int) -> ChangedMixture:
    """The mixture whose shares change where parts of this size begin, if a run comes there."""
    mixture = mixture_of(combination, specs)
    changes: list[tuple[int, Sequence[Fraction | int]]] = []
    for time, change in mixture.changes:
        begin = boundary(replace(mixture, changes=changes), size, time)
        if begin is None:
            break
        changes.append((begin, change))
    return replace(mixture, changes=changes)


def boundary(mixture: ChangedMixture, size: int, time: int) -> int | None:
    """The first beginning of a part from a time on; None is after the reach of a run."""
    number = time // size
    for one in mixture.order():
        if one.time >= number * size:
            if one.time >= time:
                return one.time
            number = one.time // size + 1
        if number * size >= REACH:
            return None
    return None


def rows(combination: Combination, specs: Sequence[EventSpec]) -> Iterator[Unit]:
    """Units that are a packed row each, of a mixture, up to the reach of a run."""
    layout = combination.layout
    assert isinstance(layout, sh.Packed)
    length = layout.row_length
    mixture = mixture_of(combination, specs)
    size = ENDLESS // row_parts(mixture, length)
    mixture = reached(combination, specs, size)
    limits = {number: combination.limits(number) for number in range(len(combination.names))}
    given = 0
    for samples in itertools.accumulate(itertools.repeat(2), int.__mul__, initial=512):
        taken, is_all = first_in_sight(mixture, size, samples, layout.look_ahead)
        number = 0
        for row, members in packed_mixture(mixture, taken, length, layout.look_ahead, limits):
            if combination.max_samples is not None and row.time >= combination.max_samples:
                return
            if not is_all and row.time + 2 * length > samples:
                break
            number += 1
            if number <= given:
                continue
            given += 1
            assert row.time < REACH
            pieces = tuple(
                Piece(one.corpus, one.sequence, one.sweep, piece.first, piece.size,
                      piece.goes_on)
                for one, piece in zip(members, row.pieces, strict=True)
            )  # fmt: skip
            yield Unit(row.time, pieces, row_length=length)
        if is_all:
            return


def buckets(
    combination: Combination, specs: Sequence[EventSpec], requests: Sequence[int]
) -> list[tuple[BucketMinibatch, list[Unit]]]:
    """The minibatch of every request, fewer only at the end of data."""
    layout = combination.layout
    assert isinstance(layout, sh.Bucketed)
    boundaries = [int(one) for one in layout.boundaries]
    mixture = mixture_of(combination, specs)
    size = ENDLESS // bucket_parts(mixture)
    mixture = reached(combination, specs, size)
    for samples in itertools.accumulate(itertools.repeat(2), int.__mul__, initial=512):
        taken, is_all = first_in_sight(mixture, size, samples, 0)
        if combination.max_samples is not None and combination.max_samples <= samples:
            taken, is_all = [one for one in taken if one.time < combination.max_samples], True
        found = [
            (one, [_unit(taken[entry.sequence]) for entry in one.entries])
            for one in bucketed_mixture(
                mixture, taken, boundaries, iter(requests), is_all=is_all
            )
        ]
        if is_all or len(found) == len(requests):
            return found
    raise AssertionError


def _unit(one: Mixed) -> Unit:
    return Unit(one.time, (Piece(one.corpus, one.sequence, one.sweep, 0, one.size),), one.lane)
