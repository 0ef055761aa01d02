"""Names that users of other libraries look for, and their replacements."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ROW = re.compile(r"((?:^\S.*\n)+)((?:^ .*\n)+)", re.MULTILINE)
_IN_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def advice_by_name(table: str) -> dict[str, str]:
    r"""Return the replacement of each name of a table.

    A row has names, and below them, indented, their advice.

    Examples
    --------
    >>> advice_by_name("seed generator\n    it is randomization_seed\n")
    {'seed': 'it is randomization_seed', 'generator': 'it is randomization_seed'}
    """
    if left := _ROW.sub("", table).strip():
        raise ValueError(f"names need their advice in lines below them, indented: {left!r}")
    found: dict[str, str] = {}
    for names, advice in _ROW.findall(table):
        found.update(dict.fromkeys(names.split(), advice.strip().replace("\n    ", " ")))
    return found


class AnswersForeignNames:
    """A class that answers attributes of other libraries with their replacements.

    Attributes
    ----------
    _foreign : dict
        Name to what to write instead.
    """

    __slots__ = ()

    _foreign: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers and editors know that there are none

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with the replacement."""
            if name in self._foreign:
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r}: {self._foreign[name]}",
                    name=name,
                    obj=self,
                )
            return self.__getattribute__(name)  # the error of a property that raised one, too


def names_ours(
    foreign: Mapping[str, str],
    called: str | None = None,
    others: Collection[str] = (),
    several: Callable[[Sequence[Any]], str] | None = None,
    named: Callable[[Mapping[str, Any]], str] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function name its own argument when it is called with another library's name.

    Arguments that are too many or lacking are answered by the function's own name, too.

    Parameters
    ----------
    foreign : dict
        Name to what to write instead. Parameters that the function has are no foreign ones.
    called : str, optional
        The function's name as users write it.
    others : collection of str
        Arguments that go to the function although they are no parameters of it; without
        them a function of ``**others`` takes any.
    several : callable, optional
        What to write in place of too many arguments without a name, given all of them.
    named : callable, optional
        What to write in place of unknown arguments, given them by name; "" if it follows from
        their names alone.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = list(signature(function).parameters.values())
        ours = [one.name for one in parameters if one.name != "self"]
        in_place = [one for one in parameters if one.kind in _IN_PLACE]
        needed = [one.name for one in in_place if one.default is Parameter.empty]
        known = {*ours, *others}
        takes_any = not others and any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
        least, most = len(needed), len(in_place)
        label = called or function.__name__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not kwargs and least <= len(args) <= most:  # as every minibatch is asked for
                return function(*args)  # type: ignore[call-arg]  # there are none by name
            if kwargs and not takes_any and not kwargs.keys() <= known:
                raise TypeError(
                    unknown({name: kwargs[name] for name in kwargs if name not in known})
                )
            if len(args) > len(in_place):
                raise TypeError(too_many(args))
            if len(args) < len(needed) and (
                missing := [name for name in needed[len(args) :] if name not in kwargs]
            ):
                raise TypeError(f"{label}() needs {', '.join(missing)}")
            return function(*args, **kwargs)

        def too_many(args: Sequence[Any]) -> str:
            names = [one.name for one in in_place]
            first = names.index("self") + 1 if "self" in names else 0
            write = (
                "give the others by their names" if several is None else several(args[first:])
            )
            return (
                f"{label}() takes {', '.join(names[first:])} without a name, no more: {write}"
            )

        def unknown(given: Mapping[str, Any]) -> str:
            name = next(iter(given))
            write = "" if named is None else named(given)
            write = f": {write}" if write else advice(name)
            return f"{label}() got an unexpected keyword argument {name!r}{write}"

        def advice(name: str) -> str:
            if name in foreign:
                return f": {foreign[name]}"
            from difflib import get_close_matches  # only here, as it takes its time to import

            close = get_close_matches(name, ours, 1)
            return f"; is it {close[0]!r}?" if close else f", it has: {', '.join(ours)}"

        return call

    return decorate
