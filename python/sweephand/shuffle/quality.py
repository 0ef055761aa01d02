"""Quality of a shuffle: a battery of figures, their expected values, and a report.

The corpus is taken to be sorted (by source, by date, by label), the worst realistic case:
sequence ``s`` of ``N`` has the value ``x = (s + 1/2) / N``, and a good order makes the means of
``x`` over minibatches as alike as chance allows. An order is an array of sequence numbers; it
may be the first part of a sweep. Minibatches count sequences here, and an incomplete last one
is cut off.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.shuffle.chi_square import ChiSquare, binned, checked_numbers, normal_p_value
from sweephand.shuffle.prediction import predicted_distinct_chunks, predicted_variance_ratio


def batch_mean_variance_ratio(order: ArrayLike, size: int, *, minibatch: int = 256) -> float:
    """Return the variance of minibatch means over that of a uniform order.

    The noise that the order adds to a gradient makes a minibatch worth one this many times
    smaller.

    Parameters
    ----------
    order : array_like of int, shape (places,)
        Sequence numbers in ``[0, size)``; at least two minibatches of them.
    size : int
        Sequences of the corpus.
    minibatch : int
        Sequences per minibatch.

    Returns
    -------
    float
        1 for a uniform order, up to ``minibatch`` for a sorted one, below 1 for an order that
        balances minibatches on purpose.

    Raises
    ------
    ValueError
        If a number lies outside ``[0, size)``, or there are fewer than two minibatches.

    Examples
    --------
    >>> uniform = np.random.default_rng(0).permutation(100_000)
    >>> 0.8 < batch_mean_variance_ratio(uniform, 100_000) < 1.2
    True
    >>> batch_mean_variance_ratio(np.arange(100_000), 100_000) > 250
    True
    """
    means = _minibatches(_values(order, size), minibatch).mean(axis=1)
    return float(means.var(ddof=1)) * 12 * minibatch


def distinct_chunks(chunks: ArrayLike, *, minibatch: int = 256) -> float:
    """Return the mean number of different chunks in a minibatch.

    Parameters
    ----------
    chunks : array_like of int, shape (places,)
        The chunk of the sequence at each place, as `chunks_of` gives it.
    minibatch : int
        Sequences per minibatch.

    Returns
    -------
    float
        Chunks per minibatch; see `shuffle_prediction`.

    Raises
    ------
    ValueError
        If there are fewer than two minibatches.

    Examples
    --------
    >>> distinct_chunks([0, 0, 1, 1, 0, 1, 2, 3], minibatch=4)
    3.0
    """
    rows = np.sort(_minibatches(np.asarray(chunks), minibatch), axis=1)
    return float((np.diff(rows, axis=1) != 0).sum(axis=1).mean()) + 1


def same_chunk_neighbours(chunks: ArrayLike) -> NDArray[np.float64]:
    """Return how often two sequences in a row come from one chunk, per tenth of the order.

    Parameters
    ----------
    chunks : array_like of int, shape (places,)
        The chunk of the sequence at each place, as `chunks_of` gives it.

    Returns
    -------
    ndarray of float64, shape (10,)
        Shares in ``[0, 1]``. A uniform order over C equal chunks gives 1 / C everywhere; the
        worst tenth is what to look at.

    Raises
    ------
    ValueError
        If there are fewer than eleven places.

    Examples
    --------
    >>> same_chunk_neighbours(np.repeat(np.arange(20), 2))[:5]
    array([0.5, 0.5, 0.5, 0.5, 0.5])
    """
    places = np.asarray(chunks)
    if len(places) < 11:
        raise ValueError(f"eleven places are needed, got {len(places)}")
    tenths = np.array_split(places[1:] == places[:-1], 10)
    return np.array([equal.mean() for equal in tenths])


def lag_correlation(order: ArrayLike, size: int, *, lag: int = 1) -> float:
    """Return the correlation of sequences `lag` places apart.

    Parameters
    ----------
    order : array_like of int, shape (places,)
        Sequence numbers in ``[0, size)``.
    size : int
        Sequences of the corpus.
    lag : int
        Distance in places, at least 1.

    Returns
    -------
    float
        In [-1, 1]; about 0 with a standard deviation of 1 / sqrt(places) for a uniform order.

    Raises
    ------
    ValueError
        If a number lies outside ``[0, size)``.

    Examples
    --------
    >>> round(lag_correlation(np.arange(1000), 1000), 2)
    1.0
    """
    centred = _values(order, size) - 0.5
    return float(centred[lag:] @ centred[:-lag] / (centred @ centred))


def decile_chi_square(order: ArrayLike, size: int, *, minibatch: int = 256) -> ChiSquare:
    """Compare how each minibatch draws from the tenths of the corpus with chance.

    Parameters
    ----------
    order : array_like of int, shape (places,)
        Sequence numbers in ``[0, size)``; at least two minibatches of them.
    size : int
        Sequences of the corpus, at least ten and more than a minibatch.
    minibatch : int
        Sequences per minibatch.

    Returns
    -------
    ChiSquare
        The sum over minibatches, corrected for drawing without replacement: its ``ratio`` is 1
        for a uniform order.

    Raises
    ------
    ValueError
        If a number lies outside ``[0, size)``, or there are fewer than two minibatches.

    Examples
    --------
    >>> uniform = np.random.default_rng(0).permutation(100_000)
    >>> 0.9 < decile_chi_square(uniform, 100_000).ratio < 1.1
    True
    """
    tenths, shares = binned(checked_numbers(order, size), size, 10)
    rows = _minibatches(tenths, minibatch)
    counts = np.stack([(rows == tenth).sum(axis=1) for tenth in range(len(shares))], axis=1)
    expected = minibatch * shares
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return ChiSquare(statistic * (size - 1) / (size - minibatch), len(rows) * (len(shares) - 1))


def chunks_of(order: ArrayLike, chunk_sequences: ArrayLike) -> NDArray[np.int64]:
    """Return the chunk of every sequence of an order.

    Parameters
    ----------
    order : array_like of int, shape (places,)
        Sequence numbers.
    chunk_sequences : array_like of int, shape (num_chunks,)
        Sequences in each chunk; a chunk may be empty.

    Returns
    -------
    ndarray of int64, shape (places,)
        Chunks in ``[0, num_chunks)``.

    Raises
    ------
    ValueError
        If a sequence lies outside the chunks.

    Examples
    --------
    >>> chunks_of([3, 0, 2], [2, 0, 2])
    array([2, 0, 2])
    """
    ends = np.cumsum(np.asarray(chunk_sequences))
    numbers = checked_numbers(order, int(ends[-1]))
    return np.searchsorted(ends, numbers, side="right").astype(np.int64)


@dataclass(frozen=True)
class ShuffleReport:
    """The battery on one order, beside the values that its window lets one expect.

    A p-value is the chance that a uniform order is as far out. Small ones are the rule for a
    windowed order, and a defect in one that should be uniform.
    """

    num_sequences: int
    """Sequences of the corpus."""
    num_chunks: int
    """Chunks that hold sequences."""
    num_places: int
    """Sequences of the order that were looked at."""
    minibatch: int
    """Sequences per minibatch."""
    variance_ratio: float
    """See `batch_mean_variance_ratio`."""
    predicted_variance_ratio: float
    variance_p_value: float
    distinct_chunks: float
    """Different chunks in a minibatch, on average."""
    predicted_distinct_chunks: float
    same_chunk_neighbours: tuple[float, ...]
    """Share of neighbours from one chunk, per tenth of the order."""
    uniform_same_chunk_neighbours: float
    """The same share in a uniform order."""
    neighbours_p_value: float
    """Of the worst tenth, upwards only."""
    lag_correlation: float
    lag_p_value: float
    decile_chi_square: float
    """Statistic over degrees of freedom, see `decile_chi_square`; 1 for a uniform order."""
    decile_p_value: float

    def as_dict(self) -> dict[str, int | float | list[float]]:
        """Return the fields as values that JSON knows."""
        fields = asdict(self)
        return fields | {"same_chunk_neighbours": list(self.same_chunk_neighbours)}


def shuffle_report(
    order: ArrayLike,
    chunk_sequences: ArrayLike,
    *,
    minibatch: int = 256,
    window_chunks: int | None = None,
    num_lanes: int = 1,
) -> ShuffleReport:
    """Run the battery on an order.

    Parameters
    ----------
    order : array_like of int, shape (places,)
        A sweep or the first part of one, as sequence numbers; at least two minibatches.
    chunk_sequences : array_like of int, shape (num_chunks,)
        Sequences in each chunk; a chunk may be empty.
    minibatch : int
        Sequences per minibatch; the mean number where a minibatch counts samples.
    window_chunks : int, optional
        The randomization window; None expects a uniform order.
    num_lanes : int
        Lanes that share the window.

    Returns
    -------
    ShuffleReport
        The figures, what to expect, and p-values. What to expect is exact for equal chunks and
        an estimate for uneven ones.

    Raises
    ------
    ValueError
        If a sequence lies outside the chunks, or there are fewer than two minibatches.

    Examples
    --------
    >>> uniform = np.random.default_rng(0).permutation(100_000)
    >>> report = shuffle_report(uniform, [1000] * 100)
    >>> report.variance_p_value > 0.01, report.lag_p_value > 0.01
    (True, True)
    >>> round(report.distinct_chunks), round(report.predicted_distinct_chunks)
    (92, 92)
    """
    counts = np.asarray(chunk_sequences, dtype=np.int64)
    size = int(counts.sum())
    chunks = chunks_of(order, counts)
    ratio = batch_mean_variance_ratio(order, size, minibatch=minibatch)
    num_means = len(chunks) // minibatch
    neighbours = same_chunk_neighbours(chunks)
    by_chance = float((counts / size * (counts - 1) / (size - 1)).sum())
    correlation = lag_correlation(order, size)
    deciles = decile_chi_square(order, size, minibatch=minibatch)

    # Uneven chunks spread as fewer equal ones would. A lane opens whole chunks.
    equal_chunks = size**2 / float((counts.astype(np.float64) ** 2).sum())
    lanes = 1 if window_chunks is None else num_lanes
    window = len(counts) if window_chunks is None else max(1, window_chunks // lanes) * lanes
    window_share = window / len(counts)
    expect = (minibatch, window_share * equal_chunks, equal_chunks)

    return ShuffleReport(
        num_sequences=size,
        num_chunks=int(np.count_nonzero(counts)),
        num_places=len(chunks),
        minibatch=minibatch,
        variance_ratio=ratio,
        predicted_variance_ratio=predicted_variance_ratio(*expect, num_lanes=lanes),
        variance_p_value=ChiSquare(ratio * (num_means - 1), num_means - 1).p_value,
        distinct_chunks=distinct_chunks(chunks, minibatch=minibatch),
        predicted_distinct_chunks=predicted_distinct_chunks(*expect, num_lanes=lanes),
        same_chunk_neighbours=tuple(neighbours.tolist()),
        uniform_same_chunk_neighbours=by_chance,
        neighbours_p_value=_worst_tenth_p_value(neighbours, by_chance, len(chunks) - 1),
        lag_correlation=correlation,
        lag_p_value=normal_p_value(correlation * math.sqrt(len(chunks))),
        decile_chi_square=deciles.ratio,
        decile_p_value=deciles.p_value,
    )


def _worst_tenth_p_value(
    neighbours: NDArray[np.float64], by_chance: float, num_pairs: int
) -> float:
    """Return the chance that the worst of ten tenths of a uniform order is as bad."""
    found = float(neighbours.max()) * num_pairs / 10
    if found == 0:
        return 1.0
    # Pairs are rare and nearly independent: a Poisson number, whose tail is a chi-square's.
    tail = ChiSquare(2 * by_chance * num_pairs / 10, 2 * found)
    return min(1.0, 10 * tail.lower_p_value)


def _values(order: ArrayLike, size: int) -> NDArray[np.float64]:
    return (checked_numbers(order, size) + 0.5) / size


def _minibatches(places: NDArray[Any], minibatch: int) -> NDArray[Any]:
    count = len(places) // minibatch
    if count < 2:
        raise ValueError(
            f"two minibatches of {minibatch} sequences are needed, got {len(places)} sequences"
        )
    return places[: count * minibatch].reshape(count, minibatch)
