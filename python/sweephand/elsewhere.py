"""Attributes that users of other libraries look for, answered by what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class AnswersForeignNames:
    """A class that answers attributes of other libraries by what to write here.

    Attributes
    ----------
    _foreign : dict
        Name to what to write instead.
    """

    _foreign: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers and editors know that there are none

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with what to write."""
            if name in self._foreign:
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r}: {self._foreign[name]}",
                    name=name,
                    obj=self,
                )
            return self.__getattribute__(name)  # the error of a property that raised one, too
