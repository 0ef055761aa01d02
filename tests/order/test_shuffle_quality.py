"""Every permutation passes the battery, and the battery sees what is wrong with bad ones."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import model
from tests.model import ModelCorpus, ModelSettings
from tests.order.battery import (
    ChiSquare,
    ShuffleReport,
    pair_chi_square,
    position_chi_square,
    relative_order,
    shuffle_report,
    uniform_chi_square,
)

from sweephand._core.order import Permutation

Order = NDArray[np.int64]

# Keys are fixed, so a test either passes always or never; some 600 p-values are looked at.
UNLIKELY = 1e-5
NUM_PLACES = 51_200  # of an order that is too long to be looked at as a whole
NUM_SEEDS = 2000


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


@pytest.mark.parametrize("size", [2**20 + 1, 10**7, 10**12])
def test_the_end_of_a_large_order_is_as_uniform_as_its_beginning(size: int) -> None:
    order = Permutation(size, block_key(0)).take(size - NUM_PLACES, NUM_PLACES)
    assert worst_p_value(report(order, size)) > UNLIKELY


@pytest.mark.parametrize("size", [10**9, 10**12])
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_places_a_row_of_the_network_apart_are_independent(size: int, distance: int) -> None:
    stride = model.Feistel(size, 0).side + distance
    permutation = Permutation(size, block_key(0))
    items = range(0, size, stride)[:NUM_PLACES]
    places = np.array([permutation.place(item) for item in items])
    assert worst_p_value(report(places, size)) > UNLIKELY


@pytest.mark.parametrize("size", edges(1, 2, 3, 4, 5, 6))
@pytest.mark.parametrize("word", ["seed", "sweep", "block"])
def test_small_permutations_reach_every_arrangement_alike(size: int, word: str) -> None:
    keys = [block_key(**{"seed": 0, word: value}) for value in range(NUM_SEEDS)]
    orders = np.array([Permutation(size, key).take(0, size) for key in keys])
    if size > 1:
        assert position_chi_square(orders).p_value > UNLIKELY
    if size > 2:
        assert pair_chi_square(orders, size).p_value > UNLIKELY


@pytest.mark.parametrize("size", [2**10, 2**20 + 1, 10**9, 10**12])
def test_the_first_places_of_many_seeds_are_uniform(size: int) -> None:
    orders = np.array([Permutation(size, block_key(s)).take(0, 3) for s in range(NUM_SEEDS)])
    for place in range(3):
        assert uniform_chi_square(orders[:, place], size, bins=500).p_value > UNLIKELY
    assert pair_chi_square(orders, size, bins=500).p_value > UNLIKELY


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


def buffer_shuffle(order: Order, buffer_size: int) -> Order:
    """A list of so many; a random one leaves, the next one takes its slot."""
    rng = np.random.default_rng(0)
    buffer = order[:buffer_size].copy()
    out = []
    for item, slot in zip(
        order[buffer_size:], rng.integers(0, buffer_size, len(order)), strict=False
    ):
        out.append(buffer[slot])
        buffer[slot] = item
    return np.concatenate([out, rng.permutation(buffer)])


def feistel(size: int, rounds: int, stride: int = 1) -> Order:
    """Every so manieth place of the network of the order with other rounds."""
    network = model.Feistel(size, block_key(0), rounds)
    return network.walk(np.arange(0, size, stride)[:NUM_PLACES], network.network)


def multiplied(size: int) -> Order:
    """A linear order: evenly spread, and not random at all."""
    return np.arange(size) * 7_368_787 % size


@pytest.mark.parametrize(
    ("order", "size"),
    [
        pytest.param(np.arange(2**16), 2**16, id="sorted"),
        pytest.param(np.arange(2**16)[::-1], 2**16, id="reversed"),
        pytest.param(buffer_shuffle(np.arange(2**16), 1000), 2**16, id="buffer of 1000"),
        pytest.param(feistel(2**20 + 1, rounds=2), 2**20 + 1, id="two rounds"),
        pytest.param(feistel(10**9, rounds=2, stride=31623), 10**9, id="two rounds, a column"),
        pytest.param(multiplied(10**6), 10**6, id="linear"),
    ],
)
def test_the_battery_sees_a_bad_order(order: Order, size: int) -> None:
    assert worst_p_value(report(order, size)) < 1e-12


def test_the_battery_sees_a_rotation() -> None:
    rotations = (np.arange(NUM_SEEDS)[:, None] + np.arange(50)) % 50
    assert position_chi_square(rotations).ratio < 0.01  # every place is far too even
    assert pair_chi_square(rotations, 50).p_value < 1e-12


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


def test_uneven_chunks_shuffle_as_fewer_equal_ones() -> None:
    counts = np.random.default_rng(0).integers(0, 121, 400)
    corpus = ModelCorpus(tuple((1,) * int(count) for count in counts))
    settings = [ModelSettings(seed, num_lanes=1, window_chunks=16) for seed in range(8)]
    reports = [
        shuffle_report(
            model.sweep_order(corpus, one, 0), counts, minibatch=64, window_chunks=16
        )
        for one in settings
    ]
    mean = np.mean([one.variance_ratio for one in reports])
    assert mean == pytest.approx(reports[0].predicted_variance_ratio, rel=0.25)


# Figures and p-values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees_of_freedom", "statistic", "tail"),
    # From the printed tables of the chi-square distribution.
    [
        (3, 7.815, 0.05),
        (3, 16.266, 0.001),
        (10, 3.940, 0.95),
        (10, 18.307, 0.05),
        (10, 29.588, 0.001),
        (100, 77.929, 0.95),
        (100, 124.342, 0.05),
        (100, 149.449, 0.001),
    ],
)
def test_a_p_value_is_that_of_the_tables(
    degrees_of_freedom: int, statistic: float, tail: float
) -> None:
    found = ChiSquare(statistic, degrees_of_freedom)
    assert found.upper_p_value == pytest.approx(tail, rel=0.15)
    assert found.lower_p_value == pytest.approx(1 - tail, rel=0.15)
    assert found.p_value == pytest.approx(2 * min(tail, 1 - tail), rel=0.15)
