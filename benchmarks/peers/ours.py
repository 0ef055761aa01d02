"""A source of ours, and our packing: what asv measures, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.suite import bench_compose, bench_source
from benchmarks.suite.corpora import (
    ROW_LENGTH,
    make_lengths,
    make_rows,
    make_tokens,
    shuffled_lengths,
)

from sweephand import _core


def _again(work: Callable[[], object], count: int) -> Iterator[int]:
    while True:
        work()
        yield count


def rows() -> Iterator[int]:
    return _again(bench_source.rows()["sweephand"], len(make_rows().rows))


def ragged() -> Iterator[int]:
    return _again(bench_source.ragged()["sweephand"], len(make_tokens().tokens))


def padded() -> Iterator[int]:
    return _again(bench_source.padded()["sweephand"], len(make_tokens().tokens))


def longest_first() -> Iterator[int]:
    sizes = shuffled_lengths(make_lengths())
    return _again(lambda: _core.compose.pack_longest_first(sizes, ROW_LENGTH), len(sizes))


def packed_rows() -> Iterator[int]:
    return _again(*bench_compose.packed_rows("sweephand"))
