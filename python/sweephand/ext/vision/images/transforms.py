"""Steps on one picture: an array of shape (height, width, channels) in, another one out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sweephand.extend import OptionalModule, check_function, check_int

Picture = NDArray[Any]
"""One picture, of shape (height, width, channels), by default uint8."""


class Transform(ABC):
    """A step that changes a picture; subclass it for steps of your own.

    A random one sets ``is_random = True`` and draws from the generator that it is given, which
    comes from the `Key` of the sequence: never from one that it holds.

    Attributes
    ----------
    is_random : bool

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> class Invert(sh.images.Transform):
    ...     def __call__(self, picture, draw):
    ...         return 255 - picture
    >>> Invert()(np.zeros((1, 1, 3), np.uint8), None).tolist()
    [[[255, 255, 255]]]
    """

    is_random: bool = False

    @abstractmethod
    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Return the changed picture; the given one must stay as it is.

        Parameters
        ----------
        picture : ndarray, shape (height, width, channels)
        draw : numpy.random.Generator
            None where no step is random.
        """

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"


class Compose(Transform):
    """Several steps in order.

    Parameters
    ----------
    transforms : sequence of Transform or callable
        A function takes the picture alone, as an array that lies close together.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> steps = sh.images.Compose([sh.images.CenterCrop(2), np.flipud])
    >>> steps(np.zeros((6, 8, 3), np.uint8), None).shape
    (2, 2, 3)
    """

    def __init__(self, transforms: Sequence[Transform | Callable[[Picture], Picture]]) -> None:
        for one in transforms:
            check_function("every one of transforms", one)
        self.transforms = tuple(transforms)
        self.is_random = any(isinstance(one, Transform) and one.is_random for one in transforms)

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Apply all."""
        for one in self.transforms:
            if isinstance(one, Transform):
                picture = one(picture, draw)
            else:
                picture = one(np.ascontiguousarray(picture))
        return picture

    def __repr__(self) -> str:
        return f"Compose({list(self.transforms)!r})"


class RandomHorizontalFlip(Transform):
    """Mirror the picture from left to right, with probability `p`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> flip = sh.images.RandomHorizontalFlip(p=1.0)
    >>> flip(np.arange(3)[None, :, None], np.random.default_rng(0)).ravel()
    array([2, 1, 0])
    """

    is_random = True
    _mirror: tuple[slice, ...] = (slice(None), slice(None, None, -1))

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is a probability, got {p!r}")
        self.p = p

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Flip it, or not."""
        return picture[self._mirror] if draw.random() < self.p else picture


class RandomVerticalFlip(RandomHorizontalFlip):
    """Turn the picture upside down, with probability `p`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> flip = sh.images.RandomVerticalFlip(p=1.0)
    >>> flip(np.arange(3)[:, None, None], np.random.default_rng(0)).ravel()
    array([2, 1, 0])
    """

    _mirror = (slice(None, None, -1),)


class ToDtype(Transform):
    """Change the type of the numbers; integers become fractions of their largest value.

    Parameters
    ----------
    dtype : dtype-like
        Such as "float32".
    scale : bool
        Divide integers by the largest that their type holds: 255 of uint8, 65535 of uint16.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> sh.images.ToDtype()(np.array([[[0, 51, 255]]], np.uint8), None)
    array([[[0. , 0.2, 1. ]]], dtype=float32)
    """

    def __init__(self, dtype: DTypeLike = "float32", scale: bool = True) -> None:
        self.dtype = np.dtype(dtype)
        self.scale = scale
        if scale and self.dtype.kind != "f":
            raise ValueError(f"fractions need a float type, got {self.dtype}: or scale=False")

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Convert it."""
        if self.scale and picture.dtype.kind in "iu":
            most = np.asarray(np.iinfo(picture.dtype).max, self.dtype)
            return np.asarray(np.divide(picture, most, dtype=self.dtype))
        return picture.astype(self.dtype, copy=False)


class Normalize(Transform):
    """Subtract a mean from every channel, and divide by a deviation.

    Parameters
    ----------
    mean, std : float or sequence of float
        One for all channels, or one for each.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> sh.images.Normalize(0.5, 0.25)(np.array([[[0.5, 1]]], np.float32), None)
    array([[[0., 2.]]], dtype=float32)
    """

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        self.mean = np.asarray(mean, np.float32)
        self.std = np.asarray(std, np.float32)
        if not self.std.all():
            raise ValueError("std must not be 0")

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Normalise it."""
        if picture.dtype.kind != "f":
            raise ValueError(
                f"Normalize is of floats, and the picture is {picture.dtype}: put "
                "ToDtype('float32') before it"
            )
        moved: Picture = picture - self.mean.astype(picture.dtype)
        moved /= self.std.astype(picture.dtype)
        return moved


Image: Any = OptionalModule("PIL.Image", extra="image")

_FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")
# Four channels as if none were alpha: every one by itself.
_MODES = {3: "RGB", 4: "CMYK"}
FloatBox = tuple[float, float, float, float]


def check_filter(name: str) -> str:
    """Return the name of a filter; without Pillow the error names the package to install."""
    Image()
    if name not in _FILTERS:
        raise ValueError(f"interpolation is one of {', '.join(_FILTERS)}, got {name!r:.40}")
    return name


def resized(
    picture: Picture, size: tuple[int, int], interpolation: str, box: FloatBox | None = None
) -> Picture:
    """Return a picture, or a part of it, in another size."""
    if picture.shape[:2] == size and box is None:
        return picture
    if picture.dtype not in (np.uint8, np.float32):
        raise ValueError(
            f"pictures of uint8 or float32 are resized, got {picture.dtype}: put ToDtype before"
        )
    how = getattr(Image.Resampling, interpolation.upper())
    part = None if box is None else (box[1], box[0], box[3], box[2])
    mode = _MODES.get(picture.shape[2]) if picture.dtype == np.uint8 else None
    if mode is not None:
        whole = np.ascontiguousarray(picture)
        image = Image.frombuffer(mode, picture.shape[1::-1], whole, "raw", mode, 0, 1)
        return np.asarray(image.resize(size[::-1], how, part))
    planes = [
        Image.fromarray(np.ascontiguousarray(plane)).resize(size[::-1], how, part)
        for plane in picture.transpose(2, 0, 1)
    ]
    return np.stack(planes, axis=-1)


_TRIES = 10  # for a box of a wanted shape, as torchvision has them

Size = int | Sequence[int]
"""Height and width; one number: both."""

Box = tuple[int, int, int, int]
"""Top, left, height and width of a part of a picture."""

Extent = tuple[int, int]
"""Height and width."""


def check_size(name: str, size: Size) -> tuple[int, int]:
    """Return height and width.

    TypeError or ValueError if it is neither a number nor two, or one is below 1.
    """
    both = (size, size) if isinstance(size, int) else tuple(size)
    if len(both) != 2:
        raise ValueError(f"{name} is (height, width) or one number for both, got {size!r:.60}")
    height, width = (check_int(name, extent, 1, 2**31) for extent in both)
    return height, width


class PartOfOneSize(Transform):
    """A step that brings a part of the picture to a size."""

    interpolation: str

    @abstractmethod
    def part(self, height: int, width: int, draw: np.random.Generator) -> tuple[Box, Extent]:
        """Return the crop of a picture of this height and width, and its new size."""

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Cut it out and resize it."""
        (top, left, height, width), size = self.part(picture.shape[0], picture.shape[1], draw)
        part = picture[top : top + height, left : left + width]
        return resized(part, size, self.interpolation)


class Resize(PartOfOneSize):
    """Make the picture larger or smaller, with Pillow's filters.

    Parameters
    ----------
    size : int or (int, int)
        Of the shorter edge, the other one in proportion; or height and width.
    interpolation : {"bilinear", "bicubic", "nearest", "lanczos", "box", "hamming"}
        All but "nearest" see every pixel (antialiasing), as torchvision's of PIL images do.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> sh.images.Resize(3)(np.zeros((6, 8, 3), np.uint8), None).shape
    (3, 4, 3)
    """

    def __init__(self, size: Size, interpolation: str = "bilinear") -> None:
        self.size: int | tuple[int, int] = (
            check_size("size", size)[0] if isinstance(size, int) else check_size("size", size)
        )
        self.interpolation = check_filter(interpolation)

    def part(self, height: int, width: int, draw: np.random.Generator) -> tuple[Box, Extent]:
        """Return all of it, and its size."""
        return (0, 0, height, width), self._target(height, width)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size
        if height <= width:
            return self.size, int(self.size * width / height)
        return int(self.size * height / width), self.size


class CenterCrop(Transform):
    """Cut out the middle; a smaller picture is padded with zeros.

    Parameters
    ----------
    size : int or (int, int)
        Height and width.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> sh.images.CenterCrop(1)(np.arange(9).reshape(3, 3, 1), None).ravel()
    array([4])
    """

    def __init__(self, size: Size) -> None:
        self.size = check_size("size", size)

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Crop it."""
        height, width = self.size
        lacks = [
            max(0, want - own) for want, own in zip(self.size, picture.shape, strict=False)
        ]
        if any(lacks):
            pads = [(lack // 2, (lack + 1) // 2) for lack in lacks]
            picture = np.pad(picture, [*pads, (0, 0)])
        top = round((picture.shape[0] - height) / 2)
        left = round((picture.shape[1] - width) / 2)
        return picture[top : top + height, left : left + width]


class RandomCrop(Transform):
    """Cut out a part at a random place.

    Parameters
    ----------
    size : int or (int, int)
        Height and width.
    padding : int
        Pixels that are put around the picture before.
    fill : float
        What they hold.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> crop = sh.images.RandomCrop((4, 5), padding=1)
    >>> crop(np.zeros((6, 8, 3), np.uint8), np.random.default_rng(0)).shape
    (4, 5, 3)
    """

    is_random = True

    def __init__(self, size: Size, padding: int = 0, fill: float = 0) -> None:
        self.size = check_size("size", size)
        self.padding = check_int("padding", padding, 0, 2**31)
        self.fill = fill

    def __call__(self, picture: Picture, draw: np.random.Generator) -> Picture:
        """Crop it."""
        height, width = self.size
        if self.padding:
            pads = [(self.padding, self.padding)] * 2
            picture = np.pad(picture, [*pads, (0, 0)], constant_values=self.fill)
        own = picture.shape
        if own[0] < height or own[1] < width:
            raise ValueError(
                f"a picture of {own[0]} x {own[1]} pixels is too small for a crop of {height} "
                f"x {width}: put Resize before it, or give a padding"
            )
        top = int(draw.integers(own[0] - height + 1))
        left = int(draw.integers(own[1] - width + 1))
        return picture[top : top + height, left : left + width]


class RandomResizedCrop(PartOfOneSize):
    """Cut out a part of random area and proportion, and bring it to one size.

    Parameters
    ----------
    size : int or (int, int)
        Height and width of what comes.
    scale : (float, float)
        Least and most of the area.
    ratio : (float, float)
        Least and most of width / height.
    interpolation : str
        As in `Resize`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> crop = sh.images.RandomResizedCrop(5)
    >>> crop(np.zeros((6, 8, 3), np.uint8), np.random.default_rng(0)).shape
    (5, 5, 3)
    """

    is_random = True

    def __init__(
        self,
        size: Size,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ) -> None:
        self.size = check_size("size", size)
        self.scale = _range("scale", scale)
        self.ratio = _range("ratio", ratio)
        self.interpolation = check_filter(interpolation)

    def part(self, height: int, width: int, draw: np.random.Generator) -> tuple[Box, Extent]:
        """Return a random part, and the size."""
        return self._box(height, width, draw), self.size

    def _box(self, height: int, width: int, draw: np.random.Generator) -> Box:
        lowest, highest = (math.log(one) for one in self.ratio)
        for _ in range(_TRIES):
            area = height * width * draw.uniform(*self.scale)
            ratio = math.exp(draw.uniform(lowest, highest))
            wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < high <= height:
                top = int(draw.integers(height - high + 1))
                return top, int(draw.integers(width - wide + 1)), high, wide
        # The middle, in the proportion that is nearest.
        wide, high = width, height
        if width / height < self.ratio[0]:
            high = min(height, round(width / self.ratio[0]))
        elif width / height > self.ratio[1]:
            wide = min(width, round(height * self.ratio[1]))
        return (height - high) // 2, (width - wide) // 2, high, wide


def _range(name: str, given: tuple[float, float]) -> tuple[float, float]:
    least, most = given
    if not 0 < least <= most:
        raise ValueError(f"{name} is (least, most), above 0, got {given!r:.60}")
    return float(least), float(most)
