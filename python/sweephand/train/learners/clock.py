"""Clocks of training: the steps, samples and sweeps that they have counted."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sweephand.train.checkpoint.read_state import read_counts


@dataclass
class Clock:
    """Counts of one clock."""

    steps: int = 0
    samples: int = 0
    sweeps: int = 0


class Clocks:
    """A clock that moves with every step, and one only with those that change parameters.

    Sweeps that end in a skipped step are not lost: the next applied step counts them.
    """

    def __init__(self) -> None:
        self.consumed = Clock()
        self.applied = Clock()

    def advance(self, num_samples: int, sweeps_ended: int, *, applied: bool) -> None:
        """Count one step."""
        self.consumed.steps += 1
        self.consumed.samples += num_samples
        self.consumed.sweeps += sweeps_ended
        if applied:
            self.applied.steps += 1
            self.applied.samples += num_samples
            self.applied.sweeps = self.consumed.sweeps

    def state_dict(self) -> dict[str, Any]:
        """Return both as JSON can hold them."""
        return {"consumed": asdict(self.consumed), "applied": asdict(self.applied)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; a malformed one raises and changes nothing."""
        clocks = (read_counts(Clock, state[name]) for name in ("consumed", "applied"))
        self.consumed, self.applied = clocks
