"""The permutation of files that ``tf.data`` makes of a seed, for any pass."""

import numpy as np
from numpy.typing import NDArray

from sweephand.extend import check_int

_PRIME = 2**31 - 1
_DEFAULT_GLOBAL_SEED = 87654321
_LOW = np.uint64(0xFFFFFFFF)


def philox(seed: int, seed2: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return numbers of the generator Philox4x32-10 that TensorFlow seeds with two integers.

    Parameters
    ----------
    seed, seed2 : int
        64-bit words: the key, and the upper half of the counter.
    first, count : int
        The numbers ``[first, first + count)`` of the stream are returned.

    Returns
    -------
    ndarray of uint64, shape (count,)
        Numbers below 2^32.

    References
    ----------
    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".

    Examples
    --------
    >>> [f"{number:08x}" for number in philox(0, 0, 0, 4)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    half = np.uint64(32)
    blocks = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    c0, c1 = blocks & _LOW, blocks >> half
    c2 = np.full_like(blocks, seed2 & 0xFFFFFFFF)
    c3 = np.full_like(blocks, seed2 >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        from_c2 = np.uint64(0xCD9E8D57) * c2
        from_c0 = np.uint64(0xD2511F53) * c0
        c0 = from_c2 >> half ^ c1 ^ np.uint64(k0)
        c1 = from_c2 & _LOW
        c2 = from_c0 >> half ^ c3 ^ np.uint64(k1)
        c3 = from_c0 & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    numbers = np.stack([c0, c1, c2, c3], axis=1).reshape(-1)
    begin = first - first // 4 * 4
    return numbers[begin : begin + count]


class FileShuffle:
    """A seeded shuffle of files, different in every pass.

    Parameters
    ----------
    seed : int
        ``shuffle_seed`` of the read options.
    global_seed : int, optional
        The argument of ``tf.random.set_seed``.
    reshuffle : bool
        True if passes differ. Otherwise all are as a single pass, which is not the first of
        differing passes.

    Examples
    --------
    >>> shuffle = FileShuffle(7)
    >>> [shuffle.order(5, number).tolist() for number in range(3)]
    [[2, 4, 0, 3, 1], [4, 3, 1, 0, 2], [1, 2, 3, 4, 0]]
    >>> FileShuffle(7, reshuffle=False).order(5, 0).tolist()
    [2, 4, 3, 0, 1]
    """

    def __init__(
        self, seed: int, *, global_seed: int | None = None, reshuffle: bool = True
    ) -> None:
        check_int("shuffle_seed", seed, -(2**63), 2**63)
        if global_seed is not None:
            check_int("global_seed", global_seed, -(2**63), 2**63)
        self._seed = (_DEFAULT_GLOBAL_SEED if global_seed is None else global_seed) % _PRIME
        self._seed2 = seed % _PRIME
        if self._seed == 0 and self._seed2 == 0:
            self._seed2 = _PRIME
        self._reshuffle = reshuffle

    def order(self, num_files: int, number: int) -> NDArray[np.int64]:
        """Return the files in the order in which pass ``number`` opens them."""
        seeds = self._seed, self._seed2
        if self._reshuffle:
            first, second = philox(self._seed, self._seed2, 2 * number, 2).tolist()
            seeds = first, second
        files = list(range(num_files))
        for place, draw in enumerate(philox(*seeds, 0, num_files).tolist()):
            other = place + draw % (num_files - place)
            files[place], files[other] = files[other], files[place]
        return np.array(files, np.int64)
