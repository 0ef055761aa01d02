"""The question in a page's address: which minibatch, in which layout, for whom."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from urllib.parse import parse_qsl, urlencode

_BOUND = 2**63
_WORDS = frozenset({"search", "layout"})
_LEAST = {"size": 1, "workers": 1, "length": 1}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A minibatch that is asked for.

    Attributes
    ----------
    size : int
        Samples in a minibatch, over all workers.
    step : int
        Counted from 0, which begins at `start`.
    start : int
        A nominal time; 0 but for places so far away that their step is not counted.
    time : int, optional
        A nominal time: the step that has it, in place of `step`.
    search : str
        An id, or a part of ids.
    sweep : int
        In which an id is looked for.
    workers, rank : int
        Whose share.
    layout : str
        One of `layout_names`; "" is the source's own.
    length : int, optional
        Of the layout.
    """

    size: int
    step: int = 0
    start: int = 0
    time: int | None = None
    search: str = ""
    sweep: int = 0
    workers: int = 1
    rank: int = 0
    layout: str = ""
    length: int | None = None

    def asked(self, query: str) -> Question:
        """Return the question of an address, with fields of this one where it has none.

        ValueError if a number is invalid, or out of range.
        """
        names = {field.name for field in fields(self)}
        given: dict[str, object] = {}
        for name, word in parse_qsl(query, keep_blank_values=True):
            if name not in names:
                raise ValueError(
                    f"an address has no {name!r}; it has {', '.join(sorted(names))}"
                )
            if name in _WORDS:
                given[name] = word.strip()
            elif word.strip():
                given[name] = _number(name, word)
            elif name in ("time", "length"):
                given[name] = None
        found = replace(self, **given)  # type: ignore[arg-type] # each by its name
        return found if found.rank < found.workers else replace(found, rank=found.workers - 1)

    def link(self, **changes: object) -> str:
        """Return the address of the question with changed fields."""
        changed = replace(self, **changes)  # type: ignore[arg-type] # each by its name
        return "?" + urlencode({name: value for name, value in changed.fields() if value != ""})

    def fields(self) -> list[tuple[str, object]]:
        """Return the fields of an address: all that hold a value."""
        every = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [(name, value) for name, value in every if value is not None]


def _number(name: str, word: str) -> int:
    try:
        number = int(word.replace(",", ""))
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {word!r:.40}") from None
    least = _LEAST.get(name, 0)
    if not least <= number < _BOUND:
        raise ValueError(f"{name} must be at least {least}, got {word!r:.40}")
    return number
