"""Packers that users have today.

The two in Python are our own writing of what TRL (best fit decreasing of 1,000 at a time) and
axolotl (first fit, not sorted) do; axolotl compiles its loop, so its own is faster.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from benchmarks.suite.corpora import ROW_LENGTH, make_lengths, shuffled_lengths


def _again(pack: Callable[[list[int], int], object], count: int) -> Iterator[int]:
    sizes = shuffled_lengths(make_lengths())[:count].tolist()
    while True:
        pack(sizes, ROW_LENGTH)
        yield len(sizes)


def light_bin_pack() -> Iterator[int]:
    from lightbinpack import obfd

    return _again(obfd, 200_000)


def first_fit() -> Iterator[int]:
    return _again(_first_fit, 20_000)


def decreasing() -> Iterator[int]:
    return _again(_best_fit_decreasing, 20_000)


def _first_fit(sizes: list[int], row_length: int) -> list[list[int]]:
    rows: list[list[int]] = []
    rooms: list[int] = []
    first_open = 0
    for index, size in enumerate(sizes):
        for row in range(first_open, len(rows)):
            if rooms[row] >= size:
                break
        else:
            rows.append([])
            rooms.append(row_length)
            row = len(rows) - 1
        rows[row].append(index)
        rooms[row] -= size
        while first_open < len(rows) and rooms[first_open] == 0:
            first_open += 1
    return rows


def _best_fit_decreasing(
    sizes: list[int], row_length: int, window: int = 1000
) -> list[list[int]]:
    rows: list[list[int]] = []
    for begin in range(0, len(sizes), window):
        part = range(begin, min(begin + window, len(sizes)))
        rooms: list[tuple[int, int]] = []  # (room, row), ascending
        for index in sorted(part, key=lambda i: -sizes[i]):
            at = bisect_left(rooms, (sizes[index], -1))
            if at == len(rooms):
                room, row = row_length, len(rows)
                rows.append([])
            else:
                room, row = rooms.pop(at)
            rows[row].append(index)
            insort(rooms, (room - sizes[index], row))
    return rows
