"""Every permutation passes the battery, and the battery sees what is wrong with bad ones."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import model
from tests.model import ModelCorpus, ModelSettings
from tests.order.battery import (
    ShuffleReport,
    relative_order,
    shuffle_report,
)

from sweephand._core.order import Permutation

Order = NDArray[np.int64]

# Keys are fixed, so a test either passes always or never; some 600 p-values are looked at.
UNLIKELY = 1e-5
NUM_PLACES = 51_200  # of an order that is too long to be looked at as a whole


def edges(*exponents: int) -> list[int]:
    return [2**k + d for k in exponents for d in (-1, 0, 1)]


def block_key(seed: int, sweep: int = 0, block: int = 0) -> int:
    return model.derive_key(model.ORDER_VERSION, seed, 2, sweep, block)


def equal_chunks(size: int, num_chunks: int) -> Order:
    return np.diff(np.arange(num_chunks + 1) * size // num_chunks)


def report(order: Order, size: int) -> ShuffleReport:
    """The battery with a thousand chunks, or fewer in a small corpus."""
    small = size < 50_000
    chunks = equal_chunks(size, size // 50 if small else 1000)
    return shuffle_report(order, chunks, minibatch=16 if small else 256)


def worst_p_value(found: ShuffleReport) -> float:
    return min(
        found.variance_p_value,
        found.lag_p_value,
        found.decile_p_value,
        found.neighbours_p_value,
    )


# The permutations of the order ----------------------------------------------------------------


@pytest.mark.parametrize("seed_and_sweep", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("size", [*edges(10, 13, 16, 20, 24, 32), 10**6, 10**7, 10**9, 10**12])
def test_a_permutation_is_a_uniform_order(size: int, seed_and_sweep: tuple[int, int]) -> None:
    permutation = Permutation(size, block_key(*seed_and_sweep))
    order = permutation.take(0, size if size <= 2**20 + 1 else NUM_PLACES)
    found = report(order, size)
    assert worst_p_value(found) > UNLIKELY, found
    assert found.distinct_chunks == pytest.approx(found.predicted_distinct_chunks, rel=0.03)


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
        places = relative_order(one.take(0, size), items)
    else:
        places = np.array([one.place(item) for item in items.tolist()])
    assert worst_p_value(report(places, size)) > UNLIKELY


# What the battery must see --------------------------------------------------------------------


# Windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window_chunks", "num_lanes"), [(16, 1), (48, 1), (16, 4), (48, 12), (60, 30), (8, 8)]
)
def test_a_window_shuffles_as_well_as_predicted(window_chunks: int, num_lanes: int) -> None:
    counts = [20] * 400
    corpus = ModelCorpus(tuple((1,) * count for count in counts))
    reports = []
    for seed in range(8):
        settings = ModelSettings(seed, num_lanes=num_lanes, window_chunks=window_chunks)
        reports.append(
            shuffle_report(
                model.sweep_order(corpus, settings, 0),
                counts,
                minibatch=32,
                window_chunks=window_chunks,
                num_lanes=num_lanes,
            )
        )
    ratios = [one.variance_ratio for one in reports]
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - reports[0].predicted_variance_ratio) < 4 * error
    distinct = np.mean([one.distinct_chunks for one in reports])
    assert distinct == pytest.approx(reports[0].predicted_distinct_chunks, rel=0.15)


# Figures and p-values -------------------------------------------------------------------------
