"""A source at a place: its timeline, the shares of all workers, and the minibatch."""

from __future__ import annotations

import time as clock
from bisect import bisect_right
from collections.abc import Callable, Sequence

from sweephand.events import Event
from sweephand.ext.view.minibatch_view import minibatch_view
from sweephand.ext.view.page import (
    Markup,
    Page,
    and_more,
    in_count,
    joined,
    note,
    short,
    tag,
    wide_table,
)
from sweephand.extend import Cursor, Position, check_int

_SECONDS = 2.0


class TooFar(Exception):
    """Planning all steps before a place takes longer than a page may."""


class Steps:
    """The steps of one size from a nominal time on, each answer within some seconds.

    They are planned as far as they are asked for. Their `count` is None until it is known. The
    cursor is moved.
    """

    def __init__(
        self, cursor: Cursor, size: int, start: int = 0, seconds: float = _SECONDS
    ) -> None:
        self.count: int | None = None
        self._seconds = seconds
        cursor.go_to_time(start)
        self._next = cursor.position
        self._plans = cursor.plan.minibatches(self._next, size)
        self._begins: list[Position] = []
        self._times: list[int] = []

    def begin_of(self, step: int) -> Position:
        """Return the place where a step begins; IndexError if the data end before it.

        TooFar if it takes too long to plan this many steps.
        """
        until = clock.monotonic() + self._seconds
        while len(self._begins) <= step and self.count is None:
            self._plan_one(until)
        if step >= len(self._begins):
            raise IndexError(f"there is no step {step}: the data end after {self.count} steps")
        return self._begins[step]

    def step_at(self, time: int) -> int | None:
        """Return the step that holds a nominal time; None beyond the last.

        TooFar if it takes too long to plan this many steps.
        """
        until = clock.monotonic() + self._seconds
        while self.count is None and self._next.time <= time:
            self._plan_one(until)
        if not self._times or (self.count is not None and time >= self._next.time):
            return None
        return max(0, bisect_right(self._times, time) - 1)

    def _plan_one(self, until: float) -> None:
        if len(self._begins) % 64 == 0 and clock.monotonic() > until:
            raise TooFar
        planned = next(self._plans, None)
        if planned is None:
            self.count = len(self._begins)
            return
        self._begins.append(self._next)
        self._times.append(planned.nominal_time)
        self._next = planned.next_position


_EVENTS = 40
_SWEEPS = 60  # whose borders are drawn
_TEXT = 160


def timeline_figure(cursor: Cursor, begin: int, end: int) -> Markup:
    """Return the timeline around a minibatch that goes from a nominal time to another."""
    events = cursor.plan.events.in_time
    until = _until(cursor, end, events)
    scale = 100 / max(until, 1)
    width = max((end - begin) * scale, 0.4)
    drawn = [
        *_sweeps(cursor, until, scale),
        *[_mark(event, scale) for event in events[:_EVENTS]],
        tag(
            "rect",
            tag("title", f"this minibatch: {in_count(begin)} to {in_count(end)}"),
            x=f"{min(begin * scale, 100 - width):.3f}%",
            width=f"{width:.3f}%",
            y=4,
            height=28,
            class_="here",
        ),
    ]
    label = f"timeline from 0 to {in_count(until)}; this minibatch begins at {in_count(begin)}"
    axis = tag("div", tag("span", 0), tag("span", in_count(until)), class_="axis")
    return tag(
        "figure",
        tag("svg", *drawn, class_="timeline", role="img", aria_label=label),
        axis,
        class_="time",
    )


def _until(cursor: Cursor, end: int, events: Sequence[Event]) -> int:
    """Return the last time that is drawn: whole sweeps that hold all there is to see."""
    plan = cursor.plan
    times = [end, *(event.at for event in events)]
    sweep = plan.sweep_samples
    drawn: int = -(-(max(times) + 1) // sweep) * sweep
    return drawn if plan.is_infinite else min(max(drawn, plan.limit), max(plan.limit, end))


def _sweeps(cursor: Cursor, until: int, scale: float) -> list[Markup]:
    """Return a band for every sweep; a mixture has none in common."""
    sweep = cursor.plan.sweep_samples
    count = -(-until // sweep)
    if not cursor.plan.corpus.has_sweeps or count > _SWEEPS:
        return [tag("rect", x=0, width="100%", y=10, height=16, class_="sweep0")]
    return [
        tag(
            "rect",
            tag("title", f"sweep {number}: from {in_count(number * sweep)}"),
            x=f"{number * sweep * scale:.3f}%",
            width=f"{min(sweep, until - number * sweep) * scale:.3f}%",
            y=10,
            height=16,
            class_=f"sweep{number % 2}",
        )
        for number in range(count)
    ]


def _mark(event: Event, scale: float) -> Markup:
    x = f"{event.at * scale:.3f}%"
    return tag(
        "g",
        tag("title", _words(event)),
        tag("line", x1=x, x2=x, y1=2, y2=36),
        tag("circle", cx=x, cy=6, r=4),
        class_="event",
    )


def _words(event: Event) -> str:
    facts = {key: one for key, one in event.to_json().items() if key not in ("event", "at")}
    told = ", ".join(f"{key} {value}" for key, value in facts.items())
    words = f"{event.name} at {in_count(event.at)}: {told}"
    return words if len(words) <= _TEXT else f"{words[:_TEXT]}…"


def page_of_source(
    cursor: Cursor,
    size: int,
    *,
    step: int | None,
    time: int | None,
    decode: object,
    workers: int,
    rank: int,
) -> Page:
    """Return the page of one minibatch, as `MinibatchSource.show` describes it.

    IndexError if the data end before the step.
    """
    cursor.plan.request(size, workers, rank)  # which checks them
    position = cursor.position
    if step is not None:
        check_int("step", step, 0)
        position = Steps(cursor, size, seconds=float("inf")).begin_of(step)
    elif time is not None:
        cursor.go_to_time(time)
        position = cursor.position
    title = "Minibatch" if step is None else f"Step {in_count(step)}"
    shown = place_view(cursor, position, size, decode=decode, workers=workers, rank=rank)
    return Page(title, joined([tag("h1", title), shown]))


def place_view(
    cursor: Cursor,
    position: Position,
    size: int,
    *,
    decode: object = None,
    workers: int = 1,
    rank: int = 0,
    link: Callable[[int], str] | None = None,
) -> Markup:
    """Return the view of a source at a place, to which it is moved.

    `link` returns the address of the page of a worker.
    """
    cursor.go_to(position)
    minibatch = cursor.next(cursor.request(size, workers, rank))
    end = minibatch.next_position.time if minibatch else position.time
    parts = [timeline_figure(cursor, position.time, end)]
    if minibatch and workers > 1:
        parts.append(shares_table(cursor, position, size, workers, rank, link))
    parts.append(minibatch_view(minibatch, decode))
    if errors := cursor.plan.opened.ledger.errors:
        parts.append(note(f"Skipped as damaged: {errors[-1]}"))
    return joined(parts)


_SHARES = 64
_IDS = 3


def shares_table(
    cursor: Cursor,
    position: Position,
    size: int,
    workers: int,
    rank: int,
    link: Callable[[int], str] | None = None,
) -> Markup:
    """Return the shares of the first workers, as planned: nothing is read.

    `link` returns the address of the page of a worker.
    """
    shares = [
        next(cursor.plan.minibatches(position, size, workers, worker))
        for worker in range(min(workers, _SHARES))
    ]
    of_corpus = cursor.plan.corpus.ids
    most = max(share.num_samples for share in shares)
    rows = []
    for worker, share in enumerate(shares):
        ids = ", ".join(map(short, of_corpus.names(share.sequences[:_IDS])))
        ids += "…" if share.num_sequences > _IDS else ""
        is_here = worker == rank
        name = tag("a", worker, href=link(worker)) if link and not is_here else tag("b", worker)
        rows.append(
            tag(
                "tr",
                tag("th", name, scope="row"),
                tag("td", in_count(share.num_sequences)),
                tag("td", in_count(share.num_samples)),
                tag("td", tag("code", ids)),
                class_="here" if is_here else None,
                aria_current="true" if is_here else None,
            )
        )
    samples = sum(share.num_samples for share in shares)
    mean = samples / len(shares)
    even = f"The fullest has {most / mean:.2f} times the mean. " if mean else ""
    left_out = shares[0].global_num_samples - samples
    rest = and_more(len(rows), workers, "workers")
    if rest is None and left_out:
        rest = f"{in_count(left_out)} samples are left out by events."
    return tag(
        "section",
        tag("header", tag("h2", "Who gets what")),
        wide_table(("worker", "sequences", "samples", "ids"), rows),
        note(even, rest),
    )
