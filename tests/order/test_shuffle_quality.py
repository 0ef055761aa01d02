"""How well orders shuffle: golden orders hold permutations to the bit, these say they are good.

The corpus is taken to be sorted, the worst realistic case: sequence ``s`` of ``N`` has the
value ``x = (s + 1/2) / N``, and a good order makes the means of ``x`` over minibatches as alike
as chance allows. Minibatches count sequences; an incomplete last one is cut off.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import model
from tests.model import ModelCorpus, ModelSettings

from sweephand._core.order import Permutation

Order = NDArray[np.int64]

UNLIKELY = 1e-5  # keys are fixed, so a test either passes always or never
NUM_PLACES = 51_200  # of an order that is too long to be looked at as a whole


def p_value(statistic: float, degrees_of_freedom: float) -> float:
    """The chance of a chi-square at least as far out (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * degrees_of_freedom)
    score = (math.cbrt(statistic / degrees_of_freedom) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(abs(score) / math.sqrt(2))


def minibatches_of(places: NDArray[Any], minibatch: int) -> NDArray[Any]:
    count = len(places) // minibatch
    return places[: count * minibatch].reshape(count, minibatch)


def variance_ratio(order: Order, size: int, minibatch: int) -> float:
    """The variance of minibatch means over that of a uniform order."""
    means = minibatches_of((order + 0.5) / size, minibatch).mean(axis=1)
    return float(means.var(ddof=1)) * 12 * minibatch


def worst_p_value(order: Order, size: int) -> float:
    """Of the variance of minibatches, of neighbours, and of draws from tenths of the corpus."""
    minibatch = 16 if size < 50_000 else 256
    tenths = order * 10 // size
    rows = minibatches_of(tenths, minibatch)
    counts = np.stack([(rows == tenth).sum(axis=1) for tenth in range(10)], axis=1)
    expected = minibatch / 10
    drawn = float(((counts - expected) ** 2 / expected).sum()) * (size - 1) / (size - minibatch)
    free = len(rows) - 1
    centred = (order + 0.5) / size - 0.5
    lag = float(centred[1:] @ centred[:-1] / (centred @ centred)) * math.sqrt(len(order))
    return min(
        p_value(variance_ratio(order, size, minibatch) * free, free),
        p_value(drawn, len(rows) * 9),
        math.erfc(abs(lag) / math.sqrt(2)),
    )


def block_key(seed: int, sweep: int = 0, block: int = 0) -> int:
    return model.derive_key(model.ORDER_VERSION, seed, 2, sweep, block)


SIZES = [2**k + d for k in (10, 13, 16, 20, 24, 32) for d in (-1, 0, 1)]


@pytest.mark.parametrize("seed_and_sweep", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("size", [*SIZES, 10**6, 10**7, 10**9, 10**12])
def test_a_permutation_is_a_uniform_order(size: int, seed_and_sweep: tuple[int, int]) -> None:
    permutation = Permutation(size, block_key(*seed_and_sweep))
    order = permutation.take(0, size if size <= 2**20 + 1 else NUM_PLACES)
    assert worst_p_value(order.astype(np.int64), size) > UNLIKELY


@pytest.mark.parametrize("size", [2**13, 2**16, 2**20 + 1, 10**9])
@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 1), (1, 0)), ((0, 0, 0), (0, 0, 1))],
    ids=["next sweep", "next seed", "next seed, last sweep", "next block"],
)
def test_neighbouring_keys_have_nothing_in_common(
    size: int, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    one, other = (Permutation(size, block_key(*words)) for words in (first, second))
    items = other.take(0, min(size, NUM_PLACES))
    if size <= model.FISHER_YATES_MAX:
        places = np.argsort(one.take(0, size))[items]
    else:
        places = np.array([one.place(item) for item in items.tolist()])
    assert worst_p_value(places, size) > UNLIKELY


@pytest.mark.parametrize("order", [np.arange(2**16), np.arange(2**16) * 7_368_787 % 2**16])
def test_a_bad_order_is_seen(order: Order) -> None:
    assert worst_p_value(order, 2**16) < 1e-12


def predicted_ratio(minibatch: int, window: int, num_chunks: int, num_lanes: int) -> float:
    """The variance of minibatch means over that of a uniform order, of a sorted corpus.

    Lanes are read in turn, so every minibatch draws evenly from them, and that takes the spread
    between lanes off.
    """

    def variance_of_mean(window: float) -> float:  # over that of one sequence
        return max(0.0, num_chunks - window) / (window * (num_chunks - 1))

    block = window / num_lanes
    num_blocks = min(minibatch, num_lanes, num_chunks / block)
    return 1 + minibatch * variance_of_mean(block * num_blocks) - variance_of_mean(block)


@pytest.mark.parametrize(
    ("window_chunks", "num_lanes"), [(16, 1), (48, 1), (16, 4), (48, 12), (60, 30), (8, 8)]
)
def test_a_window_shuffles_as_well_as_predicted(window_chunks: int, num_lanes: int) -> None:
    corpus = ModelCorpus(tuple((1,) * 20 for _ in range(400)))
    ratios = []
    for seed in range(8):
        settings = ModelSettings(seed, num_lanes=num_lanes, window_chunks=window_chunks)
        order = np.array(model.sweep_order(corpus, settings, 0))
        ratios.append(variance_ratio(order, corpus.num_sequences, 32))
    window = max(1, window_chunks // num_lanes) * num_lanes
    predicted = predicted_ratio(32, window, 400, num_lanes)
    assert abs(np.mean(ratios) - predicted) < 4 * np.std(ratios) / np.sqrt(len(ratios))
