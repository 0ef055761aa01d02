"""Deserializers that lie in every way: an error or a skipped item, never another's bytes.

Over a core with AddressSanitizer, as ``check.sh pyasan`` builds it, a read beyond a buffer
ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sweephand as sh
from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData, describe_stream, offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.deserializers.deserializer import Deserializer

SIZES = [2, 1, 3, 4, 1, 2, 5, 1, 3, 2, 1, 4]
PER_CHUNK = 3
NUM_CHUNKS = len(SIZES) // PER_CHUNK
LIAR = 2  # the chunk that is not what it was said to be
STARTS = offsets_of(SIZES)


def honest(chunk: int) -> list[ColumnData]:
    """Tokens whose values tell their place, sparse samples and bytes, all of equal lengths."""
    first = PER_CHUNK * chunk
    offsets = STARTS[first : first + PER_CHUNK + 1] - STARTS[first]
    count = int(offsets[-1])
    tokens = np.arange(count) + STARTS[first]
    twice = offsets_of([2] * count)
    indices = np.tile(np.array([0, 3], np.int32), count)
    return [
        ColumnData(tokens, tokens.dtype, (), count, offsets),
        ColumnData(np.repeat(tokens, 2), tokens.dtype, (5,), count, offsets, twice, indices),
        ColumnData(
            np.zeros(2 * count, np.uint8), np.dtype(np.uint8), (), count, offsets, twice
        ),
    ]


Lie = Callable[[list[ColumnData]], Any]


def changed(which: int, **fields: Any) -> Lie:
    def lie(columns: list[ColumnData]) -> list[ColumnData]:
        return [
            replace(one, **{k: v(one) for k, v in fields.items()}) if i == which else one
            for i, one in enumerate(columns)
        ]

    return lie


def moved(offsets: NDArray[np.int64], *, by: list[int]) -> NDArray[np.int64]:
    return offsets + np.array(by, np.int64)


def every(which: int, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Lie:
    return changed(which, sample_offsets=lambda one: change(one.sample_offsets))


def elements(which: int, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Lie:
    return changed(which, element_offsets=lambda one: change(one.element_offsets))


def cut(columns: list[ColumnData], count: int) -> list[ColumnData]:
    return [
        replace(one, sample_offsets=np.asarray(one.sample_offsets)[: count + 1])
        for one in columns
    ]


HUGE = 2**62
LIES: dict[str, Lie] = {
    "one sequence fewer": lambda columns: cut(columns, PER_CHUNK - 1),
    "no sequence": lambda columns: cut(columns, 0),
    "one sequence more": lambda columns: [
        replace(one, sample_offsets=np.append(one.sample_offsets, one.num_samples))
        for one in columns
    ],
    "a column fewer": lambda columns: columns[:-1],
    "columns in another order": lambda columns: columns[::-1],
    "another dtype of the same stream": changed(
        0, values=lambda one: one.values.astype("i2"), dtype=lambda one: np.dtype("i2")
    ),
    "another shape": changed(
        0,
        values=lambda one: one.values.reshape(-1, 1).repeat(2, 1)[: one.num_samples],
        shape=lambda one: (2,),
    ),
    "dense for sparse": changed(1, element_offsets=lambda one: None, indices=lambda one: None),
    **{
        f"{name}, stream {which}": every(which, change)
        for which in range(3)
        for name, change in {
            "a border moved": lambda offsets: moved(offsets, by=[0, 1, 0, 0]),
            "borders that descend": lambda offsets: offsets[[0, 2, 1, 3]],
            "a negative border": lambda offsets: moved(offsets, by=[-2, 0, 0, 0]),
            "an end beyond the data": lambda offsets: moved(offsets, by=[0, 0, 0, 1]),
            "an end far beyond": lambda offsets: moved(offsets, by=[0, 0, 0, HUGE]),
            "a begin far below": lambda offsets: moved(offsets, by=[-HUGE, 0, 0, 0]),
            "all empty": lambda offsets: np.zeros_like(offsets),
            "all moved": lambda offsets: moved(offsets, by=[1, 1, 1, 1]),
        }.items()
    },
    **{
        f"{name}, stream {which}": elements(which, change)
        for which in (1, 2)
        for name, change in {
            "elements beyond the data": lambda offsets: offsets + 3,
            "elements far beyond": lambda offsets: offsets * HUGE,
            "negative elements": lambda offsets: offsets - 5,
            "elements that descend": lambda offsets: np.ascontiguousarray(offsets[::-1]),
        }.items()
    },
}


def load(lie: Lie, chunk: int) -> _core.read.Chunk:
    columns = honest(chunk)
    return make_chunk(lie(columns) if chunk == LIAR else columns)


@dataclass
class Lying(Deserializer):
    """Serves what `lie` makes of chunk LIAR, through the same door as every format."""

    lie: Lie
    prefix: str = ""
    size_stream: str = "tokens"

    def open(self, ledger: Ledger) -> StoredCorpus:
        sizes = np.array(SIZES, np.uint32)
        samples = _core.index.Starts.of_samples(np.diff(STARTS[::PER_CHUNK]).astype(np.uint64))
        names = [f"{self.prefix}{name}" for name in ("tokens", "bags", "texts")]
        reader = StoredReader(
            core=_core.read.CallbackDeserializer(partial(load, self.lie)),
            streams=[
                describe_stream(
                    name, column, sh.StreamDef(defines_mb_size=name == self.size_stream)
                )
                for name, column in zip(names, honest(0), strict=True)
            ],
            chunks=_core.index.Starts(np.full(NUM_CHUNKS, PER_CHUNK, np.uint64)),
            measure=lambda: Sizing(_core.index.StoredSizes(sizes), samples),
            resident=False,
        )
        name = f"{self.prefix}liar"
        return StoredCorpus([reader], ShardIds([name], [0, len(SIZES)]), [name])


def truth(source: sh.MinibatchSource, prefix: str, size: int) -> list[str]:
    """Take a sweep; what is delivered must be true to the last value."""
    found: list[str] = []
    for minibatch in source.minibatches(size):
        names = minibatch.ids
        pieces = minibatch[f"{prefix}tokens"].as_sequences()
        for name, piece in zip(names, pieces, strict=True):
            number = int(name.partition("#")[0].rpartition("__")[2])
            wanted = np.arange(STARTS[number], STARTS[number + 1])
            assert np.isin(piece, wanted).all(), (name, piece)
        assert sum(map(len, pieces)) == minibatch.num_samples
        found += names
    return found


LAYOUTS: dict[str, sh.Layout] = {
    "ragged": sh.Ragged(),
    "padded": sh.Padded(),
    "bucketed": sh.Bucketed([2, 5]),
    "packed": sh.Packed(6),
    "bptt": sh.TruncatedBPTT(2),
    "frames": sh.Frames(),
}
INNOCENT = [n for n in range(len(SIZES)) if n // PER_CHUNK != LIAR]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_an_error_or_skipped_and_never_delivered(lie: Lie, layout: sh.Layout) -> None:
    options: dict[str, Any] = {"layout": layout, "max_sweeps": 1, "num_lanes": 2}
    for num_threads in (0, 1):
        strict = sh.MinibatchSource(Lying(lie), num_threads=num_threads, **options)
        try:
            found = truth(strict, "", 7)
        except (sh.DataError, ValueError):
            pass
        else:  # a border of a stream that does not count may move where streams may differ
            assert {int(n.partition("#")[0].rpartition("__")[2]) for n in found} >= set(
                INNOCENT
            )
        with sh.MinibatchSource(
            Lying(lie), num_threads=num_threads, max_errors=99, **options
        ) as source:
            try:
                found = truth(source, "", 7)
            except (sh.DataError, ValueError):
                continue  # such as columns of another chunk, which no budget covers
            numbers = {int(n.partition("#")[0].rpartition("__")[2]) for n in found}
            assert numbers >= set(INNOCENT)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_member_of_a_join_may_lie_too(lie: Lie) -> None:
    def nothing(columns: list[ColumnData]) -> list[ColumnData]:
        return columns

    members = [Lying(nothing, "a", "atokens"), Lying(lie, "b")]
    for max_errors in (0, 99):
        with sh.MinibatchSource(
            members, max_sweeps=1, num_lanes=2, max_errors=max_errors
        ) as source:
            try:
                found = truth(source, "a", 7)
            except (sh.DataError, ValueError):
                continue
            assert {int(n.rpartition("__")[2]) for n in found} >= set(INNOCENT)
