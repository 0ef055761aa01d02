"""Pictures by torchcodec."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sweephand.base.checks import OptionalModule

__all__ = ["picture_of"]

decoders: Any = OptionalModule("torchcodec.decoders", extra="torchcodec")

_MODES = {"RGB": "RGB", "L": "GRAY", "RGBA": "RGB_ALPHA", "I;16": "GRAY"}


def picture_of(content: bytes, mode: str) -> NDArray[Any]:
    """Return stored bytes as an array of shape (height, width, channels).

    Raises
    ------
    ValueError
        If torchcodec cannot decode them.
    """
    dtype = torch.uint16 if mode == "I;16" else torch.uint8
    try:
        picture = decoders.decode_image(content, mode=_MODES[mode], output_dtype=dtype)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{len(content)} bytes are no picture that can be decoded: {error}"
        ) from error
    if picture.ndim == 4:  # of several frames the first
        picture = picture[0]
    return np.asarray(picture.numpy().transpose(1, 2, 0))
