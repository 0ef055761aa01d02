"""States as JSON holds them, and their checked reading: a malformed one raises `StateError`."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from sweephand.base.checks import check_int, check_number
from sweephand.errors import StateError

T = TypeVar("T")


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while a state is read into `StateError`."""
    try:
        yield
    except StateError:
        raise
    except KeyError as error:
        raise StateError(f"the state of {what} lacks {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise StateError(f"this is no state of {what}: {error}") from error


def check_keys(what: str, state: object, wanted: Collection[str]) -> None:
    """Raise `StateError` unless a state is a mapping with all these keys."""
    if not isinstance(state, Mapping):
        raise StateError(
            f"the state of {what} must be a dict, as its state_dict returns, got {state!r:.100}"
        )
    if missing := set(wanted) - state.keys():
        raise StateError(f"the state of {what} lacks {', '.join(sorted(missing))}")


def read_count(name: str, value: object) -> int:
    """Return a count: an int of at least 0."""
    return check_int(name, value, 0, 2**63)


def read_counts(kind: type[T], state: Mapping[str, Any]) -> T:
    """Make a dataclass of numbers: counts where its fields are ints, else a number or None."""
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = state[field.name]
        if field.type in (int, "int"):
            values[field.name] = read_count(field.name, value)
        else:
            values[field.name] = None if value is None else check_number(field.name, value)
    return kind(**values)


def read_optional(read: Callable[[str, object], T], name: str, value: object) -> T | None:
    """Return None for None, and otherwise the value that is read."""
    return None if value is None else read(name, value)


def read_text(name: str, value: object) -> str:
    """Return a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {value!r}")
    return value


def capture_random_state() -> dict[str, Any]:
    """Return the states of Python's and NumPy's global generators."""
    python_version, words, gauss = random.getstate()
    return {
        "python": [python_version, list(words), gauss],
        "numpy": plain(np.random.get_state(legacy=False)),  # noqa: NPY002
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set Python's and NumPy's global generators, or raise StateError."""
    with reading("random generators"):
        python_version, words, gauss = state["python"]
        random.setstate((python_version, tuple(words), gauss))
        np.random.set_state(state["numpy"])  # noqa: NPY002


def plain(state: Any) -> Any:
    """Return a state with lists in place of arrays."""
    if isinstance(state, Mapping):
        return {name: plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
