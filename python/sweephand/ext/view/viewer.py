"""The viewer of a corpus: a page for every question."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from sweephand import DataError, Layout
from sweephand.ext.view.page import Markup, Page, in_count, joined, note, short, tag
from sweephand.ext.view.source_view import Steps, TooFar, place_view
from sweephand.extend import Cursor, Position, layout_names, layout_of_length

_BOUND = 2**63
_WORDS = frozenset({"search", "layout"})
_LEAST = {"size": 1, "workers": 1, "length": 1}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A minibatch that is asked for."""

    size: int  # samples over all workers
    step: int = 0  # from `start`
    start: int = 0  # a nominal time; 0 but for places too far away to count their steps
    time: int | None = None  # in place of a step, the one that has it
    search: str = ""  # an id
    workers: int = 1
    rank: int = 0
    layout: str = ""  # a name; "" is the source's own
    length: int | None = None  # of the layout

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


def controls(question: Question, last: int | None, time: int | None) -> Markup:
    """Return the controls of a page, with the last step and the nominal time where known."""
    step = question.step
    at_end = last is not None and step >= last
    before = min(step - 1, last) if last is not None else step - 1
    walk = tag(
        "div",
        _step("previous", "← Back", None if step == 0 else question.link(step=before)),
        _number_field("step", question.step, "Step"),
        _step("next", "Forward →", None if at_end else question.link(step=step + 1)),
        class_="walk",
    )
    moment = _number_field("time", question.time, "Nominal time")
    search = tag("input", type="search", name="search", id="search", autocomplete="off")
    part = tag("label", tag("span", "Id"), search)
    jumps = [
        _form(question, {"step"}, walk),
        _form(question, {"time"}, moment),
        _form(question, {"search"}, part),
        _settings(question, time),
    ]
    return tag("nav", *jumps, aria_label="minibatch")


def _settings(question: Question, time: int | None) -> Markup:
    """Return the settings, which stay at the nominal time."""
    layouts = [
        tag("option", name or "as given", value=name, selected=name == question.layout)
        for name in ("", *layout_names())
    ]
    place = tag("input", type="hidden", name="time", value=time) if time is not None else None
    return _form(
        question,
        {"size", "workers", "rank", "layout", "length"}
        | ({"step", "start"} if place else set()),
        _number_field("size", question.size, "Size", least=1),
        _number_field("workers", question.workers, "Workers", least=1),
        _number_field("rank", question.rank, "Worker"),
        tag("label", tag("span", "Layout"), tag("select", *layouts, name="layout")),
        _number_field("length", question.length, "its length", least=1, placeholder="auto"),
        place,
    )


def _form(question: Question, own: set[str], *children: Markup | None) -> Markup:
    """Return a form that keeps all fields but its own."""
    dropped = own | {"time", "search"}
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in question.fields()
        if name not in dropped and value != ""
    ]
    button = tag("button", "Go", type="submit")
    return tag("form", *children, *hidden, button, method="get")


def _step(name: str, words: str, address: str | None) -> Markup:
    if address is None:
        return tag("span", words, class_="button off", aria_disabled="true")
    rel = "prev" if name == "previous" else "next"
    return tag("a", words, href=address, id=name, rel=rel, class_="button")


def _number_field(
    name: str, value: int | None, words: str, *, least: int = 0, placeholder: str | None = None
) -> Markup:
    limits = {"min": least, "placeholder": placeholder, "inputmode": "numeric"}
    field = tag("input", type="number", name=name, value=value, **limits)
    return tag("label", tag("span", words), field)


_MOST_SAMPLES = 2**26  # of a minibatch
_KEPT = 4  # sizes whose steps are remembered
# Errors that data, an address or a user's function can cause; anything else is a bug.
_EXPECTED = (
    DataError, ValueError, KeyError, IndexError, TypeError, OSError, ImportError, OverflowError,
    MemoryError,
)  # fmt: skip


class _Opened(NamedTuple):
    key: tuple[str, int | None, int]  # what its layout is of
    cursor: Cursor
    steps_of: Callable[[int, int], Steps]  # of a size, from a nominal time on


@dataclass
class Viewer:
    """Pages of a corpus. One thread at a time asks it.

    `open_cursor` returns a cursor in a layout; in the layout of the plan, for None.
    """

    open_cursor: Callable[[Layout | None], Cursor]
    name: str
    first: Question  # what is shown first
    decode: object = None

    def __post_init__(self) -> None:
        self._opened: _Opened | None = None  # in the layout that was asked for last

    def close(self) -> None:
        """Close the cursor."""
        if self._opened is not None:
            self._opened.cursor.close()
            self._opened = None

    def page(self, question: Question) -> Page:
        """Return the page of a question, with controls; errors are shown in it."""
        steps = begin = None
        notes: list[Markup] = []
        try:
            opened = self._open(question)
            question, notes = self._settled(opened, question)
            steps = opened.steps_of(question.size, question.start)
            begin = _begin(steps, question)
            with suppress(TooFar, IndexError):
                steps.begin_of(question.step + 1)  # which finds out if this one is the last
            shown = self._place(opened.cursor, begin, question, has_links=True)
        except _EXPECTED as error:
            reason = error.args[0] if isinstance(error, KeyError) and error.args else error
            shown = _error(reason)
        last = steps.count - 1 if steps and steps.count else None
        bar = controls(question, last, None if begin is None else begin.time)
        return self._titled(question, [bar, *notes, shown])

    def page_alone(self, question: Question) -> Page:
        """Return the page of a question without controls.

        KeyError if no sequence has the id; IndexError if the data end before the place.
        """
        opened = self._open(question)
        question, _ = self._settled(opened, question)
        begin = _begin(opened.steps_of(question.size, question.start), question)
        shown = self._place(opened.cursor, begin, question, has_links=False)
        return self._titled(question, [shown])

    def _titled(self, question: Question, parts: list[Markup]) -> Page:
        title = f"step {in_count(question.step)}"
        if question.start:
            title += f" from nominal time {in_count(question.start)}"
        heading = tag("h1", tag("span", self.name), " ", tag("small", title))
        return Page(f"{self.name}: {title}", joined([heading, *parts]))

    def page_of_error(self, error: Exception) -> Page:
        """Return a page of an error alone."""
        start = tag("p", tag("a", "Begin again", href="?"))
        return Page(self.name, joined([tag("h1", self.name), _error(error), start]))

    def _open(self, question: Question) -> _Opened:
        if question.size > _MOST_SAMPLES:
            raise ValueError(
                f"a page shows minibatches of up to {in_count(_MOST_SAMPLES)} samples, "
                f"got {in_count(question.size)}"
            )
        by_size = question.size if question.layout and question.length is None else 0
        key = question.layout, question.length, by_size
        if self._opened is None or self._opened.key != key:
            self.close()
            layout = None
            if question.layout:
                layout = layout_of_length(question.layout, question.length, question.size)
            cursor = self.open_cursor(layout)
            self._opened = _Opened(key, cursor, lru_cache(_KEPT)(partial(Steps, cursor)))
        return self._opened

    def _settled(self, opened: _Opened, question: Question) -> tuple[Question, list[Markup]]:
        """Replace a question for a time or an id by that for a step, with notes on it."""
        notes: list[Markup] = []
        time, name = question.time, question.search
        if name:
            time = opened.cursor.plan.find(name, 0, question.size)
            words = f" begins at nominal time {in_count(time)}."
            notes.append(note(tag("code", short(name)), words))
        question = replace(question, time=None, search="")
        if time is None:
            return question, notes
        try:
            start, step = 0, opened.steps_of(question.size, 0).step_at(time)
            if step is None:
                raise IndexError(f"the data end before nominal time {in_count(time)}")
        except TooFar:
            start, step = time, 0
            notes.append(note("So far away steps are counted from there."))
        return replace(question, start=start, step=step), notes

    def _place(
        self, cursor: Cursor, begin: Position, question: Question, *, has_links: bool
    ) -> Markup:
        return place_view(
            cursor,
            begin,
            question.size,
            decode=self.decode,
            workers=question.workers,
            rank=question.rank,
            link=(lambda worker: question.link(rank=worker)) if has_links else None,
        )


def _begin(steps: Steps, question: Question) -> Position:
    """Return where the step of a question begins."""
    try:
        return steps.begin_of(question.step)
    except TooFar:
        raise ValueError(
            f"to plan {in_count(question.step)} steps takes too long; go to a nominal time"
        ) from None


def _error(reason: object) -> Markup:
    return tag("p", reason, class_="error", role="alert")
