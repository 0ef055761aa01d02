"""Packers that users have today.

LightBinPack and Grain are called where they are installed (`pip install lightbinpack grain`).
The two in Python are our own writing of what TRL (best fit decreasing of 1,000 at a time) and
axolotl (first fit, not sorted) do; axolotl compiles its loop, so its own is faster.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray


def light_bin_pack(sizes: list[int], row_length: int) -> list[list[int]]:
    from lightbinpack import obfd

    return obfd(sizes, row_length)


def grain_first_fit(
    sequences: list[NDArray[np.generic]], row_length: int, open_rows: int = 64
) -> int:
    """Return the number of rows; tokens, segments and positions are made for each."""
    import grain

    rows = grain.experimental.FirstFitPackIterDataset(
        grain.MapDataset.source([{"tokens": tokens} for tokens in sequences]).to_iter_dataset(),
        length_struct={"tokens": row_length},
        num_packing_bins=open_rows,
        shuffle_bins=False,
    )
    return sum(1 for _ in rows)


def first_fit(sizes: list[int], row_length: int) -> list[list[int]]:
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


def best_fit_decreasing(
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
