"""Attributes that are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Make a method an attribute that is computed once, as `functools.cached_property` does.

    That one takes a lock up to Python 3.11, at more than a microsecond a time. Without it two
    threads may both compute the attribute, which must then be the same.

    Examples
    --------
    >>> class Square:
    ...     side = 3
    ...     @lazy
    ...     def area(self):
    ...         return self.side**2
    >>> square = Square()
    >>> square.area, "area" in vars(square)
    (9, True)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value = self._compute(instance)
        # Found before this descriptor from now on. Not by __dict__, which would be made for it.
        setattr(instance, self._name, value)
        return value
