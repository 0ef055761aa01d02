"""Checks of the objects and numbers that callers pass in."""

import math
from os import PathLike
from typing import Any, TypeVar

from sweephand.base.checks import check_number
from sweephand.errors import ArgumentTypeError

T = TypeVar("T")
SOURCE = (
    "is_infinite", "num_samples_per_sweep", "current_position", "plan", "next_minibatch",
    "get_checkpoint_state", "restore_from_checkpoint",
)  # fmt: skip


def check_kind(name: str, value: object, kind: type[T], *, optional: bool = False) -> None:
    """Raise `ArgumentTypeError` unless a value is of a class, or None where that is allowed."""
    if not (isinstance(value, kind) or (optional and value is None)):
        or_none = " or None" if optional else ""
        raise ArgumentTypeError(
            f"{name} must be a {kind.__name__}{or_none}, got {value!r:.100}"
        )


def check_source(name: str, value: Any) -> None:
    """Raise `ArgumentTypeError` unless a value can serve a session as its source."""
    missing = [one for one in SOURCE if not hasattr(value, one)]
    if missing or isinstance(value, type):
        raise ArgumentTypeError(
            f"{name} must be a MinibatchSource, got {value!r:.100}, which is a "
            f"{type(value).__name__} and has no {', '.join(missing[:3]) or 'position'}"
        )


def check_path(name: str, value: object) -> None:
    """Raise `ArgumentTypeError` unless a value is a path."""
    if not isinstance(value, str | PathLike) or value == "":
        raise ArgumentTypeError(f"{name} must be a path, got {value!r:.100}")


def check_rate(name: str, value: object) -> float:
    """Return a finite number of at least 0, or raise TypeError or ValueError."""
    number = check_number(name, value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
    return number


def check_decay(name: str, value: object) -> float:
    """Return a number of [0, 1), or raise TypeError or ValueError."""
    number = check_number(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
    return number
