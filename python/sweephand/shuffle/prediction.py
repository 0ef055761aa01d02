"""How well a randomization window shuffles, from its size alone, and the window to choose.

The figures are those of `shuffle_quality`: the corpus is sorted, minibatches count sequences.
"""

import math


def predicted_variance_ratio(
    minibatch: float, window_chunks: float, num_chunks: float, *, num_lanes: int = 1
) -> float:
    """Return the variance ratio of minibatch means to expect of a randomization window.

    With one lane this is ``1 + minibatch / window_chunks * (1 - window_chunks / num_chunks)``,
    less a term of order ``1 / window_chunks``. Lanes are read in turn, so every minibatch draws
    evenly from them, and that takes the spread between lanes off.

    Parameters
    ----------
    minibatch : float
        Sequences per minibatch.
    window_chunks : float
        Chunks that are open at a time, over all lanes; every lane has at least one.
    num_chunks : float
        Chunks of the corpus, taken as equal.
    num_lanes : int
        Lanes that share the window.

    Returns
    -------
    float
        The mean over seeds; a single sweep scatters around it by a third, less if it holds many
        windows.

    Examples
    --------
    >>> round(predicted_variance_ratio(256, 128, 1000), 2)
    2.74
    >>> round(predicted_variance_ratio(256, 96, 1000), 2)
    3.4
    >>> round(predicted_variance_ratio(256, 96, 1000, num_lanes=48), 2)
    2.91
    """
    block, num_blocks = _open_blocks(minibatch, window_chunks, num_chunks, num_lanes)
    between = _variance_of_mean(block * num_blocks, num_chunks)
    return 1 + minibatch * between - _variance_of_mean(block, num_chunks)


def predicted_distinct_chunks(
    minibatch: float, window_chunks: float, num_chunks: float, *, num_lanes: int = 1
) -> float:
    """Return the `distinct_chunks` to expect of a randomization window.

    Parameters
    ----------
    minibatch, window_chunks, num_chunks, num_lanes
        As in `predicted_variance_ratio`.

    Returns
    -------
    float
        Chunks per minibatch. Minibatches across the border of two blocks see a few more.

    Examples
    --------
    >>> round(predicted_distinct_chunks(256, 1000, 1000))
    226
    >>> round(predicted_distinct_chunks(256, 96, 1000, num_lanes=48))
    94
    """
    block, num_blocks = _open_blocks(minibatch, window_chunks, num_chunks, num_lanes)
    return num_blocks * block * (1 - math.pow(1 - 1 / block, minibatch / num_blocks))


def window_wanted(
    variance_ratio: float, minibatch: float, num_chunks: float, *, num_lanes: int = 1
) -> float:
    """Return the randomization window that a variance ratio asks for.

    Parameters
    ----------
    variance_ratio : float
        The `batch_mean_variance_ratio` that is wanted, at least 1.
    minibatch, num_chunks, num_lanes
        As in `predicted_variance_ratio`, of which this is the inverse.

    Returns
    -------
    float
        Chunks that must be open at a time, over all lanes; at least one for each lane.

    Raises
    ------
    ValueError
        If `variance_ratio` is below 1.

    Examples
    --------
    >>> round(window_wanted(3, 256, 1000))
    113
    >>> round(window_wanted(3, 256, 1000, num_lanes=48))
    92
    """
    if not variance_ratio >= 1:
        raise ValueError(f"variance_ratio must be at least 1, got {variance_ratio}")
    excess = (variance_ratio - 1) * (num_chunks - 1) + minibatch - 1
    return max(num_lanes, num_chunks * (minibatch - num_lanes) / excess)


def _open_blocks(
    minibatch: float, window_chunks: float, num_chunks: float, num_lanes: int
) -> tuple[float, float]:
    """Return the chunks in a block, and the number of blocks that a minibatch draws from."""
    block = min(num_chunks, max(1.0, window_chunks / num_lanes))
    return block, min(minibatch, num_lanes, num_chunks / block)


def _variance_of_mean(window: float, num_chunks: float) -> float:
    """Return the variance of the mean of `window` chunks over that of one sequence."""
    if window >= num_chunks:
        return 0.0
    return (num_chunks - window) / (window * (num_chunks - 1))
