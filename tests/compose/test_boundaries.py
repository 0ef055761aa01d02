"""Bucket boundaries, against the definition: all choices are tried."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import model_layouts as layouts

from sweephand import _core

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
