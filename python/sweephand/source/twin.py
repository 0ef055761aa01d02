"""A second cursor on the order of a running cursor, to look at it meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sweephand.source.cursor import Cursor
from sweephand.source.plan import Plan

if TYPE_CHECKING:
    from sweephand.layouts import Layout


def twin_of(plan: Plan, layout: Layout | None = None) -> Cursor:
    """Return a cursor at the start of the same timeline, without threads of its own.

    Parameters
    ----------
    plan : Plan
        It is opened anew, and left as it is.
    layout : Layout, optional
        Another layout, in place of its own.
    """
    changes: dict[str, Any] = {"num_threads": 0, "num_map_workers": 0}
    if layout is not None:
        changes |= {"layout": layout, "frame_mode": False, "truncation_length": 0}
    options = replace(plan.options, events=None, **changes)
    return Cursor(Plan.open(options, plan.events, crosses_sweeps=plan.crosses_sweeps))
