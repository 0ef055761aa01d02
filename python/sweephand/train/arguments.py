"""Checks of the objects that callers pass in."""

from os import PathLike
from typing import Any, TypeVar

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
