"""The end of the timeline, as users give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sweephand.base.checks import check_int


class NamedLimit(int):
    """A limit that shows its name where it is a default, and is an integer everywhere."""

    def __repr__(self) -> str:
        return _LIMIT_NAMES.get(int(self), int.__repr__(self))


_LIMIT_NAMES = {2**64 - 1: "INFINITELY_REPEAT", 2**64 - 2: "FULL_DATA_SWEEP"}

INFINITELY_REPEAT = NamedLimit(2**64 - 1)
FULL_DATA_SWEEP = NamedLimit(2**64 - 2)
MAX_TIME = 2**63 - 1
END_OF_TIME = MAX_TIME - 2**32  # no sequence is longer, so that none ends after MAX_TIME


@dataclass(frozen=True)
class Limits:
    """The end of the timeline, in samples or in sweeps."""

    samples: int
    sweeps: int

    @classmethod
    def check(cls, samples: int, sweeps: int) -> Self:
        """Return the limits that a caller passed; ValueError if invalid, or both given."""
        check_int("max_samples", samples, 1, 2**64)
        check_int("max_sweeps", sweeps, 1, 2**64)
        if samples != INFINITELY_REPEAT and sweeps != INFINITELY_REPEAT:
            raise ValueError("give max_samples or max_sweeps, not both")
        for name, value in (("max_samples", samples), ("max_sweeps", sweeps)):
            if MAX_TIME < value < FULL_DATA_SWEEP:
                raise ValueError(f"{name} must be below 2^63, got {value}")
        return cls(samples, sweeps)

    def in_samples(self, sweep_samples: int) -> int:
        """Return the limit in samples, or INFINITELY_REPEAT."""
        if FULL_DATA_SWEEP in (self.samples, self.sweeps):
            return sweep_samples
        if self.sweeps != INFINITELY_REPEAT:
            limit = self.sweeps * sweep_samples
            if limit > MAX_TIME:
                raise ValueError(f"{self.sweeps} sweeps of {sweep_samples} samples pass 2^63")
            return limit
        return self.samples

    def of_mixture(self, at_end: str) -> tuple[int, int | None]:
        """Return the limit of a mixture in samples, and in sweeps of its corpora."""
        if self.samples == FULL_DATA_SWEEP:
            raise ValueError("a mixture has no sweep: give max_samples in samples")
        if self.sweeps != INFINITELY_REPEAT and at_end != "stop":
            raise ValueError(f"max_sweeps of a mixture is for at_end='stop', not {at_end!r}")
        if at_end == "repeat":
            return self.samples, None
        is_one = self.sweeps in (INFINITELY_REPEAT, FULL_DATA_SWEEP)
        return self.samples, 1 if is_one else self.sweeps


def even_workers(num_lanes: int) -> list[int]:
    """Return the numbers of workers that have equally many lanes each."""
    return [count for count in range(1, num_lanes + 1) if num_lanes % count == 0]
