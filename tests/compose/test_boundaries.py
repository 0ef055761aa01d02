"""Bucket boundaries, against the definition: all choices are tried."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts

from sweephand import _core

EXAMPLE = {2: 6, 3: 2, 5: 3, 9: 2, 12: 1}

histograms = st.dictionaries(
    st.one_of(st.integers(1, 30), st.integers(1, 2**32 - 1)),
    st.integers(1, 50),
    min_size=1,
    max_size=9,
)


def size_counts(counts: dict[int, int]) -> list[_core.compose.SizeCount]:
    return [_core.compose.SizeCount(size, counts[size]) for size in sorted(counts)]


@given(histograms, st.integers(1, 12))
def test_boundaries_are_the_best_of_all(counts: dict[int, int], num_buckets: int) -> None:
    found = _core.compose.best_boundaries(size_counts(counts), num_buckets)
    assert found == layouts.best_boundaries(counts, num_buckets)
    cells = _core.compose.padded_cells(size_counts(counts), found)
    assert cells == layouts.padded_cells(counts, found)


def corpus_of(sizes: NDArray[np.uint32]) -> _core.index.Corpus:
    count, total = np.array([[len(sizes)], [sizes.sum()]], np.uint64)
    return _core.index.Corpus(count, total, _core.index.StoredSizes(sizes))


@given(st.lists(st.integers(1, 2**17), min_size=1, max_size=50))
def test_sizes_are_counted(sizes: list[int]) -> None:
    found = _core.compose.count_sizes(corpus_of(np.array(sizes, np.uint32)))
    assert [(entry.size, entry.count) for entry in found] == [
        (size, sizes.count(size)) for size in sorted(set(sizes))
    ]


@pytest.mark.parametrize(
    ("boundaries", "cells"),
    [([12], 168), ([5, 12], 91), ([2, 5, 12], 73), ([2, 5, 9, 12], 67), ([2, 3, 5, 9, 12], 63)],
)
def test_the_worked_example(boundaries: list[int], cells: int) -> None:
    counts = size_counts(EXAMPLE)
    assert _core.compose.best_boundaries(counts, len(boundaries)) == boundaries
    assert _core.compose.padded_cells(counts, boundaries) == cells


def test_quantile_ends_cost_more_in_the_worked_example() -> None:
    assert _core.compose.padded_cells(size_counts(EXAMPLE), [3, 12]) == 96


def test_best_boundaries_fill_far_better_than_quantiles() -> None:
    sizes = np.random.default_rng(0).lognormal(np.log(180), 1, 200_000)
    sizes = np.clip(np.rint(sizes), 1, 2048).astype(np.uint32)
    counts = _core.compose.count_sizes(corpus_of(sizes))
    for num_buckets, fill in ((8, 0.799), (16, 0.894), (32, 0.946)):
        best = _core.compose.best_boundaries(counts, num_buckets)
        assert sizes.sum() / _core.compose.padded_cells(counts, best) == pytest.approx(
            fill, abs=1e-3
        )
        ends = np.quantile(sizes, np.arange(1, num_buckets + 1) / num_buckets, method="higher")
        quantiles = sorted(set(ends.astype(int).tolist()))
        assert sizes.sum() / _core.compose.padded_cells(counts, quantiles) < fill - 0.04


def test_a_histogram_of_many_sizes_is_quick() -> None:
    counts = [_core.compose.SizeCount(size, 1 + size % 7) for size in range(1, 50_001)]
    found = _core.compose.best_boundaries(counts, 16)
    assert len(found) == 16
    assert found[-1] == 50_000
    assert found == sorted(set(found))
