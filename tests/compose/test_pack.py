"""Joining a list into rows, against the model; the figures of packing."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts
from tests.model_limits import rows_within

from sweephand import _core
from sweephand._core.compose import Fill

Pieces = list[tuple[int, int, int]]
"""Of a mixture: corpus, sweep and size of each."""


def pack(
    sizes: object,
    length: int,
    look_ahead: int | None = None,
    counts: Sequence[object] = (),
    limits: Sequence[int] = (),
) -> _core.compose.Rows:
    """Pack a list, in order if there is a look-ahead, or else the longest first."""
    fill = Fill.LONGEST_FIRST if look_ahead is None else Fill.IN_ORDER
    loads = [np.array(one, np.uint32) for one in counts]
    none = np.zeros(0, np.uint16)
    own = np.array(sizes, np.uint32)
    return _core.compose.pack(own, fill, length, look_ahead or 1, loads, limits, none, none)


def rows_of(packed: _core.compose.Rows) -> list[list[int]]:
    ends = [0, *packed.ends.tolist()]
    return [packed.members[a:b].tolist() for a, b in itertools.pairwise(ends)]


def in_order(sizes: list[int], length: int, look_ahead: int) -> list[list[int]]:
    return rows_of(pack(sizes, length, look_ahead))


def of_mixture(
    pieces: Pieces,
    length: int,
    look_ahead: int,
    counts: Sequence[list[int]] = (),
    limits: Sequence[int] = (),
) -> list[list[int]]:
    corpora, sweeps, sizes = (
        np.array([piece[field] for piece in pieces], dtype)
        for field, dtype in enumerate((np.uint16, np.uint16, np.uint32))
    )
    loads = [np.array(one, np.uint32) for one in counts]
    return rows_of(
        _core.compose.pack(
            sizes, Fill.MIXED, length, look_ahead, loads, limits, corpora, sweeps
        )
    )


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[Pieces, int]:
    """Pieces as (corpus, sweep, size) in any order, and a row length that holds them."""
    sizes, length = draw(lists())
    sequences = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))  # of each corpus
    met = [0] * len(sequences)
    pieces = []
    for size in sizes:
        corpus = draw(st.integers(0, len(sequences) - 1))
        pieces.append((corpus, met[corpus] // sequences[corpus], size))
        met[corpus] += 1
    return pieces, length


@st.composite
def lists(draw: st.DrawFn) -> tuple[list[int], int]:
    """Sizes and a row length that holds them: short rows, and as long as they may be."""
    length = draw(st.one_of(st.integers(1, 40), st.integers(2**31 - 40, 2**31)))
    size = st.one_of(st.integers(1, length), st.integers(max(1, length - 40), length))
    return draw(st.lists(size, max_size=60)), length


@given(lists(), st.one_of(st.integers(1, 70), st.just(2**63)))
def test_rows_in_order_are_those_of_the_model(
    packing: tuple[list[int], int], look_ahead: int
) -> None:
    sizes, length = packing
    assert in_order(sizes, length, look_ahead) == layouts.rows_in_order(
        sizes, length, look_ahead
    )


@given(mixtures(), st.one_of(st.integers(1, 70), st.just(2**63)))
def test_rows_of_a_mixture_are_those_of_the_model(
    packing: tuple[Pieces, int], look_ahead: int
) -> None:
    pieces, length = packing
    rows = of_mixture(pieces, length, look_ahead)
    assert rows == layouts.rows_of_mixture(pieces, length, look_ahead)


@given(mixtures(), st.one_of(st.integers(1, 70), st.just(2**63)), st.data())
def test_rows_of_a_mixture_within_limits_are_those_of_the_model(
    packing: tuple[Pieces, int], look_ahead: int, data: st.DataObject
) -> None:
    pieces, length = packing
    limits = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))
    counts = [
        data.draw(st.lists(st.integers(0, most) | st.just(0), min_size=n, max_size=n))
        for most in limits
        for n in [len(pieces)]
    ]
    rows = of_mixture(pieces, length, look_ahead, counts, limits)
    assert rows == layouts.rows_of_mixture(pieces, length, look_ahead, counts, limits)
    for row in rows:
        for own, most in zip(counts, limits, strict=True):
            assert sum(own[place] for place in row) <= most


@given(lists())
def test_rows_longest_first_are_those_of_first_fit_decreasing(
    packing: tuple[list[int], int],
) -> None:
    sizes, length = packing
    rows = rows_of(pack(sizes, length))
    # The model opens rows in the order in which it meets their longest member.
    assert rows == layouts.rows_longest_first(sizes, length)


def log_normal(count: int) -> NDArray[np.uint32]:
    sizes = np.random.default_rng(0).lognormal(np.log(180), 1, count)
    return np.clip(np.rint(sizes), 1, 2048).astype(np.uint32)


def test_longest_first_is_one_or_two_rows_above_the_bound() -> None:
    sizes = log_normal(200_000)
    bound = -(-int(sizes.sum()) // 2048)
    assert bound == 28299
    assert len(pack(sizes, 2048).ends) == 28301


@st.composite
def limited_lists(
    draw: st.DrawFn,
) -> tuple[NDArray[np.uint32], int, list[NDArray[np.uint32]], list[int]]:
    count, length = draw(st.integers(1, 40)), draw(st.integers(1, 60))
    limits = draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))

    def numbers(least: int, most: int) -> NDArray[np.uint32]:
        own = st.integers(least, most) | st.just(least)
        return np.array(draw(st.lists(own, min_size=count, max_size=count)), np.uint32)

    return numbers(1, length), length, [numbers(0, most) for most in limits], limits


@given(limited_lists(), st.integers(1, 9) | st.none())
def test_rows_within_limits_are_those_of_the_model(
    given_list: Any, look_ahead: int | None
) -> None:
    sizes, length, counts, limits = given_list
    found = rows_of(pack(sizes, length, look_ahead, counts, limits))
    if any(one.any() for one in counts):
        plain = [one.tolist() for one in counts]
        seen = () if look_ahead is None else (look_ahead,)
        assert found == rows_within(sizes.tolist(), length, plain, limits, *seen)
    else:
        assert found == rows_of(pack(sizes, length, look_ahead))
