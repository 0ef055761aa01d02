"""docs/layouts.md, section 2, in plain Python: rows that hold at most so much of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Piece:
    """A sequence by its place, its measures, and its band."""

    place: int
    measures: tuple[int, ...]
    main: int
    eighths: int


def rows_within(
    sizes: Sequence[int],
    row_length: int,
    counts: Sequence[Sequence[int]],
    limits: Sequence[int],
    look_ahead: int | None = None,
) -> list[list[int]]:
    """Return rows of places; the largest first, or in order with a look-ahead."""
    most = (row_length, *limits)
    pieces = [
        piece_of(place, own, most) for place, own in enumerate(zip(sizes, *counts, strict=True))
    ]
    waiting, rows = list(pieces), []
    while waiting:
        room, row = most, list[int]()
        in_sight = waiting[:look_ahead]
        sums = [sum(piece.measures[m] for piece in in_sight) for m in range(len(most))]
        shares = [Fraction(sums[m], most[m]) for m in range(len(most))]
        scarcest = 1 + int(np.argmax(shares[1:]))
        while True:
            in_sight = waiting[:look_ahead]
            if not row:
                found = largest(in_sight, room, most) if look_ahead is None else in_sight[0]
            else:
                found = _next(in_sight, room, most, shares, scarcest)
            if found is None:
                break
            waiting.remove(found)
            row.append(found.place)
            room = tuple(left - own for left, own in zip(room, found.measures, strict=True))
        rows.append(sorted(row) if look_ahead is None else row)
    return rows


def piece_of(place: int, measures: tuple[int, ...], most: tuple[int, ...]) -> Piece:
    """A sequence and its band."""
    parts = [Fraction(own, one) for own, one in zip(measures, most, strict=True)]
    main = parts.index(max(parts))
    others = [-(-8 * one // parts[main]) for m, one in enumerate(parts) if m != main]
    return Piece(place, measures, main, int(max(others, default=0)))


def _next(
    in_sight: list[Piece],
    room: tuple[int, ...],
    most: tuple[int, ...],
    shares: list[Fraction],
    scarcest: int,
) -> Piece | None:
    if all(left >= one // 8 for left, one in zip(room, most, strict=True)):
        filled = [Fraction(one - left, one) for left, one in zip(room, most, strict=True)]
        has_less = filled[scarcest] * shares[0] < filled[0] * shares[scarcest]
        side = [
            piece
            for piece in in_sight
            if _has_more(piece, shares[0], shares[scarcest], scarcest) == has_less
        ]
        if (found := largest(side, room, most)) is not None:
            return found
    return largest(in_sight, room, most)


def _has_more(piece: Piece, size: Fraction, load: Fraction, scarcest: int) -> bool:
    if piece.main == scarcest:
        return 8 * size > piece.eighths * load
    return piece.eighths * size > 8 * load


def largest(
    pieces: Sequence[Piece], room: tuple[int, ...], most: tuple[int, ...]
) -> Piece | None:
    """The largest offer of all bands to a row with that room."""
    bands: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        bands.setdefault((piece.main, piece.eighths), []).append(piece)
    found = [_found_in(band, *key, room, most) for key, band in bands.items()]
    return largest_of(found, most)


def largest_of(offers: Sequence[Piece | None], most: tuple[int, ...]) -> Piece | None:
    """The offer with the largest part of a row, the oldest among equals."""
    return max(
        (piece for piece in offers if piece is not None),
        key=lambda piece: (
            Fraction(piece.measures[piece.main], most[piece.main]),
            -piece.place,
        ),
        default=None,
    )


def fits(piece: Piece, room: tuple[int, ...]) -> bool:
    return all(own <= left for own, left in zip(piece.measures, room, strict=True))


def _found_in(
    band: list[Piece], main: int, eighths: int, room: tuple[int, ...], most: tuple[int, ...]
) -> Piece | None:
    def most_of(bound: int) -> Piece | None:
        fitting = [piece for piece in band if piece.measures[main] <= bound]
        return max(fitting, key=lambda one: (one.measures[main], -one.place), default=None)

    found = most_of(room[main])
    if found is None:
        return None
    if fits(found, room):
        return found
    others = [m for m in range(len(most)) if m != main]
    bounds = [8 * room[m] * most[main] // (eighths * most[m]) for m in others]
    return most_of(min(room[main], *bounds))
