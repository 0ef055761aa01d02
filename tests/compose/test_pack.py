"""Joining a list into rows, against the model; the worked examples and figures of packing."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts

from sweephand import _core


def rows_of(packed: _core.compose.Rows) -> list[list[int]]:
    ends = [0, *packed.ends.tolist()]
    return [packed.members[a:b].tolist() for a, b in itertools.pairwise(ends)]


def in_order(sizes: list[int], length: int, look_ahead: int) -> list[list[int]]:
    return rows_of(_core.compose.pack_in_order(np.array(sizes, np.uint32), length, look_ahead))


def longest_first(sizes: list[int], length: int) -> list[list[int]]:
    return rows_of(_core.compose.pack_longest_first(np.array(sizes, np.uint32), length))


def of_mixture(
    pieces: list[tuple[int, int, int]],
    length: int,
    look_ahead: int,
    counts: list[list[int]] | None = None,
    limits: list[int] | None = None,
) -> list[list[int]]:
    corpora, sweeps, sizes = (
        np.array([piece[field] for piece in pieces], dtype)
        for field, dtype in enumerate((np.uint16, np.uint16, np.uint32))
    )
    loads = [np.array(one, np.uint32) for one in counts or []]
    return rows_of(
        _core.compose.pack_mixture(
            sizes, corpora, sweeps, loads, limits or [], length, look_ahead
        )
    )


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], int]:
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
    packing: tuple[list[tuple[int, int, int]], int], look_ahead: int
) -> None:
    pieces, length = packing
    rows = of_mixture(pieces, length, look_ahead)
    assert rows == layouts.rows_of_mixture(pieces, length, look_ahead)


@given(mixtures(), st.one_of(st.integers(1, 70), st.just(2**63)), st.data())
def test_rows_of_a_mixture_within_limits_are_those_of_the_model(
    packing: tuple[list[tuple[int, int, int]], int], look_ahead: int, data: st.DataObject
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
    rows = longest_first(sizes, length)
    # The model opens rows in the order in which it meets their longest member.
    assert rows == layouts.rows_longest_first(sizes, length)


@given(lists(), st.integers(1, 20))
def test_a_sequence_waits_less_rows_than_are_in_sight(
    packing: tuple[list[int], int], look_ahead: int
) -> None:
    sizes, length = packing
    seen = 0  # sequences that came into sight, at most
    taken: set[int] = set()
    entered = {}
    for number, row in enumerate(in_order(sizes, length, look_ahead)):
        for place in row:
            while seen < len(sizes) and seen - len(taken) < look_ahead:
                entered[seen] = number
                seen += 1
            taken.add(place)
            assert number - entered[place] <= look_ahead - 1


def log_normal(count: int) -> NDArray[np.uint32]:
    sizes = np.random.default_rng(0).lognormal(np.log(180), 1, count)
    return np.clip(np.rint(sizes), 1, 2048).astype(np.uint32)


@pytest.mark.parametrize(
    ("look_ahead", "num_rows"), [(1, 33147), (64, 28342), (256, 28326), (1024, 28321)]
)
def test_row_counts_of_the_log_normal_corpus(look_ahead: int, num_rows: int) -> None:
    sizes = log_normal(200_000)
    assert len(_core.compose.pack_in_order(sizes, 2048, look_ahead).ends) == num_rows


def test_longest_first_is_one_or_two_rows_above_the_bound() -> None:
    sizes = log_normal(200_000)
    bound = -(-int(sizes.sum()) // 2048)
    assert bound == 28299
    assert len(_core.compose.pack_longest_first(sizes, 2048).ends) == 28301


def test_rows_of_the_look_ahead_are_not_biased_by_length() -> None:
    packed = _core.compose.pack_in_order(log_normal(200_000), 2048, 64)
    counts = np.diff(packed.ends, prepend=0)
    assert 0.95 < counts[: len(counts) // 10].mean() / counts.mean() < 1.05


def test_huge_rows_are_filled_though_few_sequences_are_in_sight() -> None:
    sizes = np.random.default_rng(0).lognormal(np.log(600), 1.2, 20_000)
    sizes = np.clip(np.rint(sizes), 1, 131_072).astype(np.uint32)
    for look_ahead in (4, 16):
        rows = _core.compose.pack_in_order(sizes, 131_072, look_ahead)
        fill = sizes.sum() / ((len(rows.ends) - 1) * 131_072)
        assert fill > 0.99
