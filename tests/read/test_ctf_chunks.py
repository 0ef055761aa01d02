"""Chunks of text files are cut from the packed index as by a plain loop over all sequences."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sweephand import _core

Piece = tuple[int, int, int]
"""File, begin and end in bytes."""


@dataclass
class File:
    sizes: list[int]  # of its sequences, in bytes
    head: int  # bytes before the first
    items: list[int]
    entries: list[int] | None

    @property
    def borders(self) -> list[int]:
        return [self.head + sum(self.sizes[:i]) for i in range(len(self.sizes) + 1)]


@st.composite
def files(draw: st.DrawFn) -> File:
    sizes = draw(st.lists(st.integers(1, 9), max_size=9))
    head = draw(st.integers(0, 3))
    end = head + sum(sizes)
    places = st.lists(st.integers(0, end), max_size=4).map(sorted)
    entries = draw(st.none() | places.map(lambda found: sorted({0, *found})))
    return File(sizes, head, draw(places), entries)


def pieces_of(number: int, file: File, most: int) -> list[Piece]:
    begins: list[int] = []
    full_from = 0
    for begin, end in zip(file.borders, file.borders[1:], strict=False):
        if begins and end - full_from <= most:
            continue
        full_from = begin
        entries = file.entries or []
        entered = bisect_right(entries, begin)
        if file.entries is None or not begins or entered > bisect_right(entries, begins[-1]):
            begins.append(begin)
    ends = [*begins[1:], file.borders[-1]]
    return [(number, begin, end) for begin, end in zip(begins, ends, strict=False)]


def chunks_of(corpus: list[File], most: int) -> list[list[Piece]]:
    chunks: list[list[Piece]] = []
    for number, file in enumerate(corpus):
        for piece in pieces_of(number, file, most):
            held = sum(end - begin for _, begin, end in chunks[-1]) if chunks else most + 1
            if held + piece[2] - piece[1] > most:
                chunks.append([])
            chunks[-1].append(piece)
    return chunks


def words(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def starts_of(counts: list[int]) -> np.ndarray:
    return np.cumsum([0, *counts])


def places_of(corpus: list[File]) -> tuple[np.ndarray, ...]:
    return (
        words([place for file in corpus for place in file.borders[:-1]]),
        words([line for file in corpus for line in range(len(file.sizes))]),
        starts_of([len(file.sizes) for file in corpus]),
        np.array([file.borders[-1] for file in corpus], np.uint64),
        np.array([place for file in corpus for place in file.items], np.uint64),
        starts_of([len(file.items) for file in corpus]),
    )


@given(st.lists(files(), min_size=1, max_size=5), st.integers(1, 40))
def test_chunks_are_those_of_a_plain_loop(corpus: list[File], most: int) -> None:
    chunks = _core.formats.CtfChunks(*places_of(corpus), most, [one.entries for one in corpus])
    wanted = chunks_of(corpus, most)
    assert len(chunks.sequences) == len(wanted)
    found = [chunks.of(i) for i in range(len(wanted))]
    assert [[(p.file, p.offset, p.offset + p.bytes) for p in own] for own in found] == wanted
    counts = chunks.sequences.counts().tolist()
    assert [sum(p.num_sequences for p in own) for own in found] == counts
    for piece in (piece for own in found for piece in own):
        file = corpus[piece.file]
        assert piece.first_line == file.borders.index(piece.offset)
        end = piece.offset + piece.bytes
        before = len(file.items) if end == file.borders[-1] else bisect_left(file.items, end)
        assert piece.num_items == before - bisect_left(file.items, piece.offset)


def test_a_file_that_is_entered_at_its_beginning_alone_is_cut_after_a_gib() -> None:
    begins = [0, 2**29, 2**30, 2**30 + 1, 2**31 + 1, 2**31 + 2]
    places = (
        words(begins),
        words([0, 1, 2, 3, 4, 5]),
        np.array([0, 6]),
        np.array([2**31 + 9], np.uint64),
        np.empty(0, np.uint64),
        np.array([0, 0]),
    )
    chunks = _core.formats.CtfChunks(*places, 1, [[0]])
    assert chunks.sequences.offsets().tolist() == [0, 3, 5, 6]
