"""Steps on one picture: an array of shape (height, width, channels) in, another one out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sweephand.extend import check_function

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

    Raises
    ------
    TypeError
        If one cannot be called.

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

    Raises
    ------
    ValueError
        If a deviation is 0; when it is called, if the picture has integers.

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
