"""Layouts by their names, as in files and in what users write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from sweephand import layouts
from sweephand.layouts import Layout
from sweephand.layouts.base import EXAMPLE


def layout_by_name(name: object, options: Mapping[str, Any]) -> Layout:
    """Return the layout that ``sh.NAME(**options)`` is.

    Raises
    ------
    KeyError
        If there is none of the name.
    TypeError, ValueError
        If it does not take the options.
    """
    return _classes()[str(name)](**options)


def spelled_layouts() -> dict[str, str]:
    """Return the spelling of every layout by its name in lower case.

    Examples
    --------
    >>> spelled_layouts()["packed"]
    'sh.Packed(row_length)'
    """
    return {name.lower(): _spelled(kind) for name, kind in _classes().items()}


def _spelled(kind: type[Layout]) -> str:
    needed = [
        one.metadata.get(EXAMPLE, one.name) for one in fields(kind) if one.default is MISSING
    ]
    return f"sh.{kind.__name__}({', '.join(needed)})"


def _classes() -> dict[str, type[Layout]]:
    found = {name: getattr(layouts, name) for name in dir(layouts) if name != "Layout"}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Layout)
    }
