"""Keys by which the sequences of corpora are joined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sweephand.errors import DataError

Keys = Callable[[], NDArray[np.int64] | list[str]]
"""Returns the join keys of all sequences."""


class KeptNumbers:
    """Join keys of sequences joined by their numbers in the corpus they come from."""

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self._numbers = numbers

    def __call__(self) -> NDArray[np.int64]:
        """Return the numbers."""
        return self._numbers.astype(np.int64)

    def take(self, numbers: NDArray[np.uint64]) -> KeptNumbers:
        """Return the keys of the sequences that are kept."""
        return KeptNumbers(self._numbers[numbers])


class LostNumbers(KeptNumbers):
    """Numbers that nobody knows, as unknown numbers of rows are lost before some of them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> NDArray[np.int64]:
        """Refuse a join."""
        raise DataError(
            "the rest of the file is lost, and with it the numbers of all later sequences, by "
            "which they would be joined: join by ids=, or leave the file out",
            self._path,
        )

    def take(self, numbers: NDArray[np.uint64]) -> KeptNumbers:
        """Return the same."""
        return self


def kept_keys(keys: Keys | None, numbers: NDArray[np.uint64]) -> Keys:
    """Return the join keys of the sequences that are kept."""
    if keys is None:
        return KeptNumbers(numbers)
    if isinstance(keys, KeptNumbers):
        return keys.take(numbers)

    def found_keys() -> NDArray[np.int64] | list[str]:
        found = keys()
        return (
            [found[n] for n in numbers.tolist()] if isinstance(found, list) else found[numbers]
        )

    return found_keys
