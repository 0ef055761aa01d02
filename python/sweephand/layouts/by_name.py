"""Layouts by their names, as in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweephand import layouts
from sweephand.layouts import Layout

_NAMES = ("Ragged", "Padded", "Frames", "Packed", "Bucketed", "TruncatedBPTT")


def layout_by_name(name: object, options: Mapping[str, Any]) -> Layout:
    """Return the layout that ``sh.NAME(**options)`` is.

    Raises
    ------
    KeyError
        If there is none of the name.
    TypeError, ValueError
        If it does not take the options.
    """
    if name not in _NAMES:
        raise KeyError(name)
    made: Layout = getattr(layouts, str(name))(**options)
    return made
