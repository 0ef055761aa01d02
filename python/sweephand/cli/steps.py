"""Steps of a fixed minibatch size, counted from 0, and when they begin."""

from __future__ import annotations

from sweephand.source.source import MinibatchSource
from sweephand.terminal.screen import Screen


def time_of_step(source: MinibatchSource, size: int, step: int, screen: Screen) -> int:
    """Return the nominal time at which a step begins; nothing is read."""
    if _has_unit_sequences(source):
        return step * size
    time = 0
    with screen.progress("steps", step) as advance:
        for _, planned in zip(range(step), source.plan(size, start=0), strict=False):
            time = planned.nominal_time + planned.global_num_samples
            advance(1)
    return time


def step_at_time(source: MinibatchSource, size: int, time: int, screen: Screen) -> int:
    """Return the step that delivers the sample at a nominal time; nothing is read."""
    if _has_unit_sequences(source):
        return time // size
    step = -1
    with screen.progress("steps", time) as advance:
        for step, planned in enumerate(source.plan(size, start=0)):  # noqa: B007
            if time < planned.nominal_time + planned.global_num_samples:
                break
            advance(planned.global_num_samples)
    return step


def _has_unit_sequences(source: MinibatchSource) -> bool:
    # No sequence has fewer than one sample.
    return source.num_samples_per_sweep == source.num_sequences_per_sweep
