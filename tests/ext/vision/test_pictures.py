"""Stored pictures come as arrays, of every mode, by streams and by maps."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import sweephand as sh

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (12, 10, 3)).astype(np.uint8)


def stored(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(content: bytes, **options: Any) -> np.ndarray:
    corpus = sh.ArrayDeserializer({"x": [content]}).map(sh.decode.image("x", **options))
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        return np.asarray(source.next_minibatch(1)["x"].values[0])


def test_a_picture_is_its_pixels_with_the_channels_first() -> None:
    assert (decoded(stored(PIXELS)) == PIXELS.transpose(2, 0, 1)).all()
    assert (decoded(stored(PIXELS), channels_first=False) == PIXELS).all()


def modes() -> dict[str, tuple[Any, dict[str, Any], Any]]:
    """Return pictures of many modes, how they are decoded, and what should come."""
    image = Image.fromarray(PIXELS)
    grey = PIXELS[..., 0]
    alpha = np.dstack([PIXELS, grey])
    deep = RNG.integers(0, 65536, (4, 6)).astype(np.uint16)
    palette = image.quantize(8)
    red = Image.new("CMYK", (3, 2), (0, 255, 255, 0))
    return {
        "grey": (grey, {}, np.dstack([grey] * 3)),
        "grey to one channel": (grey, {"mode": "L"}, grey[..., None]),
        "alpha is left out": (alpha, {}, PIXELS),
        "alpha is kept": (alpha, {"mode": "RGBA"}, alpha),
        "palette": (palette, {}, np.asarray(palette.convert("RGB"))),
        "16 bits": (deep, {"mode": "I;16"}, deep[..., None]),
        "16 bits to 8": (deep, {"mode": "L"}, (deep >> 8).astype(np.uint8)[..., None]),
        "bits": (Image.fromarray(grey > 99), {"mode": "L"}, (grey > 99)[..., None] * 255),
        "CMYK": (red, {}, np.full((2, 3, 3), [255, 0, 0])),
    }


@pytest.mark.parametrize("case", modes())
def test_a_mode_becomes_what_it_stands_for(case: str) -> None:
    pixels, options, wanted = modes()[case]
    kind = "TIFF" if case == "CMYK" else "PNG"
    assert (decoded(stored(pixels, kind), channels_first=False, **options) == wanted).all()


def test_a_sequence_of_pictures_keeps_its_length() -> None:
    frames = [[stored(PIXELS)] * n for n in (1, 3, 2)]
    corpus = sh.ArrayDeserializer(
        {"film": frames}, sh.StreamDefs(film=sh.StreamDef(decode="image"))
    )
    crop = sh.images.transform("film", [sh.images.RandomCrop(4)])
    with sh.MinibatchSource(corpus.map(crop), max_sweeps=1) as source:
        films = source.next_minibatch(6)["film"].as_sequences()
    assert sorted(film.shape for film in films) == [(n, 3, 4, 4) for n in (1, 2, 3)]
    assert all((film == film[0]).all() for film in films), "frames are cut at one place"


def damaged() -> dict[str, tuple[bytes, str]]:
    whole = stored(PIXELS, "JPEG")
    return {
        "no picture": (b"no picture at all", "they are none of JPEG, PNG"),
        "nothing": (b"", "0 bytes are no picture"),
        "cut short": (whole[:-20], "(?i)truncated"),
        "a PNG cut short": (stored(PIXELS)[:-40], "no picture that can be decoded"),
        "floats": (stored(PIXELS[..., 0].astype(np.float32), "TIFF"), "32 bits a pixel"),
        "another size": (stored(PIXELS[:5]), r"of shape \(3, 12, 10\) are wanted"),
    }


@pytest.mark.parametrize("case", damaged())
def test_damage_is_told_with_the_sequence_and_counted(case: str) -> None:
    content, told = damaged()[case]
    contents = [stored(PIXELS, "JPEG")] * 3 + [content]
    corpus = sh.ArrayDeserializer({"x": contents}).map(sh.decode.image("x"))
    with (
        sh.MinibatchSource(corpus, max_sweeps=1) as source,
        pytest.raises(sh.DataError, match=told) as raised,
    ):
        list(source.minibatches(1))
    assert raised.value.sequence == "array__3"
    with sh.MinibatchSource(corpus, max_sweeps=1, max_errors=1) as source:
        assert sum(minibatch.num_samples for minibatch in source.minibatches(2)) == 3
        assert len(source.errors) == 1


def test_what_cannot_be_decoded_is_refused() -> None:
    bad = sh.StreamDefs(x=sh.StreamDef(decode="image", shape=(2, 2)))
    with pytest.raises(ValueError, match=r"\(channels, height, width\)"):
        sh.MinibatchSource(sh.ArrayDeserializer({"x": [stored(PIXELS)]}, bad))
    with pytest.raises(sh.DataError, match="there is no stream 'y', there are: x"):
        sh.MinibatchSource(sh.ArrayDeserializer({"x": [b""]}).map(sh.decode.image("y")))
    with pytest.raises(sh.DataError, match="stored pictures are bytes, got"):
        sh.MinibatchSource(sh.ArrayDeserializer({"x": np.zeros(3)}).map(sh.decode.image("x")))
