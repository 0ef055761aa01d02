"""Minibatches cut into sub-minibatches, whose gradients add up to those of the whole."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sweephand.minibatch.minibatch import Minibatch


def split(
    minibatch: Mapping[Any, Any], num_parts: int, *, is_padded: bool = False
) -> Sequence[Mapping[Any, Any]]:
    """Cut a minibatch of a source into parts whose numbers of rows differ by at most one.

    Packed rows stay whole; in other layouts each sequence is a row. Where there are fewer rows
    than parts, there is a part for each of them, and if padded, empty parts after them. Each
    has the figures of its own sequences; those of the global minibatch stay. Their arrays share
    the memory of the whole. TypeError is raised if it is no minibatch of a source, or its rows
    go on in the next minibatch, in which they must keep their places.
    """
    if num_parts == 1:
        return [minibatch]
    if not isinstance(minibatch, Minibatch):
        raise TypeError(
            f"only minibatches of a source can be cut, this is a {type(minibatch).__name__}"
        )
    if minibatch.layout.rows_go_on:
        raise TypeError(f"minibatches of the layout {minibatch.layout} cannot be cut")
    count = minibatch.num_rows
    filled = max(1, min(count, num_parts))
    borders = [i * count // filled for i in range(filled + 1)]
    if is_padded:
        borders += [count] * (num_parts - filled)
    return [minibatch.rows(begin, end) for begin, end in pairwise(borders)]
