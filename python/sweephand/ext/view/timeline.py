"""The timeline as a picture: sweeps, events, a ledger's losses, and where a minibatch is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.view.figures import and_more, in_count
from sweephand.ext.view.markup import Markup, joined, note, tag
from sweephand.extend import Cursor, Event

_EVENTS = 40
_SWEEPS = 60  # whose borders are drawn
_POINTS = 400
_TEXT = 160


@dataclass(frozen=True)
class LossCurve:
    """The mean loss of steps, and the last loss of every sequence, as a ledger has them."""

    times: NDArray[np.int64]  # ascending
    losses: NDArray[np.float64]
    last: dict[str, float] = field(default_factory=dict)  # by id


def timeline_figure(
    cursor: Cursor, begin: int, end: int, curve: LossCurve | None = None
) -> Markup:
    """Return the timeline around a minibatch that goes from a nominal time to another."""
    events = cursor.plan.events.in_time
    until = _until(cursor, end, events, curve)
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
        _losses(curve, until, begin * scale) if curve else None,
        tag("svg", *drawn, class_="timeline", role="img", aria_label=label),
        axis,
        _listed(events),
        class_="time",
    )


def _until(cursor: Cursor, end: int, events: Sequence[Event], curve: LossCurve | None) -> int:
    """Return the last time that is drawn: whole sweeps that hold all there is to see."""
    plan = cursor.plan
    times = [
        end,
        *(event.at for event in events),
        *(curve.times[-1:].tolist() if curve else []),
    ]
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


def _listed(events: Sequence[Event]) -> Markup | None:
    if not events:
        return None
    items = [tag("li", _words(event)) for event in events[:_EVENTS]]
    rest = and_more(len(items), len(events), "events")
    summary = tag("summary", f"{in_count(len(events))} events")
    return tag("details", summary, tag("ul", *items, tag("li", rest) if rest else None))


def _losses(curve: LossCurve, until: int, here: float) -> Markup:
    """Return the curve of losses, over the same axis as the timeline."""
    finite = np.isfinite(curve.losses)
    times, losses = curve.times[finite], curve.losses[finite]
    if not times.size:
        return note("The ledger has no finite loss.")
    if times.size > _POINTS:
        starts = np.arange(_POINTS) * times.size // _POINTS
        counts = np.diff(np.append(starts, times.size))
        times = times[starts]
        losses = np.add.reduceat(losses, starts) / counts
    low, high = float(losses.min()), float(losses.max())
    span = high - low or 1.0
    points = " ".join(
        f"{1000 * time / max(until, 1):.1f},{94 - 88 * (loss - low) / span:.1f}"
        for time, loss in zip(times.tolist(), losses.tolist(), strict=True)
    )
    label = f"mean loss of steps, from {low:.4g} to {high:.4g}"
    svg = tag(
        "svg",
        tag("title", label),
        tag("line", x1=10 * here, x2=10 * here, y1=0, y2=100),
        tag("polyline", points=points),
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        role="img",
        class_="losses",
    )
    sides = tag("div", tag("span", f"{high:.4g}"), tag("span", f"{low:.4g}"), class_="side")
    title = tag("div", "mean loss of steps, as in the ledger", class_="axis")
    return joined([title, tag("div", svg, sides, class_="plot")])
