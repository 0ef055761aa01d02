"""Generators of NumPy that count with Philox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray


class PhiloxKey(ISeedSequence):
    """The key of a Philox, as its seed: given ``key=``, NumPy also asks the system for bits."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(
        self, n_words: int, dtype: DTypeLike = np.uint32
    ) -> NDArray[np.uint32 | np.uint64]:
        """Return the key, of which a Philox asks for two words of uint64."""
        assert (n_words, dtype) == (len(self._words), self._words.dtype)
        return self._words


def generator_of(words: Sequence[int]) -> np.random.Generator:
    """Return ``Generator(Philox(key=words))``, three times as fast.

    Examples
    --------
    >>> same = np.random.Generator(np.random.Philox(key=[5, 7]))
    >>> bool(generator_of([5, 7]).integers(2**60) == same.integers(2**60))
    True
    """
    key: Any = PhiloxKey(np.array(words, np.uint64))  # a seed, which its stubs do not know
    return np.random.Generator(np.random.Philox(key))
