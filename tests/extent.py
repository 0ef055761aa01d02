"""How much a test tries of all there is: a sample, or with `pytest --exhaustive` all."""

from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")

exhaustive = False  # conftest.py sets it before a test is collected


def sample(items: Sequence[_Item], most: int) -> Sequence[_Item]:
    """Return at most `most` items, evenly spaced from the first on; with --exhaustive all.

    The step is odd, so that what alternates from place to place, or goes through the bits of a
    byte, still does.
    """
    return items if exhaustive else items[:: -(-len(items) // most) | 1]


def draws(count: int) -> int:
    """Return how many of `count` examples hypothesis draws: a tenth, at least 20."""
    return count if exhaustive else min(count, max(20, count // 10))
