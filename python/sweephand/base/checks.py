"""Checks of arguments by type and range, and of packages that may be missing."""

import math
from collections.abc import Callable
from importlib import import_module
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar

from sweephand import _core
from sweephand.errors import ArgumentTypeError, shown

Function = TypeVar("Function", bound=Callable[..., object])


def check_int(name: str, value: object, least: int = 1, bound: int | None = None) -> int:
    """Return an int of ``[least, bound)``; booleans and floats are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        # Arrays and tensors of one integer are not integers, but convert to one.
        is_near = hasattr(value, "__index__") and getattr(value, "shape", None) == ()
        hint = "; write int(...) around it" if is_near else ""
        raise ArgumentTypeError(f"{name} must be an int, got {shown(value)}{hint}")
    number = int(value)
    if bound is not None and not least <= number < bound:
        raise ValueError(f"{name} must be in [{least}, {bound}), got {shown(value)}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(value)}")
    return number


def check_number(name: str, value: object) -> float:
    """Return a number as a float, or raise `ArgumentTypeError` if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError(f"{name} must be a number, got {shown(value)}")
    return float(value)


def check_rate(name: str, value: object) -> float:
    """Return a finite number of at least 0, or raise TypeError or ValueError."""
    number = check_number(name, value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {shown(value)}")
    return number


def check_decay(name: str, value: object) -> float:
    """Return a number of [0, 1), or raise TypeError or ValueError."""
    number = check_number(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {shown(value)}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return a bool, or raise `ArgumentTypeError` if it is none."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} must be True or False, got {shown(value)}")
    return value


def check_choice(name: str, value: object, *choices: object) -> None:
    """Raise ValueError, naming the choices, if a value is not among them."""
    if value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {shown(value)}")


def check_function(name: str, value: Function | None) -> Function | None:
    """Return a callable or None, or raise `ArgumentTypeError` if it is neither."""
    if value is not None and not callable(value):
        raise ArgumentTypeError(f"{name} must be callable or None, got {shown(value)}")
    return value


def check_kind(name: str, value: object, kind: type[Any], *, optional: bool = False) -> None:
    """Raise `ArgumentTypeError` unless a value is of a class, or None where that is allowed."""
    if not (isinstance(value, kind) or (optional and value is None)):
        or_none = " or None" if optional else ""
        raise ArgumentTypeError(
            f"{name} must be a {kind.__name__}{or_none}, got {value!r:.100}"
        )


def check_path(name: str, value: object) -> None:
    """Raise `ArgumentTypeError` unless a value is a path."""
    if not isinstance(value, str | PathLike) or value == "":
        raise ArgumentTypeError(f"{name} must be a path, got {value!r:.100}")


def check_memory(what: str, needed: int, most: int | None) -> None:
    """Raise ValueError if something takes more bytes than there are, by default in all."""
    most = _core.read.physical_memory() if most is None else most
    if needed > most:
        raise ValueError(f"{what} takes {needed} bytes of memory, there are {most}")


class OptionalModule:
    """Placeholder for a module of an optional package, with its names.

    When it is called or a name is asked for, an ImportError says what to install.
    """

    def __init__(self, name: str, extra: str) -> None:
        self._name = name
        self._extra = extra

    def __call__(self) -> Any:
        """Return the module itself."""
        try:
            return import_module(self._name)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"this needs {error.name}: pip install 'sweephand[{self._extra}]'"
            ) from error

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # asked for by classes that hold this, say
            raise AttributeError(attribute)
        value = getattr(self(), attribute)
        self.__dict__[attribute] = value  # found before this method from now on
        return value
