"""The question in the address of a page, and the controls that ask another."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from urllib.parse import parse_qsl, urlencode

from sweephand.ext.view.markup import Markup, tag
from sweephand.extend import layout_names

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
    search: str = ""  # an id, or a part of ids
    sweep: int = 0  # in which it is looked for
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


def controls(
    question: Question, last: int | None, time: int | None, hint: str | None
) -> Markup:
    """Return the controls of a page, with the last step and the nominal time where known.

    `hint` is in the empty field for nominal times.
    """
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
    moment = _number_field("time", question.time, "Nominal time", placeholder=hint)
    search = tag("input", type="search", name="search", id="search", autocomplete="off")
    part = tag("label", tag("span", "Id, or a part of it"), search)
    jumps = [
        _form(question, {"step"}, walk),
        _form(question, {"time"}, moment),
        _form(
            question,
            {"search", "sweep"},
            part,
            _number_field("sweep", question.sweep, "in sweep"),
        ),
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
