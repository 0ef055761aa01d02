"""The controls of a served page: plain links and forms, which need no script."""

from __future__ import annotations

from sweephand.ext.view.markup import Markup, tag
from sweephand.ext.view.question import Question
from sweephand.extend import layout_names


def controls(
    question: Question, last: int | None, time: int | None, hint: str | None
) -> Markup:
    """Return the controls of a page.

    Parameters
    ----------
    question : Question
        What the page shows.
    last : int, optional
        The last step, once it is known.
    time : int, optional
        The nominal time that is shown, if it is known.
    hint : str, optional
        Placeholder of the empty field for nominal times.
    """
    step = question.step
    at_end = last is not None and step >= last
    before = min(step - 1, last) if last is not None else step - 1
    walk = tag(
        "div",
        _step("previous", "← Back", None if step == 0 else question.link(step=before)),
        _number("step", question.step, "Step"),
        _step("next", "Forward →", None if at_end else question.link(step=step + 1)),
        class_="walk",
    )
    jumps = [
        _form(question, {"step"}, walk),
        _form(
            question, {"time"}, _number("time", question.time, "Nominal time", placeholder=hint)
        ),
        _form(
            question,
            {"search", "sweep"},
            tag(
                "label",
                tag("span", "Id, or a part of it"),
                tag("input", type="search", name="search", id="search", autocomplete="off"),
            ),
            _number("sweep", question.sweep, "in sweep"),
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
        _number("size", question.size, "Size", least=1),
        _number("workers", question.workers, "Workers", least=1),
        _number("rank", question.rank, "Worker"),
        tag("label", tag("span", "Layout"), tag("select", *layouts, name="layout")),
        _number("length", question.length, "its length", least=1, placeholder="auto"),
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


def _number(
    name: str, value: int | None, words: str, *, least: int = 0, placeholder: str | None = None
) -> Markup:
    field = tag(
        "input",
        type="number",
        name=name,
        value=value,
        min=least,
        placeholder=placeholder,
        inputmode="numeric",
    )
    return tag("label", tag("span", words), field)
