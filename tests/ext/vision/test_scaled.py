"""JPEGs that are decoded at a part of their size are nearly what the whole gives."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.ext.vision.images.stored import SCALES, plain_frame, scaled_picture_of

Image = pytest.importorskip("PIL.Image")

ROTATED = 6
PIXELS = np.random.default_rng(7).integers(0, 256, (75, 101, 3), np.uint8)


def stored(pixels: np.ndarray = PIXELS, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def exif(orientation: int) -> Any:
    found = Image.Exif()
    found[0x0112] = orientation
    return found


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "options",
    [{"subsampling": 2}, {"progressive": True}, {"exif": exif(1)}, {"pixels": PIXELS[..., 0]}],
)
def test_a_scaled_jpeg_has_the_size_of_its_scale(options: dict[str, Any], scale: int) -> None:
    content = stored(**options)
    frame = plain_frame(content, upright=True)
    assert frame is not None
    found = scaled_picture_of(content, frame, scale)
    assert found.shape == (-(-frame.height // scale), -(-frame.width // scale), 3)


def photo(height: int, width: int) -> np.ndarray:
    """Return something like a photograph: soft shapes and a little noise."""
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), np.uint8)
    soft = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(soft) + rng.normal(0, 4, (height, width, 1))
    made: np.ndarray = pixels.clip(0, 255).astype(np.uint8)
    return made


PHOTO = stored(photo(600, 800), quality=90)
STEPS = {
    "a size": (64, []),
    "the shorter edge": (None, [sh.images.Resize(100), sh.images.CenterCrop(96)]),
    "a random part": (
        None,
        [sh.images.RandomResizedCrop(48), sh.images.RandomHorizontalFlip()],
    ),
    "steps in one": (None, [sh.images.Compose([sh.images.RandomResizedCrop((40, 60))])]),
    "by another filter": (None, [sh.images.Resize((50, 70), "lanczos")]),
}


def served(case: str, contents: list[bytes], **options: Any) -> np.ndarray:
    size, steps = STEPS[case]
    pictures = sh.decode.image("x", size, transforms=steps, **options)
    corpus = sh.ArrayDeserializer({"x": contents}).map(pictures)
    with sh.MinibatchSource(corpus, randomize=False, num_map_workers=0) as source:
        return np.asarray(source.next_minibatch(len(contents))["x"].values)


@pytest.mark.parametrize("case", STEPS)
def test_scaled_pictures_are_nearly_those_of_the_whole(case: str) -> None:
    whole = served(case, [PHOTO] * 6).astype(int)
    part = served(case, [PHOTO] * 6, scaled=True).astype(int)
    off = np.abs(whole - part)
    assert off.max() > 0, "nothing was scaled"
    assert off.mean() < 1.5  # as docs/images.md states
    assert np.quantile(off, 0.99) <= 6


def test_what_cannot_be_scaled_is_exact() -> None:
    small = stored(PIXELS)  # less than twice what is wanted
    file = io.BytesIO()
    Image.fromarray(photo(200, 300)).save(file, "PNG")
    turned = stored(photo(200, 300), exif=exif(ROTATED))
    for content in (small, file.getvalue(), turned):
        for case in ("a size", "a random part"):
            one = [content]
            assert np.array_equal(served(case, one), served(case, one, scaled=True))


def test_scaled_is_part_of_a_states_fingerprint() -> None:
    def source(**options: Any) -> sh.MinibatchSource:
        corpus = sh.ArrayDeserializer({"x": [PHOTO] * 4})
        return sh.MinibatchSource(corpus.map(sh.decode.image("x", 64, **options)))

    state = source(scaled=True).get_checkpoint_state()
    source(scaled=True).restore_from_checkpoint(state)
    with pytest.raises(ValueError, match="decode_x 1 scaled"):
        source().restore_from_checkpoint(state)
