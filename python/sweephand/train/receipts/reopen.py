"""A source with the options in a header of receipts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweephand.layouts.attention import Attention
from sweephand.layouts.by_name import layout_by_name
from sweephand.source.by_score import ByScore
from sweephand.source.source import MinibatchSource
from sweephand.train.receipts.header import Header


def source_of(
    header: Header,
    corpus: Any,
    *,
    seed: int | None = None,
    order: ByScore | None = None,
    events: Path | None = None,
) -> MinibatchSource:
    """Return a source over a corpus, with the options of a header.

    Parameters
    ----------
    header : Header
    corpus : Deserializer
    seed : int, optional
        In place of that of the header.
    order : ByScore, optional
        Scores are in no header.
    events : Path, optional
        Nor are events.

    Raises
    ------
    ValueError
        If the header has options that no source has.
    """
    options = dict(header.options)
    try:
        options["layout"] = _made(options["layout"])
        options["balance"] = _made(options["balance"])
        if seed is not None:
            options["randomization_seed"] = seed
        return MinibatchSource(corpus, order=order, events=events, **options)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the header of the receipts has no options: {error}") from error


def _made(fields: Any) -> Any:
    """Return the layout or cost that the fields of a header describe."""
    if not isinstance(fields, dict):
        return fields
    values = dict(fields)
    kind = values.pop("kind")
    if kind == "Attention":
        return Attention(**values)
    return layout_by_name(kind, values)
