"""Events on the timeline: changes from a nominal time on, and of nothing before it.

`MinibatchSource.events` adds them to a source that runs; ``MinibatchSource(..., events=...)``
takes what it gives, or a file, and is the same run.
"""

from sweephand.events.event import (
    Add,
    Ban,
    Event,
    MapVersion,
    Retire,
    RowLength,
    Skip,
    Weights,
)
from sweephand.events.event_file import load, save

__all__ = [
    "Add",
    "Ban",
    "Event",
    "MapVersion",
    "Retire",
    "RowLength",
    "Skip",
    "Weights",
    "load",
    "save",
]
