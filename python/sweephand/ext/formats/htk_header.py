"""HTK's feature files (the HTK Book, "HTK Format Parameter Files").

    int32 frames | int32 period, in 100 ns | int16 bytes of a frame | int16 kind
    [compressed: float32 a[dimension] | float32 b[dimension]]
    frame | frame | ... [| uint16 checksum]

Written big-endian, or in the machine's order. A value is a float32, or, compressed, an int16
that denotes (value + b) / a; the header then counts a and b as four frames.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError

HTK_HEADER_BYTES = 12
_BASE = 0o77
_COMPRESSED = 0o2000
_CHECKSUM = 0o10000
_QUANTIZED = 0o40000  # with a codebook index after the values
_LAST_KIND = 11
_SCALE_FRAMES = 4  # the frames that a and b are counted as
_REFUSED = {
    0: "a waveform, not frames of features",
    5: "reflection coefficients as int16 (IREFC), which are not read",
    10: "indices of a codebook (DISCRETE), which are not read",
}


@dataclass(frozen=True)
class HtkHeader:
    """What the first bytes of a file state.

    Attributes
    ----------
    order : {">", "<"}
        Of the bytes of a number.
    num_frames, period, frame_bytes, kind : int
        The period in 100 ns.
    """

    order: str
    num_frames: int
    period: int
    frame_bytes: int
    kind: int

    @property
    def is_compressed(self) -> bool:
        """True if values are int16."""
        return bool(self.kind & _COMPRESSED)

    @property
    def dimension(self) -> int:
        """Values in a frame."""
        return self.frame_bytes // (2 if self.is_compressed else 4)

    @property
    def begin(self) -> int:
        """Where the first frame begins."""
        return HTK_HEADER_BYTES + (8 * self.dimension if self.is_compressed else 0)

    def decode(
        self, frames: NDArray[np.uint8], scale: NDArray[np.uint8]
    ) -> NDArray[np.float32]:
        """Return stored frames, shape (frames, dimension); `scale` is a and b as stored."""
        shape = -1, self.dimension
        if not self.is_compressed:
            return frames.view(f"{self.order}f4").astype(np.float32).reshape(shape)
        a, b = scale.view(f"{self.order}f4").astype(np.float32).reshape(2, -1)
        values = frames.view(f"{self.order}i2").astype(np.float32).reshape(shape)
        with np.errstate(all="ignore"):  # a scale of zero, too, is the file's
            values += b
            values /= a
        return values


def parse_header(head: bytes, file_bytes: int) -> HtkHeader:
    """Return the header of a file of `file_bytes`, whose size also decides its byte order.

    Raises
    ------
    DataError
        If header and size do not match in either order, or the file holds no frames of floats.
    """
    if len(head) < HTK_HEADER_BYTES:
        raise DataError("the file ends within its header of 12 bytes", offset=0)
    sizes = []
    for order in "><":
        frames, period, frame_bytes, kind = struct.unpack_from(f"{order}IIHH", head)
        size = HTK_HEADER_BYTES + frames * frame_bytes + (2 if kind & _CHECKSUM else 0)
        if size == file_bytes:
            break
        sizes.append(f"{frames} frames of {frame_bytes} bytes, which are {size} with it")
    else:
        raise DataError(f"the header tells of {sizes[0]}; the file has {file_bytes}", offset=0)
    if reason := _refusal(kind, frame_bytes):
        raise DataError(f"the file holds {reason}", offset=10)
    if kind & _COMPRESSED:
        if frames < _SCALE_FRAMES:
            raise DataError("the file ends within the scale of its compressed values", offset=0)
        frames -= _SCALE_FRAMES
    return HtkHeader(order, frames, period, frame_bytes, kind)


def _refusal(kind: int, frame_bytes: int) -> str:
    """Return the reason to refuse a kind, as its values are no floats; "" if it is served."""
    base = kind & _BASE
    if base in _REFUSED:
        return _REFUSED[base]
    if base > _LAST_KIND:
        return "frames of a kind that HTK does not define"
    if kind & _QUANTIZED:
        return "indices of a codebook behind the values (_V), which are not read"
    if frame_bytes == 0:
        return "frames without values"
    if frame_bytes % (2 if kind & _COMPRESSED else 4):
        return "frames that are no whole number of values"
    return ""
