"""The moments of a run that it can go back to, and the minibatches since then."""

from __future__ import annotations

from typing import NamedTuple

from sweephand.extend import Position, Snapshot


class Moment(NamedTuple):
    """Moment that training can go back to, after `step` steps.

    `accepted` is what a rejected epoch goes back to from there.
    """

    step: int
    snapshot: Snapshot
    accepted: int | Snapshot | None


class StepPlace(NamedTuple):
    """Place of a step's minibatch in the source."""

    step: int  # from 1
    # of the source before it and after it
    begin: Position
    size: int  # requested samples
    nominal_time: int
    end: Position
    num_samples: int  # label samples over all workers


class Moments:
    """The last two moments that were kept, and the places of all steps since the first."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._kept: list[Moment] = []
        self.places: list[StepPlace] = []

    def is_due(self, step: int) -> bool:
        """Return True if a moment is due: at multiples, which a resumed run shares."""
        return not self._kept or step // self._every != self._kept[-1].step // self._every

    def keep(self, moment: Moment) -> None:
        """Keep a moment to go back to."""
        earlier = [one for one in self._kept if one.step < moment.step]
        self._kept = [*earlier[-1:], moment]
        self._forget(self._kept[0].step + 1, moment.step)

    @property
    def last(self) -> Moment:
        """The last kept moment. REQUIRES: a moment was kept."""
        return self._kept[-1]

    def note(self, place: StepPlace) -> None:
        """Note the place of the next step's minibatch."""
        while self.places and self.places[-1].step >= place.step:  # training went back
            self.places.pop()
        self.places.append(place)

    def go_back(self, step: int, reach: int) -> tuple[Moment, list[StepPlace]] | None:
        """Return the moment to go back to, and the places of a step and `reach` before it.

        Later ones are forgotten. None if it is not known.
        """
        found = [place for place in self.places if place.step <= step][-1 - reach :]
        kept = [one for one in self._kept if found and one.step < found[0].step]
        if not kept:
            return None
        self._kept = kept
        self._forget(0, kept[-1].step)
        return kept[-1], found

    def _forget(self, first: int, last: int) -> None:
        """Forget all places except those of a range of steps."""
        self.places = [place for place in self.places if first <= place.step <= last]
