"""The minibatches of a combination, one after the other: the oracle of a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests import model_layouts
from tests.combinations import mixture_parts, units
from tests.combinations.combination import Combination, EventSpec
from tests.combinations.units import Piece, Unit

import sweephand as sh


@dataclass(frozen=True)
class PlannedMinibatch:
    """A global minibatch without bans; no units are the end of data."""

    time: int
    units: tuple[Unit, ...]  # sequences, or rows
    sweeps_ended: int | None = None  # where the model knows
    bucket_key: int | None = None

    @property
    def num_samples(self) -> int:
        return sum(unit.size for unit in self.units)

    @property
    def pieces(self) -> list[Piece]:
        return [piece for unit in self.units for piece in unit.pieces]


class Plan(Protocol):
    """Minibatches from where the run stands. A place is taken, and gone back to."""

    def take(self, size: int) -> PlannedMinibatch: ...
    def place(self) -> object: ...
    def go_to(self, place: object) -> None: ...
    def add(self, spec: EventSpec) -> None: ...


def plan_of(combination: Combination) -> Plan:
    layout = combination.layout
    if not isinstance(layout, sh.Bucketed | sh.TruncatedBPTT):
        return UnitPlan(combination, list(combination.events))
    return WholePlan(combination, list(combination.events))


# Minibatches of sequences or rows -------------------------------------------------------------


@dataclass
class UnitPlan:
    combination: Combination
    specs: list[EventSpec]
    _units: list[Unit] = field(default_factory=list)
    _more: Iterator[Unit] | None = None
    time: int = 0

    def add(self, spec: EventSpec) -> None:
        self.specs.append(spec)
        self._units, self._more = [], None

    def place(self) -> int:
        return self.time

    def go_to(self, place: object) -> None:
        assert isinstance(place, int)
        self.time = place

    def _unit(self, number: int) -> Unit | None:
        if self._more is None:
            self._more = self._all()
        while len(self._units) <= number:
            unit = next(self._more, None)
            if unit is None:
                return None
            self._units.append(unit)
        return self._units[number]

    def _all(self) -> Iterator[Unit]:
        layout = self.combination.layout
        if not isinstance(layout, sh.Packed):
            return units.sequences(self.combination, self.specs)
        if self.combination.is_mixture:
            return mixture_parts.rows(self.combination, self.specs)
        return units.rows(self.combination)

    def _is_skipped(self, unit: Unit) -> bool:
        return any(
            spec.kind == "skip" and spec.at <= unit.time < spec.at + spec.numbers[0]
            for spec in self.specs
        )

    def _next(self) -> tuple[int, Unit | None]:
        """The first unit from here that comes."""
        for number in itertools.count():
            unit = self._unit(number)
            if unit is None or (unit.time >= self.time and not self._is_skipped(unit)):
                return number, unit
        raise AssertionError

    def current_position(self) -> int:
        _, unit = self._next()
        if unit is not None:
            return unit.time
        return self._units[-1].time + self._units[-1].size if self._units else self.time

    def _cuts(self) -> set[int]:
        return {spec.at for spec in self.specs if spec.kind in ("skip", "map_version")}

    def take(self, size: int) -> PlannedMinibatch:
        number, unit = self._next()
        if unit is None:
            return PlannedMinibatch(self.time, ())
        taken = [unit]
        for place in itertools.count(number + 1):
            more = self._unit(place)
            if more is None or not self._fits(taken, more, size):
                break
            taken.append(more)
        end = taken[-1].time + taken[-1].size
        self.time = end
        _, after = self._next()
        ended = None
        if not self.combination.is_mixture:
            total = self.combination.made[0].model.num_samples
            last = self._units[-1]
            stop = last.time + last.size if after is None else after.time
            ended = stop // total - unit.time // total
        return PlannedMinibatch(unit.time, tuple(taken), ended)

    def _fits(self, taken: Sequence[Unit], unit: Unit, size: int) -> bool:
        first = taken[0]
        if any(first.time < cut <= unit.time for cut in self._cuts()) or self._is_skipped(unit):
            return False
        if unit.row_length != first.row_length:
            return False
        if size == sh.FULL_DATA_SWEEP:
            return unit.sweep == first.sweep
        if unit.row_length:
            return len(taken) < max(1, size // unit.row_length)
        return sum(one.size for one in taken) + unit.size <= size


# Minibatches that are made as one -------------------------------------------------------------


@dataclass
class WholePlan:
    """Buckets and continued rows, which depend on all that was asked for."""

    combination: Combination
    specs: list[EventSpec]
    requests: tuple[int, ...] = ()

    def add(self, spec: EventSpec) -> None:
        assert spec.kind != "skip"
        self.specs.append(spec)

    def place(self) -> tuple[int, ...]:
        return self.requests

    def go_to(self, place: object) -> None:
        assert isinstance(place, tuple)
        self.requests = place

    def take(self, size: int) -> PlannedMinibatch:
        self.requests = (*self.requests, size)
        all_taken = list(self._all())
        if len(all_taken) < len(self.requests):
            last = all_taken[-1]
            return PlannedMinibatch(last.time + last.num_samples, ())
        return all_taken[-1]

    def _all(self) -> Iterator[PlannedMinibatch]:
        combination, requests = self.combination, iter(self.requests)
        if combination.is_mixture:
            for one, drawn in mixture_parts.buckets(combination, self.specs, self.requests):
                yield PlannedMinibatch(one.time, tuple(drawn), bucket_key=one.key)
            return
        layout, settings = combination.layout, combination.order
        corpus = combination.made[0].model
        limit = units.limit_of(combination, corpus)
        if isinstance(layout, sh.Bucketed):
            for one in model_layouts.bucketed(
                corpus, settings, [int(one) for one in layout.boundaries], requests, limit
            ):
                sequences = [
                    Unit(entry.time, (Piece(0, entry.sequence, entry.sweep, 0, entry.size),),
                         entry.lane)
                    for entry in one.entries
                ]  # fmt: skip
                yield PlannedMinibatch(one.time, tuple(sequences), one.sweeps_ended, one.key)
            return
        assert isinstance(layout, sh.TruncatedBPTT)
        for taken in model_layouts.bptt(corpus, settings, layout.length, requests, limit):
            sweep = taken.time // corpus.num_samples
            rows = [
                tuple(
                    Piece(0, one.sequence, sweep, one.first, one.size, one.goes_on)
                    for one in row
                )
                for row in taken.rows
            ]
            yield PlannedMinibatch(
                taken.time, tuple(Unit(taken.time, row) for row in rows), taken.sweeps_ended
            )
