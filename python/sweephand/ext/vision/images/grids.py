"""How pictures are cut into patches: rules from height and width to grids."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

from sweephand.ext.vision.images.crops import resized
from sweephand.ext.vision.images.steps import Picture
from sweephand.extend import check_int


@dataclass(frozen=True)
class PatchRule(ABC):
    """A rule by which pictures become patches, and placeholders between tokens.

    Attributes
    ----------
    patch : int
        Pixels of a patch's edge.
    merge : int
        Patches of the edge of the square that becomes one vector: there is a placeholder for
        every merge * merge patches.

    Examples
    --------
    A rule of one's own: every picture becomes a square of 4 * 4 vectors.

    >>> import sweephand as sh
    >>> class Square(sh.images.PatchRule):
    ...     def sizes(self, height, width):
    ...         return [(4 * self.edge, 4 * self.edge)]
    >>> Square(patch=16).num_placeholders(375, 500)
    16
    """

    patch: int = 14
    merge: int = 2

    def __post_init__(self) -> None:
        for name in ("patch", "merge"):
            object.__setattr__(self, name, check_int(name, getattr(self, name), 1, 2**16))

    @property
    def edge(self) -> int:
        """Edge of the square that becomes one vector, in pixels."""
        return self.patch * self.merge

    @abstractmethod
    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Return height and width of each picture that is cut into patches, of whole edges."""

    def cut(self, picture: Picture, interpolation: str) -> list[Picture]:
        """Return these pictures: the whole picture in each size."""
        return [
            resized(picture, size, interpolation) for size in self.sizes(*picture.shape[:2])
        ]

    def num_patches(self, height: int, width: int) -> int:
        """Return how many patches a picture of a height and width becomes."""
        return sum(h * w for h, w in self.sizes(height, width)) // self.patch**2

    def num_placeholders(self, height: int, width: int) -> int:
        """Return how many vectors it becomes."""
        return self.num_patches(height, width) // self.merge**2


@dataclass(frozen=True)
class NativeResolution(PatchRule):
    """Pictures keep their resolution and nearly their proportions, as Qwen2-VL has them.

    Both edges are rounded to multiples of ``patch * merge``, and the area is brought between
    two limits.

    Parameters
    ----------
    patch : int
        Pixels of a patch's edge.
    merge : int
        Patches of the edge of the square that becomes one vector.
    min_pixels, max_pixels : int
        Limits of the area.

    Raises
    ------
    ValueError
        If a number is invalid, or the limits hold no picture.

    Examples
    --------
    >>> import sweephand as sh
    >>> rule = sh.images.NativeResolution()
    >>> rule.sizes(375, 500), rule.num_placeholders(375, 500)
    ([(364, 504)], 234)
    """

    min_pixels: int = 56 * 56
    max_pixels: int = 14 * 14 * 4 * 1280

    def __post_init__(self) -> None:
        super().__post_init__()
        least = check_int("min_pixels", self.min_pixels, 1, 2**40)
        most = check_int("max_pixels", self.max_pixels, self.edge**2, 2**40)
        if least > most:
            raise ValueError(f"min_pixels is {least}, above max_pixels, which is {most}")

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Return the one size; ValueError if an edge is 200 times the other."""
        return [_within(height, width, self.edge, self.min_pixels, self.max_pixels)]


_MOST_RATIO = 200  # of the edges, as Qwen2-VL has it


@lru_cache(maxsize=1 << 12)  # pictures of one camera are of one size
def _within(height: int, width: int, edge: int, least: int, most: int) -> tuple[int, int]:
    if max(height, width) > _MOST_RATIO * min(height, width):
        raise ValueError(
            f"a picture of {height} x {width} pixels has an edge more than {_MOST_RATIO} times "
            "the other"
        )
    high, wide = (max(edge, round(one / edge) * edge) for one in (height, width))
    if high * wide > most:
        ratio = math.sqrt(height * width / most)
        high, wide = (
            max(edge, math.floor(one / ratio / edge) * edge) for one in (height, width)
        )
    elif high * wide < least:
        ratio = math.sqrt(least / (height * width))
        high, wide = (math.ceil(one * ratio / edge) * edge for one in (height, width))
    return high, wide


@dataclass(frozen=True)
class Tiles(PatchRule):
    """Pictures are cut into square tiles, in the grid nearest to their proportions.

    That is InternVL's way, and with ``most=1``, ``size=336`` and ``merge=1`` that of LLaVA.

    Parameters
    ----------
    patch, merge : int
        As in `NativeResolution`.
    size : int
        Pixels of a tile's edge, a multiple of ``patch * merge``.
    most : int
        Tiles of a picture.
    thumbnail : bool
        The whole picture as one tile more, last, where there are several.

    Raises
    ------
    ValueError
        If a number is invalid, or the size is no such multiple.

    Examples
    --------
    >>> import sweephand as sh
    >>> rule = sh.images.Tiles(size=448, most=6)
    >>> rule.grid(300, 900), rule.num_placeholders(300, 900)
    ((1, 3), 1024)
    """

    size: int = 448
    most: int = 12
    thumbnail: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("most", self.most, 1, 2**10)
        if check_int("size", self.size, 1, 2**16) % self.edge:
            raise ValueError(
                f"size must be a multiple of patch * merge = {self.edge}, got {self.size}"
            )

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Return rows and columns of the tiles of a picture."""
        return _nearest_grid(height, width, self.most, self.size)

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Return the size of every tile."""
        rows, columns = self.grid(height, width)
        count = rows * columns
        return [(self.size, self.size)] * (count + (self.thumbnail and count > 1))

    def cut(self, picture: Picture, interpolation: str) -> list[Picture]:
        """Return the tiles row by row, and the thumbnail."""
        rows, columns = self.grid(*picture.shape[:2])
        edge = self.size
        whole = resized(picture, (rows * edge, columns * edge), interpolation)
        tiles = [
            whole[row * edge : (row + 1) * edge, column * edge : (column + 1) * edge]
            for row in range(rows)
            for column in range(columns)
        ]
        if self.thumbnail and len(tiles) > 1:
            tiles.append(resized(picture, (edge, edge), interpolation))
        return tiles


@lru_cache(maxsize=1 << 12)
def _nearest_grid(height: int, width: int, most: int, size: int) -> tuple[int, int]:
    """Return the grid of the nearest proportions; in a tie the larger if it is filled."""
    wanted = width / height
    best, least = (1, 1), math.inf
    grids = [(r, c) for r in range(1, most + 1) for c in range(1, most // r + 1)]
    for rows, columns in sorted(grids, key=lambda one: (one[0] * one[1], one[1])):
        distance = abs(wanted - columns / rows)
        is_filled = height * width > size * size * rows * columns / 2
        if distance < least or (distance == least and is_filled):
            best, least = (rows, columns), distance
    return best
