"""The share of every worker of a minibatch."""

from __future__ import annotations

from collections.abc import Callable

from sweephand.ext.view.figures import and_more, in_count
from sweephand.ext.view.markup import Markup, note, tag, wide_table
from sweephand.ext.view.names import short
from sweephand.extend import Cursor, Position

_WORKERS = 64
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

    Parameters
    ----------
    cursor : Cursor
    position : Position
        Where the minibatch begins.
    size, workers, rank : int
        As in `next_minibatch`.
    link : callable, optional
        Returns the address of the page of a worker.
    """
    shares = [
        next(cursor.plan.minibatches(position, size, workers, worker))
        for worker in range(min(workers, _WORKERS))
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
