"""A second source in the order of another one, to look at it while that one runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweephand.minibatch.position import Position

if TYPE_CHECKING:
    from sweephand.layouts import Layout
    from sweephand.source.source import MinibatchSource


def twin_of(source: MinibatchSource, layout: Layout | None = None) -> MinibatchSource:
    """Return a source at the start of the same timeline, without threads of its own.

    Parameters
    ----------
    source : MinibatchSource
        It is left as it is.
    layout : Layout, optional
        Another layout, in place of its own.
    """
    changes: dict[str, object] = {"num_threads": 0, "num_map_workers": 0}
    if layout is not None:
        changes |= {"layout": layout, "frame_mode": False, "truncation_length": 0}
    remake, recipe = source.made_at(Position(0), **changes)
    twin: MinibatchSource = remake(*recipe)
    return twin
