"""Sizes and orders of Python code that say too much, too little, or what cannot be."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh
from sweephand import _core

LIES: dict[str, Callable[[int], NDArray[np.uint32]]] = {
    "too many": lambda count: np.full(count + 1000, 2, np.uint32),
    "too few": lambda count: np.full(count - 1, 2, np.uint32),
    "none": lambda count: np.zeros(0, np.uint32),
    "zeros": lambda count: np.zeros(count, np.uint32),
    "more samples": lambda count: np.full(count, 3, np.uint32),
    "the most samples": lambda count: np.full(count, 2**32 - 1, np.uint32),
}


def timeline_of(
    sizes: _core.index.Sizes,
    samples: list[int],
    order: _core.index.GivenOrder | None = None,
    *,
    randomize: bool,
) -> _core.order.Timeline:
    corpus = _core.index.Corpus(np.full(len(samples), 3, np.uint64), np.uint64(samples), sizes)
    if order is not None:
        corpus = corpus.ordered_by(order)
    settings = _core.order.OrderSettings(
        seed=1, num_lanes=2, window_chunks=0, window_samples=0, randomize=randomize
    )
    return _core.order.SweepTimeline(corpus=corpus, settings=settings)


@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize("lie", LIES)
def test_sizes_that_lie_are_an_error(lie: str, randomize: bool) -> None:
    sizes = _core.index.CallbackSizes(lambda firsts, counts: LIES[lie](int(counts.sum())))
    timeline = timeline_of(sizes, [6, 6], randomize=randomize)
    with pytest.raises(sh.DataError):
        timeline.sequences(0, 12)


@pytest.mark.parametrize("count", [0, 1, 5, 7])
def test_stored_sizes_of_another_number_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"there are {count} sizes for 6 sequences"):
        timeline_of(_core.index.StoredSizes(np.ones(count, np.uint32)), [3, 3], randomize=True)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(lambda count: np.arange(count + 9, dtype=np.uint64), id="too many"),
        pytest.param(lambda count: np.zeros(0, np.uint64), id="too few"),
        pytest.param(lambda count: np.arange(count, dtype=np.uint64) + 5, id="not there"),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_an_order_that_lies_is_an_error(
    size: int, numbers: Callable[[int], NDArray[np.uint64]]
) -> None:
    order = _core.index.CallbackOrder(
        fill=lambda sweep, first, count: numbers(count), place=lambda sweep, number: 2**60
    )
    timeline = timeline_of(
        _core.index.CommonSize(size), [3 * size, 3 * size], order, randomize=False
    )
    with pytest.raises(sh.DataError):
        timeline.sequences(0, 6 * size)
    with pytest.raises(sh.DataError):
        timeline.find(2, 0)
