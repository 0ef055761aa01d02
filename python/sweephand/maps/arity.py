"""The number of arguments that a user's function takes, checked before it is called."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from typing import Any

_NAMES_OF_KEYS = ("key", "rng", "seed", "generator", "random", "draw")


def check_takes(function: Callable[..., Any], whose: str, *, random: bool) -> None:
    """Refuse a function that cannot be called with a sequence, or a sequence and a key."""
    try:
        known = signature(function)
    except (TypeError, ValueError):  # of a builtin
        return
    if _takes(known, 2 if random else 1):
        return
    called = f"the {whose} {getattr(function, '__name__', type(function).__name__)!r}"
    if random:
        advice = (
            "leave out random=True" if _takes(known, 1) else "it is function(sequence, key)"
        )
        raise TypeError(f"{called} takes no sequence and key, {_spelled(known)}: {advice}")
    raise TypeError(
        f"{called} takes no sequence alone, {_spelled(known)}: {_advice(known, whose)}"
    )


def _takes(known: Signature, count: int) -> bool:
    try:
        known.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _spelled(known: Signature) -> str:
    return f"but ({', '.join(known.parameters)})"


def _advice(known: Signature, whose: str) -> str:
    names = list(known.parameters)
    is_random = _takes(known, 2) and names[1] in _NAMES_OF_KEYS
    if is_random and whose == "map":
        return "write random=True beside it, and it gets a sh.Key to draw from"
    if is_random:
        return "a filter draws nothing, as it is asked once"
    streams = (
        f"def f(sequence): {names[0]} = sequence[{names[0]!r}]" if names else "f(sequence)"
    )
    key = ""
    if whose == "map" and _takes(known, 2):
        key = "; with random=True the second argument is a sh.Key to draw from"
    return f"it is given a dict from stream to array, {streams}{key}"
