"""A minibatch on a page: its facts, its shape, its sequences and its streams."""

from __future__ import annotations

from collections.abc import Mapping

from sweephand import Minibatch
from sweephand.ext.view.bars import shape_figure
from sweephand.ext.view.decoder import decoders_of
from sweephand.ext.view.figures import in_count
from sweephand.ext.view.markup import Markup, joined, note, tag
from sweephand.ext.view.page import Page
from sweephand.ext.view.sequences import sequences_table
from sweephand.ext.view.streams import stream_sections


def page_of_minibatch(minibatch: Minibatch, decode: object = None) -> Page:
    """Return a page of a minibatch alone.

    Parameters
    ----------
    minibatch : Minibatch
    decode : object, optional
        As `Minibatch.show` takes it.
    """
    title = "Minibatch" if minibatch else "Minibatch: end of data"
    return Page(title, joined([tag("h1", title), minibatch_view(minibatch, decode)]))


def minibatch_view(
    minibatch: Minibatch, decode: object = None, losses: Mapping[str, float] | None = None
) -> Markup:
    """Return the contents of a minibatch, of its first rows.

    Parameters
    ----------
    minibatch : Minibatch
    decode : object, optional
        As `Minibatch.show` takes it.
    losses : dict of float, optional
        The last loss of each sequence that a ledger knows, by id.
    """
    if not minibatch:
        return note("The end of the data: no sequence comes here.")
    decoders = decoders_of(decode, [data.info for data in minibatch.values()])
    parts: list[Markup | None] = [facts_of(minibatch)]
    if minibatch.num_sequences:
        parts += [
            shape_figure(minibatch),
            sequences_table(minibatch, decoders, losses),
            stream_sections(minibatch, decoders),
        ]
    else:
        parts.append(note("This share is empty: no sequence is in it."))
    return joined(parts)


def facts_of(minibatch: Minibatch) -> Markup:
    """Return the figures of a minibatch."""
    samples, of_all = minibatch.num_samples, minibatch.global_num_samples
    facts: dict[str, object] = {
        "layout": tag("code", minibatch.layout.summary()),
        "nominal time": in_count(minibatch.nominal_time),
        "sequences": in_count(minibatch.num_sequences),
        "samples": in_count(samples)
        + ("" if samples == of_all else f" of {in_count(of_all)} over all workers"),
    }
    if minibatch.layout.has_rows:
        rows, length = minibatch.num_rows, minibatch.planned.row_length
        facts["rows"] = f"{in_count(rows)} of {in_count(length)} cells"
    if minibatch.bucket_key is not None:
        facts["bucket"] = f"up to {in_count(minibatch.bucket_key)} samples"
    if minibatch.fill_ratio < 1:
        facts["cells filled"] = f"{100 * minibatch.fill_ratio:.1f} %"
    if minibatch.end_of_sweep:
        facts["sweep"] = "ends here"
    shown = [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts.items()]
    return tag("dl", *shown, class_="facts")
