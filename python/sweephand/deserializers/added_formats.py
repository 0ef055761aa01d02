"""Formats that other packages add, by their entry points of the group ``sweephand.formats``."""

from __future__ import annotations

from importlib import import_module

from sweephand.deserializers.format import Format

_GROUP = "sweephand.formats"


def added_formats() -> list[Format]:
    """Return the formats of all packages that are installed, by the names of the entry points.

    Raises
    ------
    TypeError
        If an entry point names something else than a `Format`.
    """
    metadata = import_module("importlib.metadata")  # slow to import, and rarely needed
    found = []
    for point in sorted(metadata.entry_points(group=_GROUP), key=lambda one: one.name):
        format_ = point.load()
        if not isinstance(format_, Format):
            raise TypeError(
                f"the entry point {point.name} = {point.value!r} of {_GROUP} must name a "
                f"Format, got {type(format_).__name__}"
            )
        found.append(format_)
    return found
