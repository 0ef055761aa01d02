"""Decoders of stored images and sounds: the user's own, or Pillow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.tfds.features import Feature
from sweephand.extend import open_picture

Decoder = Callable[[bytes], NDArray[Any]]
Decoders = Mapping[str, Decoder | Literal[True]]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def decode_feature(
    feature: Feature, decoder: Decoder | Literal[True], given: tuple[int, ...] | None
) -> Feature:
    """Return a feature of stored bytes as the tensor that ``features.json`` declares."""
    name = feature.name
    if feature.decoded is None:
        raise ValueError(
            f"the feature {name!r} cannot have a decoder: features.json does not say which "
            "array its bytes become"
        )
    dtype, shape = feature.decoded
    if feature.is_ragged:
        raise ValueError(f"the feature {name!r} is a sequence; it is only read as bytes")
    if given is None and -1 in shape:
        raise ValueError(
            f"the feature {name!r} has the shape {shape}, of which some is unknown (-1); to "
            f"decode it, declare its stream with the shape that all examples have, such as "
            f"StreamDef(field={name!r}, shape=(32, 32, 3))"
        )
    if given is not None:
        agree = [extent in (-1, own) for extent, own in zip(shape, given, strict=False)]
        if len(shape) != len(given) or not all(agree):
            raise ValueError(
                f"the feature {name!r} has the shape {shape}, its stream is declared as {given}"
            )
        shape = given
    if decoder is True:
        decoder = PillowDecoder.of(name, dtype, shape)
    elif not callable(decoder):
        raise TypeError(f"the decoder of {name!r} must be a callable or True, got {decoder!r}")
    return replace(feature, dtype=dtype, shape=shape, decoder=decoder)


@dataclass(frozen=True)
class PillowDecoder:
    """Decodes images of 8 bits a channel."""

    shape: tuple[int, ...]  # height, width and channels

    @classmethod
    def of(cls, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> PillowDecoder:
        """Return the decoder of a feature; an error if Pillow has no such images."""
        if dtype != np.uint8 or len(shape) != 3 or shape[2] not in _MODES:
            raise ValueError(
                f"Pillow decodes uint8 images of 1, 3 or 4 channels, but the feature {name!r} "
                f"has {dtype} of shape {shape}; give a callable"
            )
        try:
            import PIL.Image  # noqa: F401
        except ImportError:
            raise ImportError(
                f"the decoder of {name!r} needs Pillow: pip install 'sweephand[image]'"
            ) from None
        return cls(shape)

    def __call__(self, content: bytes) -> NDArray[np.uint8]:
        """Return the pixels; an image of another size is refused before it is unpacked."""
        height, width, channels = self.shape
        with open_picture(content) as image:
            if image.size != (width, height):
                raise ValueError(
                    f"the image is {image.height} high and {image.width} wide, not {height} "
                    f"and {width}"
                )
            if image.mode[0] in "IF":
                raise ValueError(f"the image has more than 8 bits a channel ({image.mode})")
            return np.asarray(image.convert(_MODES[channels])).reshape(self.shape)
