"""Sparse samples: columns and values."""

from __future__ import annotations

from typing import Any

from sweephand import Minibatch
from sweephand.ext.view.figures import and_more, first_rows, in_count, in_number
from sweephand.ext.view.markup import Markup, joined, tag, wide_table
from sweephand.ext.view.names import ids_of_samples

_SAMPLES = 12
_PAIRS = 16


def sparse_figure(minibatch: Minibatch, key: Any) -> Markup:
    """Return the columns and values of the first samples, and a mark for each on a line."""
    head = first_rows(minibatch, _SAMPLES)
    data = head[key]
    matrix = data.values
    dimension = matrix.shape[1]
    rows = []
    for number, name in enumerate(ids_of_samples(head, key, _SAMPLES)):
        begin, end = matrix.indptr[number : number + 2].tolist()
        columns, values = matrix.indices[begin:end], matrix.data[begin:end]
        pairs = [
            joined([tag("code", column), f" {in_number(value)}"])
            for column, value in zip(columns[:_PAIRS].tolist(), values[:_PAIRS], strict=True)
        ]
        more = f" … {in_count(end - begin)} in all" if end - begin > _PAIRS else ""
        rows.append(
            tag(
                "tr",
                tag("th", tag("code", name), scope="row"),
                tag("td", _spikes(columns.tolist(), dimension)),
                tag("td", joined(pairs, ", "), more, class_="words"),
            )
        )
    stored = matrix.nnz / max(matrix.shape[0], 1)
    rest = and_more(len(rows), minibatch[key].num_samples, "samples")
    caption = f"{stored:.3g} of {in_count(dimension)} columns are stored on average. "
    table = wide_table(("sequence", "where", "column and value"), rows)
    return tag("figure", table, tag("figcaption", caption, rest))


def _spikes(columns: list[int], dimension: int) -> Markup:
    places = sorted({round(200 * column / max(dimension, 1)) for column in columns})
    path = "".join(f"M{place + 0.5} 0V14" for place in places)
    return tag(
        "svg", tag("path", d=path), viewBox="0 0 202 14", class_="spikes", aria_hidden="true"
    )
