"""Layouts by their names, as files and users spell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweephand import layouts
from sweephand.layouts import Layout


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


def layout_names() -> list[str]:
    """Return the names of all layouts in lower case, as commands and pages offer them."""
    return [name.lower() for name in _classes()]


def layout_of_length(name: str, length: int | None, size: int) -> Layout:
    """Return `Layout.of_length` of a layout by its name in lower case.

    Raises
    ------
    ValueError
        If there is no such layout, or it has no such length.
    """
    kinds = {each.lower(): kind for each, kind in _classes().items()}
    if name not in kinds:
        raise ValueError(f"there is no layout {name!r}; there are: {', '.join(kinds)}")
    return kinds[name].of_length(length, size)


def _classes() -> dict[str, type[Layout]]:
    found = {name: getattr(layouts, name) for name in dir(layouts) if name != "Layout"}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Layout)
    }
