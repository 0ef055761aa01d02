"""Packages that not everybody has: imported when something of theirs is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class OptionalModule:
    """Placeholder for a module of an optional package, with its names.

    Raises
    ------
    ImportError
        When it is called or a name is asked for, and the package is not installed, saying how
        to install it.
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
