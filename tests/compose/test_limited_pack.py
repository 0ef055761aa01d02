"""Rows that hold at most so much of each: those of the model, full, and fast to plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.model_limits import rows_within

from sweephand._core.compose import (
    Rows,
    pack_in_order,
    pack_in_order_within,
    pack_largest_first_within,
    pack_longest_first,
)


def rows_of(rows: Rows) -> list[list[int]]:
    return [one.tolist() for one in np.split(rows.members, rows.ends[:-1].astype(int))]


@st.composite
def lists(
    draw: st.DrawFn,
) -> tuple[NDArray[np.uint32], int, list[NDArray[np.uint32]], list[int]]:
    count, length = draw(st.integers(1, 40)), draw(st.integers(1, 60))
    limits = draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))

    def numbers(least: int, most: int) -> NDArray[np.uint32]:
        own = st.integers(least, most) | st.just(least)
        return np.array(draw(st.lists(own, min_size=count, max_size=count)), np.uint32)

    return numbers(1, length), length, [numbers(0, most) for most in limits], limits


@given(lists())
def test_the_rows_are_those_of_the_model(given_list: Any) -> None:
    sizes, length, counts, limits = given_list
    found = rows_of(pack_largest_first_within(sizes, length, counts, limits))
    if any(one.any() for one in counts):
        plain = [one.tolist() for one in counts]
        assert found == rows_within(sizes.tolist(), length, plain, limits)
    else:
        assert found == rows_of(pack_longest_first(sizes, length))


@given(lists(), st.integers(1, 9))
def test_the_rows_in_order_are_those_of_the_model(given_list: Any, look_ahead: int) -> None:
    sizes, length, counts, limits = given_list
    found = rows_of(pack_in_order_within(sizes, length, counts, limits, look_ahead))
    if any(one.any() for one in counts):
        plain = [one.tolist() for one in counts]
        assert found == rows_within(sizes.tolist(), length, plain, limits, look_ahead)
    else:
        assert found == rows_of(pack_in_order(sizes, length, look_ahead))


def web_like(count: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return text, captions and pages with pictures: samples, and patches, 4 a placeholder."""
    rng = np.random.default_rng(0)
    kind = rng.random(count)
    text = np.clip(rng.lognormal(np.log(600), 1, count), 1, 4096)
    is_caption = kind < 0.3
    text[is_caption] = np.clip(rng.lognormal(np.log(60), 0.8, is_caption.sum()), 1, 1000)
    pictures = np.where(is_caption, 1, np.where(kind < 0.4, rng.geometric(0.3, count), 0))
    placeholders = np.zeros(count, int)
    for number in range(pictures.max()):
        areas = np.clip(rng.lognormal(np.log(300), 0.8, count), 16, 1024).astype(int)
        placeholders += np.where(pictures > number, areas, 0)
    sizes = text.astype(int) + placeholders
    fits = (sizes <= 4096) & (4 * placeholders <= 8192)
    return sizes[fits].astype(np.uint32), (4 * placeholders[fits]).astype(np.uint32)


@pytest.mark.parametrize("limit", [8192, 16384])
def test_rows_of_a_web_like_mix_are_full(limit: int) -> None:
    sizes, patches = web_like(14_000)
    rows = len(pack_largest_first_within(sizes, 4096, [patches], [limit]).ends)
    assert max(sizes.sum() / 4096, patches.sum() / limit) / rows > 0.99
    in_order = len(pack_in_order_within(sizes, 4096, [patches], [limit], 64).ends)
    assert max(sizes.sum() / 4096, patches.sum() / limit) / in_order > 0.97
