"""What a corpus holds, sequence by sequence."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import sweephand as sh


def rows_of(corpus: sh.Deserializer, **options: Any) -> list[dict[str, NDArray[Any]]]:
    """Return the samples of every sequence by stream, in the order of the data."""
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return [
            dict(zip(minibatch, values, strict=True))
            for minibatch in source.minibatches(5)
            for values in zip(
                *(minibatch[name].as_sequences() for name in minibatch), strict=True
            )
        ]


def rows(corpus: sh.Deserializer, **options: Any) -> list[dict[str, Any]]:
    """Return them as lists."""
    return [
        {name: values.tolist() for name, values in row.items()}
        for row in rows_of(corpus, **options)
    ]
