"""Values that fill the gaps of a dense array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.streams import StreamInfo, name_of
from sweephand.layouts.base import Layout

PadValue = float | Mapping[str, float] | Mapping[StreamInfo, float]


class GapLayout(Layout):
    """A layout whose dense arrays have gaps, which it fills."""

    pad_value: PadValue

    def __post_init__(self) -> None:
        values = self.pad_value
        if isinstance(values, Mapping) and any(isinstance(key, StreamInfo) for key in values):
            named = {name_of(stream): value for stream, value in values.items()}
            object.__setattr__(self, "pad_value", named)

    def check_streams(self, streams: Collection[str]) -> None:
        """Refuse pad values of streams that are not there, with ValueError."""
        if isinstance(self.pad_value, Mapping):
            for name in self.pad_value:
                if name not in streams:
                    raise ValueError(
                        f"pad_value names {name!r}, the streams are: {', '.join(streams)}"
                    )

    def pad_value_of(self, stream: str) -> float:
        """Return the value that fills the gaps of a stream; 0 if it is not named."""
        if isinstance(self.pad_value, Mapping):
            named: Mapping[Any, float] = self.pad_value
            return named.get(stream, 0)
        return self.pad_value


def pad_element(stream: str, dtype: np.dtype[Any], value: float) -> NDArray[Any]:
    """Return the value for gaps as an element of a stream: an array of shape () and its dtype.

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


def padding_of(layout: Layout, info: StreamInfo) -> bytes:
    """Return the element of a stream that a layout fills gaps with, as bytes."""
    pad_value = 0 if info.is_bytes else layout.pad_value_of(info.name)
    return pad_element(info.name, info.stored_dtype, pad_value).tobytes()
