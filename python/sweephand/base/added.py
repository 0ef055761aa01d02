"""What installed packages add, named by entry points."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


def entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    found: EntryPoints = import_module("importlib.metadata").entry_points(group=group)
    return found  # its module is slow to import, and rarely needed


def load_added(group: str, name: str) -> Any | None:
    """Return the object that an entry point names, the first one of several; None: of none."""
    return next((one.load() for one in entry_points(group) if one.name == name), None)
