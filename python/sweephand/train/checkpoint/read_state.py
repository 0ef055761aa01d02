"""States as JSON holds them, and their checked reading: a malformed one raises `StateError`."""

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from sweephand.base.checks import check_flag, check_int, check_number
from sweephand.errors import StateError


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


def decode(kind: Any, value: Any, name: str = "it") -> Any:
    """Return a value of a type that `asdict` and JSON have taken apart; the name is for errors.

    Types are dataclasses with such fields, numbers (an int is a count), flags, texts, lists,
    tuples, mappings from text, literals, and any of these or None. What is of another type
    raises TypeError, ValueError or KeyError: `reading` makes them a `StateError`.
    """
    outer, inner = get_origin(kind) or kind, get_args(kind)
    if NoneType in inner:
        return None if value is None else decode(inner[0], value, name)
    if kind is int:
        return read_count(name, value)
    if kind is float:
        return check_number(name, value)
    if kind is bool:
        return check_flag(name, value)
    if kind is str or outer is Literal:
        if not isinstance(value, str) or (inner and value not in inner):
            wanted = " or ".join(map(repr, inner)) or "a str"
            raise TypeError(f"{name} must be {wanted}, got {value!r:.100}")
        return value
    if is_dataclass(kind):
        types = get_type_hints(kind)
        names = [field.name for field in fields(kind)]
        return outer(**{one: decode(types[one], value[one], one) for one in names})
    if outer in (list, tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} must be a list, got {value!r:.100}")
        is_pair = outer is tuple and inner[-1] is not Ellipsis
        kinds = inner if is_pair else inner[:1] * len(value)
        return outer(decode(*pair, name) for pair in zip(kinds, value, strict=True))
    if outer in (dict, Mapping):
        return {key: decode(inner[1], one, f"{name}[{key!r}]") for key, one in value.items()}
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
