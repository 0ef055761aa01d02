"""A combination is served, call by call, beside its plan."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.combinations.checks import Oracle, check_minibatch
from tests.combinations.combination import Action, Combination, EventSpec
from tests.combinations.plans import PlannedMinibatch, UnitPlan, plan_of
from tests.combinations.serve import event_of, source_of

import sweephand as sh


class Run:
    """A source and the plan that it must follow."""

    def __init__(self, combination: Combination) -> None:
        self.combination = combination
        self.engine: dict[str, Any] = dict(combination.engine)
        self.specs = list(combination.events)
        self.plan = plan_of(combination)
        self.oracle = Oracle(combination, self.specs)
        self.source = source_of(combination, self.specs, **self.engine)
        self.places = [(self._state(), self.plan.place())]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def do(self, action: Action) -> None:
        getattr(self, f"_{action.kind}")(action)

    def _state(self) -> str:
        return json.dumps(self.source.get_checkpoint_state(), allow_nan=False)

    def _take(self, action: Action) -> None:
        combination = self.combination
        workers = action.workers
        if combination.order.randomize:
            workers = 1 + (workers - 1) % combination.order.num_lanes
        planned = self.plan.take(action.size)
        state = self._state()
        told = next(iter(self.source.plan(action.size)), None)
        shares: list[sh.Minibatch] = []
        for rank in reversed(range(workers)):  # the plan of the last one is that of all
            if shares:
                self.source.restore_from_checkpoint(json.loads(state))
            shares.append(
                self.source.next_minibatch(
                    action.size, num_data_partitions=workers, partition_index=rank
                )
            )
        shares.reverse()
        check_minibatch(self.oracle, planned, shares, workers)
        if told is not None:
            assert told.nominal_time == planned.time
            assert told.global_num_samples == planned.num_samples
            assert told.global_num_label_samples == shares[0].global_num_label_samples
            assert told.global_label_weight == shares[0].global_label_weight
        self._check_answers(planned)
        self.places.append((self._state(), self.plan.place()))

    def _check_answers(self, planned: PlannedMinibatch) -> None:
        """`current_position`, `find` and `sequence_ids` agree with what came."""
        if not isinstance(self.plan, UnitPlan) or not planned.units:
            return
        assert self.source.current_position == self.plan.current_position()
        starts = []
        for unit in planned.units:
            time = unit.time
            for piece in unit.pieces:
                if piece.first == 0:
                    starts.append((time, self.oracle.id_of(piece), piece.sweep))
                time += piece.size
        begin = planned.time
        assert self.source.sequence_ids(begin, begin + planned.num_samples) == [
            name for _, name, _ in starts
        ]
        for time, name, sweep in starts[:3]:
            assert self.source.find(name, sweep) == time

    def _fresh(self, action: Action) -> None:
        """Go on in another source, with other threads."""
        state = self._state()
        if action.size % 4 == 0:
            other = pickle.loads(pickle.dumps(self.source))
        else:
            engine = {**self.engine, "num_threads": action.size % 3}
            other = source_of(self.combination, self.specs, **engine)
            other.restore_from_checkpoint(json.loads(state))
        self.source.close()
        self.source = other

    def _back(self, action: Action) -> None:
        state, place = self.places[action.size % len(self.places)]
        self.source.restore_from_checkpoint(json.loads(state))
        self.plan.go_to(place)

    def _seek(self, action: Action) -> None:
        if not isinstance(self.plan, UnitPlan):
            return
        time = action.size
        self.source.current_position = time
        self.plan.go_to(time)
        if not self._is_skipped(time):  # from there it goes on when a minibatch is taken
            assert self.source.current_position == self.plan.current_position()

    def _is_skipped(self, time: int) -> bool:
        """The first place from a time on may be in a skip."""
        skips = [one for one in self.specs if one.kind == "skip"]
        return any(one.at - 64 < time < one.at + one.numbers[0] for one in skips)

    def _event(self, action: Action) -> None:
        combination, spec = self.combination, action.event
        assert spec is not None
        at = self.source.current_position + spec.at
        spec = self._fitting(replace(spec, at=at))
        if spec is None:
            return
        self.source.events.append(event_of(combination, spec))
        self.specs.append(spec)
        self.plan.add(spec)
        self.places = [one for one in self.places if json.loads(one[0])["position"] <= spec.at]

    def _fitting(self, spec: EventSpec) -> EventSpec | None:
        """The event, if there is such a one for this combination."""
        combination = self.combination
        if spec.kind == "map_version":
            known = any(one.kind == "map_version" for one in self.specs)
            return spec if "versioned" in combination.maps and not known else None
        if spec.kind == "skip":
            return spec if isinstance(self.plan, UnitPlan) else None
        if spec.kind == "weights":
            if not combination.is_mixture:
                return None
            numbers = spec.numbers[: len(combination.corpora)]
            return replace(spec, numbers=numbers if any(numbers) else (1, *numbers[1:]))
        return spec


def rest_of(combination: Combination, state: str, sizes: Sequence[int]) -> list[Any]:
    """What comes from a state on, in a source of its own: ids, times and values."""
    with source_of(combination, combination.events, **dict(combination.engine)) as source:
        source.restore_from_checkpoint(json.loads(state))
        minibatches = [source.next_minibatch(size) for size in sizes]
        return [
            (one.nominal_time, one.ids, [x.tolist() for x in one["x"].as_sequences()])
            for one in minibatches
            if one
        ]


def serve(combination: Combination) -> None:
    """Do all of a run, and hold it to the model."""
    with Run(combination) as run:
        for action in combination.actions:
            run.do(action)
