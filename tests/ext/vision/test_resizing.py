"""Pictures are resized by Pillow, wherever their pixels are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sweephand.ext.vision.images.transforms import resized

Image: Any = pytest.importorskip("PIL.Image")

FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")


def pixels(seed: int, extent: tuple[int, int], channels: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*extent, channels), np.uint8)


def views(picture: np.ndarray) -> dict[str, Any]:
    wide = np.zeros((*picture.shape[:2], 4), np.uint8)
    wide[..., :3] = picture
    return {
        "three bytes": picture,
        "four bytes": wide[..., :3],
        "mirrored": wide[:, ::-1, :3],
        "upside down": picture[::-1],
        "turned": picture.transpose(1, 0, 2),
        "channels turned": picture[..., ::-1],
        "a part": wide[3:17, 2:11, :3],
        "planes": np.ascontiguousarray(picture.transpose(2, 0, 1)).transpose(1, 2, 0),
        "one row again and again": np.broadcast_to(picture[:1], picture.shape),
    }


@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("name", views(pixels(0, (20, 21), 3)))
def test_it_does_not_matter_where_pixels_are(name: str, how: str) -> None:
    picture = views(pixels(2, (20, 21), 3))[name]
    wanted = Image.fromarray(np.ascontiguousarray(picture)).resize(
        (9, 13), Image.Resampling[how.upper()]
    )
    assert np.array_equal(resized(picture, (13, 9), how), wanted)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_every_channel_is_resized_by_itself(channels: int, dtype: str) -> None:
    picture = pixels(3, (20, 30), channels).astype(dtype)
    for box in (None, (1.5, 2.0, 17.25, 30.0)):
        found = resized(picture, (7, 40), "bicubic", box)
        assert (found.shape, found.dtype) == ((7, 40, channels), picture.dtype)
        for channel in range(channels):
            alone = resized(picture[..., channel : channel + 1], (7, 40), "bicubic", box)
            assert np.array_equal(found[..., channel], alone[..., 0])
