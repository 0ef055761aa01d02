"""A sample of the tests that multiply cases, in which each value of each axis is tried."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

_Axis = tuple[tuple[str, ...], tuple[int, ...]]
_Item = TypeVar("_Item", bound=pytest.Item)


def covering(items: Iterable[_Item]) -> list[_Item]:
    """Return the items that are enough to try each value of each axis of each test function.

    A function with one axis, or none, keeps all that it has.
    """
    functions: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    return [item for own in functions.values() for item in _covering(own)]


def _covering(items: list[_Item]) -> list[_Item]:
    axes = [_axes(item) for item in items]
    if max(map(len, axes)) < 2:
        return items
    untried = set().union(*axes)
    taken: set[int] = set()
    while untried:
        best = max(range(len(items)), key=lambda index: len(axes[index] & untried))
        taken.add(best)
        untried -= axes[best]
    return [items[index] for index in sorted(taken)]


def _axes(item: pytest.Item) -> set[_Axis]:
    """Return the names and the value of each parametrization, values by identity."""
    call = getattr(item, "callspec", None)
    if call is None:
        return set()
    values = dict(call.params)
    axes = set()
    for mark in item.iter_markers("parametrize"):
        names = _names(mark.args[0] if mark.args else mark.kwargs["argnames"])
        axes.add((names, tuple(id(values.pop(name)) for name in names if name in values)))
    return axes | {((name,), (id(value),)) for name, value in values.items()}


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (
        tuple(name.strip() for name in given.split(","))
        if isinstance(given, str)
        else tuple(given)
    )
