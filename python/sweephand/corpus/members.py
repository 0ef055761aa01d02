"""Members of objects by name, where ``a.b.c`` is the member c of the member b of a."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LACKING: Any = object()
"""The value of a member that is not there."""


@dataclass(frozen=True)
class Unusable:
    """The value of a member that is there and cannot be had, with the reason."""

    reason: str


def splits_of(name: str) -> Iterator[tuple[str, str | None]]:
    """Iterate over the readings of a name, a member or an id of it; the longest member first.

    Examples
    --------
    >>> list(splits_of("a.b.c"))
    [('a.b.c', None), ('a.b', 'c'), ('a', 'b.c')]
    """
    yield name, None
    at = name.rfind(".")
    while at > 0:
        yield name[:at], name[at + 1 :]
        at = name.rfind(".", 0, at)


def member_at(members: Mapping[Any, Any], name: str) -> Any:
    """Return a member of an object at any depth; `LACKING`, or `Unusable` within no object."""
    found = LACKING
    for outer, inner in splits_of(name):
        value = members.get(outer, LACKING)
        if inner is None:
            if value is not LACKING:
                return value
        elif isinstance(value, Mapping):
            own = member_at(value, inner)
            if own is not LACKING and not isinstance(own, Unusable):
                return own
            found = own if found is LACKING else found
        elif isinstance(value, Unusable):
            found = value
        elif value is not LACKING:
            kind = "null" if value is None else type(value).__name__
            found = Unusable(f"lies in {outer!r}, which is {kind}, no object")
    return found
