"""Names of sequences and of their corpora, short enough for a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweephand import Minibatch, StreamInfo
from sweephand.ext.view.figures import first_rows, in_number

_LONGEST = 80
_LOOKED_AT = 20_000  # rows whose corpora are counted


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name, without its middle if it is long.

    Examples
    --------
    >>> short("abc"), short("a" * 50 + "b" * 50, 12)
    ('abc', 'aaaaaa…bbbbb')
    """
    if len(name) <= longest:
        return name
    half = longest // 2
    return f"{name[:half]}…{name[half - longest + 1 :]}"


def short_ids(minibatch: Minibatch) -> list[str]:
    """Return the ids of a minibatch."""
    return [short(name) for name in minibatch.ids]


def corpora_of(minibatch: Minibatch) -> dict[str, int]:
    """Return the samples of each corpus, or file, in the first rows of a minibatch, by name."""
    return dict(sorted(first_rows(minibatch, _LOOKED_AT).num_samples_by().items()))


def ids_of_samples(minibatch: Minibatch, key: Any, most: int) -> list[str]:
    """Return the ids of the first samples of a stream."""
    ids = np.array(short_ids(minibatch), object)
    found: list[str] = np.repeat(ids, minibatch[key].lengths)[:most].tolist()
    return found


def class_name(info: StreamInfo, value: Any) -> str:
    """Return the name of a class with its number; of other values the number."""
    number = in_number(value)
    if info.classes and 0 <= value < len(info.classes):
        return f"{short(info.classes[int(value)])} ({number})"
    return number
