"""A battery of figures of how well an order shuffles, with p-values, and comparisons of orders.

The corpus is taken to be sorted, the worst realistic case: sequence ``s`` of ``N`` has the
value ``x = (s + 1/2) / N``, and a good order makes the means of ``x`` over minibatches as alike
as chance allows. Minibatches count sequences; an incomplete last one is cut off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.cli.plan import predicted_variance_ratio

# Chi-squares ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChiSquare:
    """A sum of squared deviations, each over its expected variance."""

    statistic: float
    degrees_of_freedom: float

    @property
    def ratio(self) -> float:
        """1 by chance, more if uneven, less if too even."""
        return self.statistic / self.degrees_of_freedom

    @property
    def score(self) -> float:
        """The statistic as a standard normal score.

        The cube root of a chi-square is nearly normal (Wilson and Hilferty 1931). From a
        hundred degrees of freedom on a p-value of 0.001 is right to 2 per cent; with fewer, far
        tails come out too large: an upper 0.001 by 15 per cent at three, a lower one fourfold.
        """
        spread = 2 / (9 * self.degrees_of_freedom)
        return (math.cbrt(self.ratio) - (1 - spread)) / math.sqrt(spread)

    @property
    def upper_p_value(self) -> float:
        return math.erfc(self.score / math.sqrt(2)) / 2

    @property
    def lower_p_value(self) -> float:
        return math.erfc(-self.score / math.sqrt(2)) / 2

    @property
    def p_value(self) -> float:
        """The chance of a statistic at least as far out, on either side."""
        return normal_p_value(self.score)


def normal_p_value(score: float) -> float:
    return math.erfc(abs(score) / math.sqrt(2))


def binned(
    numbers: NDArray[np.int64], size: int, bins: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The bin of every number of ``[0, size)``, and the share of the numbers in a bin.

    Bins have one width, rounded up, so that the last may be narrower and some may be missing.
    """
    width = -(-size // bins)
    starts = np.arange(0, size, width)
    return numbers // width, np.diff(starts, append=size) / size


# One order ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShuffleReport:
    """The battery on one order; a p-value is the chance that a uniform order is as far out."""

    variance_ratio: float  # of minibatch means, over that of a uniform order
    predicted_variance_ratio: float
    variance_p_value: float
    distinct_chunks: float  # in a minibatch, on average
    predicted_distinct_chunks: float
    neighbours_p_value: float  # of the tenth with most neighbours from one chunk
    lag_p_value: float  # of the correlation of sequences one place apart
    decile_p_value: float  # of how minibatches draw from the tenths of the corpus


def shuffle_report(
    order: ArrayLike,
    chunk_sequences: ArrayLike,
    *,
    minibatch: int = 256,
    window_chunks: int | None = None,
    num_lanes: int = 1,
) -> ShuffleReport:
    """Run the battery on an order, or its first part; without a window a uniform one is due."""
    counts = np.asarray(chunk_sequences, dtype=np.int64)
    size = int(counts.sum())
    numbers = np.asarray(order, dtype=np.int64)
    assert numbers.min() >= 0
    assert numbers.max() < size
    values = (numbers + 0.5) / size
    means = minibatches_of(values, minibatch).mean(axis=1)
    variance_ratio = float(means.var(ddof=1)) * 12 * minibatch
    centred = values - 0.5
    correlation = float(centred[1:] @ centred[:-1] / (centred @ centred))
    chunks = chunks_of(numbers, counts)
    by_chance = float((counts / size * (counts - 1) / (size - 1)).sum())
    rows = np.sort(minibatches_of(chunks, minibatch), axis=1)

    # Uneven chunks spread as fewer equal ones would. A lane opens whole chunks.
    equal_chunks = size**2 / float((counts.astype(np.float64) ** 2).sum())
    lanes = 1 if window_chunks is None else num_lanes
    window = len(counts) if window_chunks is None else max(1, window_chunks // lanes) * lanes
    expect = (minibatch, window / len(counts) * equal_chunks, equal_chunks)
    return ShuffleReport(
        variance_ratio=variance_ratio,
        predicted_variance_ratio=predicted_variance_ratio(*expect, num_lanes=lanes),
        variance_p_value=ChiSquare(variance_ratio * (len(means) - 1), len(means) - 1).p_value,
        distinct_chunks=float((np.diff(rows, axis=1) != 0).sum(axis=1).mean()) + 1,
        predicted_distinct_chunks=predicted_distinct_chunks(*expect, lanes),
        neighbours_p_value=worst_tenth_p_value(
            same_chunk_neighbours(chunks), by_chance, len(chunks) - 1
        ),
        lag_p_value=normal_p_value(correlation * math.sqrt(len(chunks))),
        decile_p_value=decile_chi_square(numbers, size, minibatch).p_value,
    )


def minibatches_of(places: NDArray[Any], minibatch: int) -> NDArray[Any]:
    count = len(places) // minibatch
    return places[: count * minibatch].reshape(count, minibatch)


def chunks_of(order: ArrayLike, chunk_sequences: ArrayLike) -> NDArray[np.int64]:
    """The chunk of every sequence of an order; chunks may be empty."""
    ends = np.cumsum(np.asarray(chunk_sequences))
    return np.searchsorted(ends, np.asarray(order), side="right").astype(np.int64)


def predicted_distinct_chunks(
    minibatch: float, window_chunks: float, num_chunks: float, num_lanes: int
) -> float:
    """The distinct chunks to expect; minibatches across two blocks see a few more."""
    block = min(num_chunks, max(1.0, window_chunks / num_lanes))
    num_blocks = min(minibatch, num_lanes, num_chunks / block)
    return num_blocks * block * (1 - math.pow(1 - 1 / block, minibatch / num_blocks))


def same_chunk_neighbours(chunks: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often two sequences in a row come from one chunk, per tenth of the order."""
    tenths = np.array_split(chunks[1:] == chunks[:-1], 10)
    return np.array([equal.mean() for equal in tenths])


def worst_tenth_p_value(
    neighbours: NDArray[np.float64], by_chance: float, num_pairs: int
) -> float:
    """The chance that the worst of ten tenths of a uniform order is as bad."""
    found = float(neighbours.max()) * num_pairs / 10
    if found == 0:
        return 1.0
    # Pairs are rare and nearly independent: a Poisson number, whose tail is a chi-square's.
    tail = ChiSquare(2 * by_chance * num_pairs / 10, 2 * found)
    return min(1.0, 10 * tail.lower_p_value)


def decile_chi_square(order: NDArray[np.int64], size: int, minibatch: int) -> ChiSquare:
    """How each minibatch draws from the tenths of the corpus, without replacement."""
    tenths, shares = binned(order, size, 10)
    rows = minibatches_of(tenths, minibatch)
    counts = np.stack([(rows == tenth).sum(axis=1) for tenth in range(len(shares))], axis=1)
    expected = minibatch * shares
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return ChiSquare(statistic * (size - 1) / (size - minibatch), len(rows) * (len(shares) - 1))


# Orders of many seeds, and one beside another -------------------------------------------------


def relative_order(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of one order's sequences in another: uniform if the two share nothing."""
    return np.take(np.argsort(first), second)
