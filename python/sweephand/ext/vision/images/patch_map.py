"""How pictures are cut into patches: rules from height and width to grids."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Key
from sweephand.ext.vision.images.picture_map import samples_of
from sweephand.ext.vision.images.stored import (
    HEAD_BYTES,
    check_pillow,
    extent_of,
    jpeg_extent,
    picture_of,
)
from sweephand.ext.vision.images.transforms import Picture, check_filter, resized
from sweephand.extend import KnownMap, Lengths, check_int


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


_CHANNELS = 3


@dataclass(frozen=True)
class PatchLengths(Lengths):
    """Lengths of tokens, patches and grids, from headers of pictures."""

    stream: str  # whose samples are stored pictures
    rule: PatchRule
    tokens: str  # the stream of tokens, before and after
    # tokens beside placeholders of a sequence; None: those of the stream, less one for every
    # picture
    num_tokens: Callable[[Mapping[str, Any]], int] | None
    # the streams that are carried
    patches: str
    grid: str
    upright: bool  # whether the EXIF orientation is heeded

    @property
    def name(self) -> str:  # type: ignore[override]
        """All that decides the lengths, but for a function of the user."""
        return f"patches of {self.stream} beside {self.tokens} by {self.rule}, {self.upright}"

    @property
    def streams(self) -> tuple[str, ...]:  # type: ignore[override]
        """Tokens, patches and grids."""
        return self.tokens, self.patches, self.grid

    @property
    def heads(self) -> Mapping[str, int]:  # type: ignore[override]
        """Enough of most pictures."""
        return {self.stream: HEAD_BYTES}

    def of_heads(self, sequence: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the lengths, or None if a header is longer than the heads."""
        found = []
        for content in samples_of(self.stream, sequence):
            extent = jpeg_extent(_stored(content), upright=self.upright)
            if extent is None:
                return None
            found.append(extent)
        return self._lengths(sequence, found)

    def __call__(self, sequence: Mapping[str, Any]) -> dict[str, int]:
        """Return the lengths."""
        pictures = samples_of(self.stream, sequence)
        found = [
            extent_of(_stored(content), upright=self.upright, max_bytes=self.max_bytes)
            for content in pictures
        ]
        return self._lengths(sequence, found)

    def _lengths(
        self, sequence: Mapping[str, Any], pictures: Sequence[tuple[int, int]]
    ) -> dict[str, int]:
        num_patches = num_grids = 0
        for extent in pictures:
            extents = self.rule.sizes(*extent)
            num_grids += len(extents)
            num_patches += sum(height * width for height, width in extents)
        num_patches //= self.rule.patch**2
        if self.num_tokens is not None:
            num_tokens = self.num_tokens(sequence)
        else:
            num_tokens = len(samples_of(self.tokens, sequence)) - len(pictures)
        num_tokens += num_patches // self.rule.merge**2
        return {self.tokens: num_tokens, self.patches: num_patches, self.grid: num_grids}


def patches(
    stream: str,
    rule: PatchRule | None = None,
    *,
    tokens: str = "tokens",
    num_tokens: Callable[[Mapping[str, Any]], int] | None = None,
    patches: str = "patches",
    grid: str = "grid",
    upright: bool = True,
) -> PatchLengths:
    """Return the lengths that a map's streams will have, as ``size=`` of `Deserializer.map`.

    Of every picture the header is read and no pixel, so that rows, limits and balance are
    planned before anything is decoded. `patchify` has it already: this one is for maps of your
    own, and for processors of models.

    Parameters
    ----------
    stream : str
        Whose samples are stored pictures (``bytes``), none or several a sequence.
    rule : PatchRule, optional
        `NativeResolution` or `Tiles`; by default ``NativeResolution()``.
    tokens : str
        The stream of tokens that the map makes.
    num_tokens : callable, optional
        ``num_tokens(sequence)`` returns how many of them are no placeholders; pictures may be
        cut after their headers. By default the
        sequence has a stream of that name with one placeholder for every picture, which becomes
        as many as the picture has vectors.
    patches, grid : str
        Streams of patches and of the grids of pictures or tiles, which are carried.
    upright : bool
        Pictures are turned as their EXIF orientation says.

    Returns
    -------
    Lengths
        Of the three streams.

    Examples
    --------
    >>> import io, numpy as np, sweephand as sh
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (500, 375)).save(file, "JPEG")
    >>> lengths = sh.images.patches("image")
    >>> lengths({"image": [file.getvalue()], "tokens": np.array([5, 1, 6])})
    {'tokens': 236, 'patches': 936, 'grid': 1}
    """
    check_pillow()
    own = NativeResolution() if rule is None else rule
    return PatchLengths(stream, own, tokens, num_tokens, patches, grid, upright)


class PatchMap(KnownMap):
    """Replaces stored pictures by patches, and repeats their placeholders, once per vector."""

    def __init__(
        self,
        lengths: PatchLengths,
        placeholder: int,
        *,
        frames: int,
        mean: NDArray[np.float32] | None,
        std: NDArray[np.float32] | None,
        interpolation: str,
        loss_mask: str | None,
    ) -> None:
        self.name = f"patchify_{lengths.stream}"
        self.size = lengths
        self._lengths = lengths
        self._placeholder = placeholder
        self._frames = frames
        self._mean, self._std = mean, std
        self._interpolation = interpolation
        self._loss_mask = loss_mask

    def __repr__(self) -> str:
        return f"{self.name}({self._lengths.rule})"

    def declared(self, stream: str) -> Mapping[str, Any]:
        """Declare patches and grids as carried, and the mask of the loss."""
        if stream in (self._lengths.patches, self._lengths.grid):
            return {"carried": True}
        if stream == self._lengths.tokens and self._loss_mask is not None:
            return {"loss_mask": self._loss_mask}
        return {}

    def __call__(self, sequence: Mapping[str, Any], key: Key | None = None) -> dict[str, Any]:
        """Return the sequence with tokens, patches and grids."""
        names, rule = self._lengths, self._lengths.rule
        made = {name: one for name, one in sequence.items() if name != names.stream}
        pixels, grids, vectors = [], [], []
        for content in samples_of(names.stream, sequence):
            picture = picture_of(
                _stored(content), "RGB", upright=names.upright, max_bytes=self.max_bytes
            )
            parts = rule.cut(picture, self._interpolation)
            pixels += [self._patches(part) for part in parts]
            own = [(1, *(extent // rule.patch for extent in part.shape[:2])) for part in parts]
            grids += own
            vectors.append(sum(rows * columns for _, rows, columns in own) // rule.merge**2)
        width = _CHANNELS * self._frames * rule.patch**2
        none = np.zeros((0, width), np.uint8 if self._mean is None else np.float32)
        repeats = self._repeats(samples_of(names.tokens, sequence), vectors)
        made[names.tokens] = np.repeat(sequence[names.tokens], repeats)
        if self._loss_mask is not None:
            made[self._loss_mask] = np.repeat(self._mask(sequence), repeats)
        made[names.patches] = np.concatenate([none, *pixels])
        made[names.grid] = np.array(grids, np.int64).reshape(-1, 3)
        return made

    def _repeats(self, tokens: NDArray[Any], vectors: Sequence[int]) -> NDArray[np.int64]:
        """Return how often each token comes."""
        places = np.flatnonzero(tokens == self._placeholder)
        if len(places) != len(vectors):
            raise ValueError(
                f"the sequence has {len(vectors)} pictures in stream {self._lengths.stream!r} "
                f"and {len(places)} placeholders {self._placeholder} in stream "
                f"{self._lengths.tokens!r}: there is one for each picture"
            )
        repeats = np.ones(len(tokens), np.int64)
        repeats[places] = vectors
        return repeats

    def _mask(self, sequence: Mapping[str, Any]) -> NDArray[np.uint8]:
        assert self._loss_mask is not None
        tokens = sequence[self._lengths.tokens]
        known = sequence.get(self._loss_mask)
        mask = np.ones(len(tokens), np.uint8) if known is None else known.astype(np.uint8)
        return np.where(tokens == self._placeholder, np.uint8(0), mask)

    def _patches(self, picture: Picture) -> NDArray[Any]:
        """Return the patches; those that become one vector are neighbours."""
        patch, merge = self._lengths.rule.patch, self._lengths.rule.merge
        edge = self._lengths.rule.edge
        rows, columns = picture.shape[0] // edge, picture.shape[1] // edge
        cut = picture.reshape(rows, merge, patch, columns, merge, patch, _CHANNELS)
        cut = cut.transpose(0, 3, 1, 4, 6, 2, 5)[..., None, :, :]
        shape = (rows, columns, merge, merge, _CHANNELS, self._frames, patch, patch)
        whole = np.broadcast_to(cut, shape)
        flat = whole.reshape(rows * columns * merge**2, -1)
        if self._mean is None or self._std is None:
            return flat
        pixels = self._frames * patch**2
        mean, std = np.repeat(self._mean, pixels), np.repeat(self._std, pixels)
        return np.asarray((flat.astype(np.float32) / 255 - mean) / std, np.float32)


def patchify(
    stream: str,
    rule: PatchRule | None = None,
    *,
    placeholder: int,
    tokens: str = "tokens",
    patches: str = "patches",
    grid: str = "grid",
    frames: int = 1,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    interpolation: str = "bicubic",
    loss_mask: str | None = None,
    upright: bool = True,
) -> PatchMap:
    """Return a map from stored pictures and tokens to tokens, patches and grids.

    The k-th ``placeholder`` of a sequence stands for its k-th picture, and becomes as many as
    the picture has vectors. Sizes are known from headers (`patches`): pixels are decoded when a
    minibatch wants them.

    Parameters
    ----------
    stream : str
        Whose samples are stored pictures (``bytes``), none or several a sequence. It is gone
        afterwards.
    rule : PatchRule, optional
        `NativeResolution` or `Tiles`; by default ``NativeResolution()``.
    placeholder : int
        The token that stands for a picture.
    tokens : str
        The stream of tokens.
    patches : str
        The stream of patches, which is carried: samples of shape (3 * frames * patch * patch,),
        by channel, frame, row and column; those that become one vector are neighbours, then
        from left to right and from top to bottom.
    grid : str
        The stream of grids, which is carried: int64 (3,), 1 and rows and columns of patches of
        a picture, or of each of its tiles.
    frames : int
        How often a picture is repeated in each patch, for towers that read films.
    mean, std : sequence of 3 floats, optional
        Subtracted from pixels in [0, 1], and their divisor, as float32. Without them, pixels
        stay uint8.
    interpolation : {"bilinear", "bicubic", "nearest", "lanczos", "box", "hamming"}
        Filter of the resizing.
    loss_mask : str, optional
        A stream of 0 and 1 for each token, which becomes the mask of the loss of ``tokens``:
        that of the sequence if it has one, else 1, and 0 at every placeholder. To count labels,
        all pictures are decoded once when the source is made, and the counts are kept.
    upright : bool
        Turn pictures as their EXIF orientation says.

    Examples
    --------
    >>> import io, numpy as np, sweephand as sh
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (56, 84)).save(file, "PNG")
    >>> corpus = sh.ArrayDeserializer(
    ...     {
    ...         "image": [[file.getvalue()], []],
    ...         "tokens": [np.array([7, 1, 8]), np.arange(3, 9)],
    ...     },
    ...     {"image": sh.StreamDef(carried=True), "tokens": sh.StreamDef()},
    ... )
    >>> source = sh.MinibatchSource(
    ...     corpus.map(sh.images.patchify("image", placeholder=1)), randomize=False
    ... )
    >>> minibatch = source.next_minibatch(14)
    >>> minibatch["tokens"].lengths.tolist(), minibatch["patches"].values.shape
    ([8, 6], (24, 588))
    >>> minibatch["grid"].values.tolist()
    [[1, 6, 4]]
    """
    interpolation = check_filter(interpolation)  # which asks for Pillow
    if (mean is None) != (std is None):
        raise ValueError("mean and std are given both or not at all")
    own = NativeResolution() if rule is None else rule
    return PatchMap(
        PatchLengths(stream, own, tokens, None, patches, grid, upright),
        check_int("placeholder", placeholder, -(2**63), 2**63),
        frames=check_int("frames", frames, 1, 2**8),
        mean=None if mean is None else _three("mean", mean),
        std=None if std is None else _three("std", std),
        interpolation=interpolation,
        loss_mask=loss_mask,
    )


def _three(name: str, given: Sequence[float]) -> NDArray[np.float32]:
    numbers = np.asarray(given, np.float32)
    if numbers.shape != (_CHANNELS,):
        raise ValueError(
            f"{name} is a number for each of red, green and blue, got {given!r:.60}"
        )
    return numbers


def _stored(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise ValueError(f"stored pictures are bytes, got {type(content).__name__}")
    return content
