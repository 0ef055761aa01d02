"""Ids of sequences that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.ids import SequenceIds


class LaterIds(Sequence[str]):
    """The ids of sequences, looked up on demand: most are needed only for errors.

    They go to another process as a list.

    Parameters
    ----------
    ids : SequenceIds
    numbers : ndarray of uint64, shape (sequences,)

    Examples
    --------
    >>> from sweephand.corpus.ids import ShardIds
    >>> list(LaterIds(ShardIds(["a"], [0, 9]), np.array([4, 7]))[1:])
    ['a__7']
    """

    __slots__ = ("_ids", "_numbers")

    def __init__(self, ids: SequenceIds, numbers: NDArray[np.integer]) -> None:
        self._ids = ids
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> LaterIds: ...
    def __getitem__(self, which: int | slice) -> str | LaterIds:
        if isinstance(which, slice):
            return LaterIds(self._ids, self._numbers[which])
        return self._ids.names(self._numbers[which, None])[0]

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, (self._ids.names(self._numbers),)
