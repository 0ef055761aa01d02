"""Pictures are resized by the core to the bits of Pillow."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand import _core
from sweephand.ext.vision.images.resizing import _by_pillow, resized, resized_part

PIL = pytest.importorskip("PIL")
Image = pytest.importorskip("PIL.Image")

FILTERS = ("bilinear", "bicubic", "box")
IS_OLD = int(PIL.__version__.partition(".")[0]) < 13  # which always begins with rows
extents = st.tuples(st.integers(1, 40), st.integers(1, 40))


def goes_down_first(own: tuple[int, ...], size: tuple[int, int]) -> bool:
    lost = [max(0, a - b) for a, b in zip(own, size, strict=False)]
    return lost[0] > 2 * lost[1]


def pixels(seed: int, extent: tuple[int, int], channels: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (*extent, channels), np.uint8)
    return made if seed % 3 else (made > 127).astype(np.uint8) * 255


@given(st.integers(0, 99), extents, extents, st.integers(1, 4), st.sampled_from(FILTERS))
def test_resizing_has_the_bits_of_pillow(
    seed: int, own: tuple[int, int], size: tuple[int, int], channels: int, how: str
) -> None:
    picture = pixels(seed, own, channels)
    if own == size or (IS_OLD and goes_down_first(own, size)):
        return
    assert np.array_equal(resized(picture, size, how), _by_pillow(picture, size, how))


@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("size", [(3, 700), (700, 3), (1, 1), (299, 301), (300, 7), (7, 400)])
def test_large_pictures_are_those_of_pillow(how: str, size: tuple[int, int]) -> None:
    picture = pixels(1, (300, 400), 3)
    if IS_OLD and goes_down_first(picture.shape, size):
        return
    assert np.array_equal(resized(picture, size, how), _by_pillow(picture, size, how))


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
    close = np.ascontiguousarray(picture)
    assert np.array_equal(resized(picture, (13, 9), how), resized(close, (13, 9), how))


@pytest.mark.parametrize("how", [*FILTERS, "lanczos"])
@pytest.mark.parametrize(
    "box", [(0.5, 1.25, 30, 40), (3.75, 0, 9.5, 8.125), (0, 0, 31, 41), (30, 40, 31, 41)]
)
def test_a_part_may_begin_within_a_pixel(how: str, box: tuple[float, ...]) -> None:
    picture = pixels(4, (31, 41), 3)
    top, left, bottom, right = box
    image = Image.fromarray(picture)
    wanted = image.resize((12, 14), Image.Resampling[how.upper()], (left, top, right, bottom))
    if IS_OLD:
        return
    assert np.array_equal(
        resized_part(picture, (top, left, bottom, right), (14, 12), how), wanted
    )


def test_the_bits_are_the_same_on_every_machine() -> None:
    numbers = np.arange(97 * 131 * 3, dtype=np.uint32) * 2654435761 >> 24
    picture = numbers.astype(np.uint8).reshape(97, 131, 3)
    digest = blake2b(digest_size=8)
    for how in FILTERS:
        for size in ((50, 61), (120, 31), (31, 120), (200, 300), (97, 64), (64, 131)):
            digest.update(np.ascontiguousarray(resized(picture, size, how)).tobytes())
    assert digest.hexdigest() == "ca7b0d67fe0d95ff"


@pytest.mark.parametrize(
    ("picture", "box", "size", "room"),
    [
        (np.zeros((4, 4), np.uint8), (0, 0, 4, 4), (2, 2), 16),
        (np.zeros((4, 4, 5), np.uint8), (0, 0, 4, 4), (2, 2), 16),
        (np.zeros((4, 4, 3), np.uint16), (0, 0, 4, 4), (2, 2), 16),
        (np.zeros((4, 4, 3), np.uint8), (0, 0, 4, 4), (2, 2), 15),
        (np.zeros((4, 4, 3), np.uint8), (0, 0, 4, 4), (0, 2), 16),
        (np.zeros((4, 4, 3), np.uint8), (0, 0, 4, 4), (2**62, 4), 16),
        (np.zeros((4, 4, 3), np.uint8), (0, 0, 4.5, 4), (2, 2), 16),
        (np.zeros((4, 4, 3), np.uint8), (-1, 0, 4, 4), (2, 2), 16),
        (np.zeros((4, 4, 3), np.uint8), (2, 0, 2, 4), (2, 2), 16),
        (np.zeros((4, 4, 3), np.uint8), (float("nan"), 0, 4, 4), (2, 2), 16),
        (np.zeros((4, 0, 3), np.uint8), (0, 0, 4, 0), (2, 2), 16),
    ],
)
def test_nothing_is_read_or_written_beyond(
    picture: Any, box: tuple[float, ...], size: tuple[int, int], room: int
) -> None:
    with pytest.raises(ValueError, match=r"picture"):
        _core.base.resize(
            picture,
            box,
            _core.base.Filter.bilinear,
            size,
            np.zeros(room, np.uint8),
        )
