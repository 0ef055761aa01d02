"""Comparisons of orders with chance: over many seeds, and of one order with another."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.shuffle.chi_square import ChiSquare, binned, checked_numbers, signed


def position_chi_square(orders: ArrayLike) -> ChiSquare:
    """Compare how often each place holds each sequence, over many seeds, with chance.

    Parameters
    ----------
    orders : array_like of int, shape (seeds, size)
        Whole permutations of a small corpus, one for each seed; ``seeds >= 5 * size`` to be
        meaningful.

    Returns
    -------
    ChiSquare
        With ``(size - 1)**2`` degrees of freedom.

    Raises
    ------
    ValueError
        If a row is no permutation of ``[0, size)``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> orders = [rng.permutation(20) for _ in range(1000)]
    >>> position_chi_square(orders).p_value > 0.01
    True
    """
    rows = signed(orders)
    seeds, size = rows.shape
    if not np.array_equal(np.sort(rows, axis=1), np.broadcast_to(np.arange(size), rows.shape)):
        raise ValueError(f"every row of orders must be a permutation of [0, {size})")
    cells = np.bincount((np.arange(size) * size + rows).ravel(), minlength=size * size)
    expected = seeds / size
    statistic = float(((cells - expected) ** 2).sum() / expected)
    # Rows and columns of the table of counts have fixed sums, which makes it (size - 1)^2 free
    # cells, each with a variance of size / (size - 1) times the expected count.
    return ChiSquare(statistic * (size - 1) / size, (size - 1) ** 2)


def uniform_chi_square(values: ArrayLike, size: int, *, bins: int = 1000) -> ChiSquare:
    """Compare numbers, drawn one for each seed, with uniform ones.

    Parameters
    ----------
    values : array_like of int, shape (seeds,)
        Numbers in ``[0, size)``, such as the first sequence of an order for many seeds.
    size : int
        Numbers that are possible.
    bins : int
        Ranges of numbers that are counted, all of one width but perhaps the last; about a third
        of the seeds or fewer.

    Returns
    -------
    ChiSquare
        With one degree of freedom less than there are ranges.

    Raises
    ------
    ValueError
        If a number lies outside ``[0, size)``.

    Examples
    --------
    >>> uniform_chi_square(np.arange(5000), 5000).ratio
    0.0
    """
    ranges, shares = binned(checked_numbers(values, size), size, bins)
    expected = len(ranges) * shares
    counts = np.bincount(ranges, minlength=len(shares))
    return ChiSquare(float(((counts - expected) ** 2 / expected).sum()), len(shares) - 1)


def pair_chi_square(orders: ArrayLike, size: int, *, bins: int = 1000) -> ChiSquare:
    """Compare the step from the first sequence to the second, over many seeds, with chance.

    Parameters
    ----------
    orders : array_like of int, shape (seeds, at least 2)
        The beginning of the order for each seed.
    size : int
        Sequences of the corpus, at least 3.
    bins : int
        Ranges of steps that are counted; with ``bins >= size - 1`` every step counts by itself.

    Returns
    -------
    ChiSquare
        Of ``(order[1] - order[0]) % size`` over ``1 ... size - 1``.

    Raises
    ------
    ValueError
        If the first two sequences of an order are the same.

    Examples
    --------
    >>> shifted = (np.arange(3000)[:, None] + np.arange(2)) % 50  # the next one follows
    >>> pair_chi_square(shifted, 50).ratio > 1000
    True
    """
    first, second = signed(orders)[:, :2].T
    return uniform_chi_square((second - first) % size - 1, size - 1, bins=bins)


def relative_order(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """Return the places of one order's sequences in another.

    If the two have nothing in common, the result is a uniform order, for the battery to judge:
    take two sweeps, or two seeds.

    Parameters
    ----------
    first : array_like of int, shape (size,)
        A permutation of ``[0, size)``.
    second : array_like of int, shape (places,)
        Sequence numbers in ``[0, size)``.

    Returns
    -------
    ndarray of int64, shape (places,)
        The place in `first` of each entry of `second`.

    Examples
    --------
    >>> relative_order([2, 0, 1], [0, 1, 2])
    array([1, 2, 0])
    """
    places = np.argsort(np.asarray(first))
    return np.take(places, np.asarray(second))
