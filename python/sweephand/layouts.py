"""Layouts: how a minibatch is composed and laid out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

PadValue = float | Mapping[str, float]


@dataclass(frozen=True)
class Layout:
    """How a minibatch is composed and laid out."""

    def describe(self) -> str:
        """Return the layout and its parameters, for fingerprints."""
        return repr(self)

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse parameters for streams that are not there, with ValueError."""

    def pad_value_of(self, stream: str) -> float:
        """Return what fills the gaps of a stream in a dense array."""
        return 0


@dataclass(frozen=True)
class Ragged(Layout):
    """Sequences one behind the other: values and offsets, no padding. The default."""


@dataclass(frozen=True)
class Frames(Layout):
    """Every sample is its own sequence. Streams must have equal lengths."""


@dataclass(frozen=True)
class Padded(Layout):
    """A row per sequence, as wide as the minibatch's longest, with a mask.

    Parameters
    ----------
    pad_value : number, or dict of numbers
        What fills the gaps; a dict gives it per stream, 0 for those that it does not name.
    side : {"right", "left"}
        Where padding stands.
    multiple_of : int
        Widths are rounded up to a multiple of it.
    """

    pad_value: PadValue = 0
    side: Literal["right", "left"] = "right"
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if self.side not in ("right", "left"):
            raise ValueError(f"side must be 'right' or 'left', got {self.side!r}")
        if isinstance(self.multiple_of, bool) or not isinstance(self.multiple_of, int):
            raise TypeError(f"multiple_of must be an int, got {self.multiple_of!r}")
        if not 1 <= self.multiple_of < 2**31:
            raise ValueError(f"multiple_of must be in [1, 2^31), got {self.multiple_of}")

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse parameters for streams that are not there, with ValueError."""
        if isinstance(self.pad_value, Mapping):
            for name in self.pad_value:
                if name not in streams:
                    raise ValueError(
                        f"pad_value names {name!r}, the streams are: {', '.join(streams)}"
                    )

    def pad_value_of(self, stream: str) -> float:
        """Return what fills the gaps of a stream in a dense array."""
        if isinstance(self.pad_value, Mapping):
            return self.pad_value.get(stream, 0)
        return self.pad_value


def pad_element(stream: str, dtype: np.dtype[Any], value: float) -> NDArray[Any]:
    """Return what fills a gap as an element of a stream: an array of shape () and its dtype.

    0 is an element whose bytes are 0, whatever the dtype.

    Raises
    ------
    ValueError
        If the dtype cannot hold the value.
    """
    if value == 0:
        return np.zeros((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            pad = np.asarray(value).astype(dtype)
    except (TypeError, ValueError, OverflowError, FloatingPointError):
        pad = None
    if pad is None or (dtype.kind in "biu" and int(pad) != value):
        raise ValueError(f"pad_value {value!r} of stream {stream!r} is no {dtype}")
    return pad
