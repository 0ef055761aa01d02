"""Arrays like the first one are joined by one look at each; others are left to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweephand import _core

LIKE = np.zeros((3, 2), np.int32)


@pytest.mark.parametrize("counts", [[1], [0], [3, 0, 2], [0, 0]])
@pytest.mark.parametrize("dtype", ["i4", "f8", "u1", "c16", "?"])
def test_sequences_lie_behind_each_other(counts: list[int], dtype: str) -> None:
    like = LIKE.astype(dtype)
    arrays = [np.arange(2 * n).reshape(n, 2).astype(dtype) for n in counts]
    data, offsets = _core.read.join_arrays(arrays, like)
    assert (data.view(dtype).reshape(-1, 2) == np.concatenate(arrays)).all()
    assert offsets.tolist() == [0, *np.cumsum(counts).tolist()]


def test_samples_without_a_first_axis_are_one_each() -> None:
    data, offsets = _core.read.join_arrays([LIKE[0] + 1, LIKE[0] + 2], LIKE)
    assert data.view(np.int32).tolist() == [1, 1, 2, 2]
    assert offsets.tolist() == [0, 1, 2]
    data, offsets = _core.read.join_arrays([np.array(5), np.array(6)], np.zeros(1, np.int64))
    assert data.view(np.int64).tolist() == [5, 6]


class OwnArray(np.ndarray):
    pass


@pytest.mark.parametrize(
    "odd",
    [
        LIKE.astype(np.int64),
        LIKE.astype(">i4"),
        LIKE[0],
        LIKE[:, :1].copy(),
        LIKE[None],
        np.asfortranarray(LIKE),
        LIKE.view(OwnArray),
        [[1, 2]],
        7,
        None,
    ],
)
def test_what_is_unlike_is_left_alone(odd: Any) -> None:
    assert _core.read.join_arrays([LIKE, odd], LIKE) is None
    assert _core.read.join_arrays([odd, LIKE], LIKE) is None


def test_nothing_is_joined_to_nothing() -> None:
    assert _core.read.join_arrays([], LIKE) is None
    assert _core.read.join_arrays([np.array(1)], np.array(1)) is None
