"""A source at a place: its timeline, the shares of all workers, and the minibatch."""

from __future__ import annotations

from collections.abc import Callable

from sweephand.ext.view.figures import and_more, in_count, short
from sweephand.ext.view.markup import Markup, joined, note, tag, wide_table
from sweephand.ext.view.minibatch_view import minibatch_view
from sweephand.ext.view.page import Page
from sweephand.ext.view.steps import Steps
from sweephand.ext.view.timeline import LossCurve, timeline_figure
from sweephand.extend import Cursor, Position, check_int


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
        steps = Steps(cursor, size, seconds=float("inf"))
        found = steps.begin_of(step)
        if found is None:
            raise IndexError(f"there is no step {step}: the data end after {steps.count} steps")
        position = found
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
    curve: LossCurve | None = None,
    link: Callable[[int], str] | None = None,
) -> Markup:
    """Return the view of a source at a place, to which it is moved.

    A curve is drawn over the timeline; `link` returns the address of the page of a worker.
    """
    cursor.go_to(position)
    minibatch = cursor.next(cursor.request(size, workers, rank))
    end = minibatch.next_position.time if minibatch else position.time
    parts = [timeline_figure(cursor, position.time, end, curve)]
    if minibatch and workers > 1:
        parts.append(shares_table(cursor, position, size, workers, rank, link))
    parts.append(minibatch_view(minibatch, decode, curve.last if curve else None))
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
        bar = tag(
            "svg",
            tag("rect", width=f"{100 * share.num_samples / max(most, 1):.2f}%", height="100%"),
            class_="share",
            aria_hidden="true",
        )
        rows.append(
            tag(
                "tr",
                tag("th", name, scope="row"),
                tag("td", in_count(share.num_sequences)),
                tag("td", in_count(share.num_samples)),
                tag("td", bar),
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
        wide_table(("worker", "sequences", "samples", "share", "ids"), rows),
        note(even, rest),
    )
