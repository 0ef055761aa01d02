"""A clock of training: the steps, samples and sweeps that it has counted."""

from dataclasses import dataclass


@dataclass
class Clock:
    """What one clock has counted."""

    steps: int = 0
    samples: int = 0
    sweeps: int = 0
