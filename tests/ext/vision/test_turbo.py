"""JPEGs by libjpeg-turbo alone, whole and scaled, have the bits of Pillow's."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.extent import sample

import sweephand as sh
from sweephand.ext.vision.images import stored as decoders
from sweephand.ext.vision.images.stored import SCALES, decoded, picture_of, plain_frame, scaled

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("simplejpeg")

ROTATED = 6
PIXELS = np.random.default_rng(7).integers(0, 256, (75, 101, 3), np.uint8)


def stored(pixels: np.ndarray = PIXELS, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()


def by_pillow(content: bytes, scale: int = 1) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        if scale > 1:
            image.draft(None, (max(1, image.width // scale), max(1, image.height // scale)))
        return np.asarray(image.convert("RGB"))


def exif(orientation: int) -> Any:
    found = Image.Exif()
    found[0x0112] = orientation
    return found


JPEGS: dict[str, dict[str, Any]] = {
    "4:4:4": {"subsampling": 0},
    "4:2:2": {"subsampling": 1},
    "4:2:0": {"subsampling": 2, "quality": 95},
    "low quality": {"quality": 3},
    "progressive": {"progressive": True},
    "optimized": {"optimize": True},
    "restart markers": {"restart_marker_blocks": 2},
    "colours as they are": {"keep_rgb": True},
    "upright by EXIF": {"exif": exif(1)},
    "profile": {"icc_profile": b"x" * 70_000},
    "comment": {"comment": b"hello"},
    "grey": {"pixels": PIXELS[..., 0]},
    "one pixel": {"pixels": PIXELS[:1, :1]},
    "a row": {"pixels": PIXELS[:1]},
    "a column": {"pixels": PIXELS[:, :1]},
}


@pytest.mark.parametrize("case", JPEGS)
def test_a_plain_jpeg_has_the_bits_of_pillow(case: str) -> None:
    content = stored(**JPEGS[case])
    found = decoded(content, upright=True)
    assert found is not None, "not by libjpeg-turbo alone"
    assert np.array_equal(found, by_pillow(content))
    assert not found.flags.writeable


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("case", JPEGS)
def test_a_scaled_jpeg_has_the_bits_of_pillow(case: str, scale: int) -> None:
    content = stored(**JPEGS[case])
    frame = plain_frame(content, upright=True)
    assert frame is not None
    if min(frame.height, frame.width) < scale:
        return  # Pillow takes another scale, and no step asks for it
    found = scaled(content, frame, scale)
    assert found.shape == (-(-frame.height // scale), -(-frame.width // scale), 3)
    assert np.array_equal(found, by_pillow(content, scale))


@pytest.mark.parametrize(
    "content",
    [
        stored(exif=exif(ROTATED)),
        stored(xmp=b"tiff:Orientation='6'"),
        b"",
        b"\xff\xd8",
        stored()[:300],
        stored()[:-2],
        stored()[: len(stored()) // 2],
        stored().replace(b"\xff\xda", b"\xff\x00", 1),
    ],
)
def test_what_is_not_plain_or_damaged_is_left_to_pillow(content: bytes) -> None:
    assert decoded(content, upright=True) is None


def test_other_forms_are_left_to_pillow() -> None:
    file = io.BytesIO()
    Image.new("CMYK", (3, 2), (0, 255, 255, 0)).save(file, "JPEG")
    assert decoded(file.getvalue(), upright=True) is None
    turned = stored(exif=exif(ROTATED))
    assert np.array_equal(decoded(turned, upright=False), by_pillow(turned))


def test_a_cut_or_flipped_jpeg_is_what_it_is_by_pillow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = stored(PIXELS[:24, :20], quality=40)
    damaged = [content[:end] for end in range(0, len(content), 7)]
    damaged += [
        content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]
        for at in range(0, len(content), 5)
    ]

    def found() -> Iterator[object]:
        for one in sample(damaged, 40):
            try:
                yield picture_of(one, "RGB", upright=True).tolist()
            except ValueError as error:
                yield str(error)

    ours = list(found())
    monkeypatch.setattr(decoders, "_is_same", lambda: False)
    assert ours == list(found())


def test_pillows_limit_of_pixels_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    content = stored()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="could be decompression bomb"):
        picture_of(content, "RGB", upright=True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert decoded(content, upright=True) is not None


def test_without_simplejpeg_pillow_decodes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    content = stored()
    wanted = picture_of(content, "RGB", upright=True)
    frame = plain_frame(content, upright=True)
    assert frame is not None
    half = scaled(content, frame, 2)
    monkeypatch.setattr(decoders, "_simplejpeg", lambda: None)
    monkeypatch.setattr(decoders, "_is_same", cache(decoders._is_same.__wrapped__))
    assert decoded(content, upright=True) is None
    assert np.array_equal(picture_of(content, "RGB", upright=True), wanted)
    assert np.array_equal(scaled(content, frame, 2), half)


def test_a_library_of_other_bits_is_not_used_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = decoders._by_turbo

    def wrong(*arguments: Any) -> Any:
        found = right(*arguments)
        return None if found is None else found ^ 1

    monkeypatch.setattr(decoders, "_by_turbo", wrong)
    monkeypatch.setattr(decoders, "_is_same", cache(decoders._is_same.__wrapped__))
    with pytest.warns(sh.SweephandHint, match="to different bits here, so Pillow decodes"):
        assert decoded(stored(), upright=True) is None
    assert np.array_equal(picture_of(stored(), "RGB", upright=True), by_pillow(stored()))


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the first step needs"),
        ({"transforms": [sh.images.CenterCrop(3)]}, "the first step needs"),
        ({"size": 5, "mode": "L"}, "mode='RGB'"),
    ],
)
def test_what_scaled_is_not_for_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sh.decode.image("x", scaled=True, **options)
    with pytest.raises(TypeError):
        sh.decode.image("x", 5, scaled=1)  # type: ignore[arg-type]
