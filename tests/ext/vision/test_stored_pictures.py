"""Pictures of all containers stand upright, are of the named formats, and fit into memory."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.ext.vision.images.stored import HEAD_BYTES, extent_of, jpeg_extent, picture_of

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
features = pytest.importorskip("PIL.features")

ORIENTATION = 0x0112
TALL = np.random.default_rng(3).integers(0, 256, (24, 16, 3), np.uint8)


def stored(pixels: Any = TALL, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation: int) -> Any:
    found = Image.Exif()
    found[ORIENTATION] = orientation
    return found


def xmp(orientation: int) -> bytes:
    return b'<x:xmpmeta><rdf tiff:Orientation="%d"/></x:xmpmeta>' % orientation


def chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of PNG."""
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def png_with(name: bytes, content: bytes, *, after: bool) -> bytes:
    """Return a PNG with a chunk before or after its pixels."""
    whole = stored()
    at = whole.index(b"IEND" if after else b"IDAT") - 4
    return whole[:at] + chunk(name, content) + whole[at:]


def raw_profile(orientation: int) -> bytes:
    """Return EXIF as ImageMagick writes it into texts of PNG."""
    content = exif(orientation).tobytes()
    digits = content.hex()
    lines = [digits[at : at + 72] for at in range(0, len(digits), 72)]
    return "\n".join(["", "exif", f"{len(content):8}", *lines, ""]).encode()


def turned(orientation: int) -> dict[str, bytes]:
    """Return a picture with an orientation, in each container and where it may stand there."""
    own, packet = exif(orientation), xmp(orientation)
    name = b"Raw profile type exif\0"
    made = {
        "PNG": stored(exif=own),
        "PNG, after": png_with(b"eXIf", own.tobytes().removeprefix(b"Exif\0\0"), after=True),
        "JPEG": stored(kind="JPEG", exif=own),
        "JPEG, XMP": stored(kind="JPEG", xmp=packet),
        "JPEG, XMP beside EXIF": stored(kind="JPEG", xmp=xmp(3), exif=own),
        "TIFF": stored(kind="TIFF", exif=own),
        "TIFF, deflate": stored(kind="TIFF", exif=own, compression="tiff_deflate"),
        "TIFF, XMP": stored(kind="TIFF", tiffinfo={700: packet}),
        "GIF": stored(kind="GIF"),
        "BMP": stored(kind="BMP"),
        "PPM": stored(kind="PPM"),
    }
    itxt = b"XML:com.adobe.xmp\0\0\0\0\0" + packet
    for where, after in (("", False), (", after", True)):
        made[f"PNG, XMP{where}"] = png_with(b"iTXt", itxt, after=after)
        text = raw_profile(orientation)
        made[f"PNG, raw profile{where}"] = png_with(b"tEXt", name + text, after=after)
        packed = name + b"\0" + zlib.compress(text)
        made[f"PNG, packed profile{where}"] = png_with(b"zTXt", packed, after=after)
        of_utf8 = name + b"\0\0\0\0" + text
        made[f"PNG, profile of UTF-8{where}"] = png_with(b"iTXt", of_utf8, after=after)
    if features.check("webp"):
        made["WebP"] = stored(kind="WEBP", exif=own, lossless=True)
        made["WebP, XMP"] = stored(kind="WEBP", xmp=packet, lossless=True)
    if features.check("jpg_2000"):
        made["JPEG 2000"] = stored(kind="JPEG2000")
    if features.check("avif"):
        made["AVIF"] = stored(kind="AVIF", exif=own)
    return made


@pytest.mark.parametrize("orientation", range(1, 9))
def test_heads_pixels_streams_and_patches_stand_as_pillow_turns_them(orientation: int) -> None:
    pictures = turned(orientation)
    for case, content in pictures.items():
        with Image.open(io.BytesIO(content)) as opened:
            wanted = np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
        assert np.array_equal(picture_of(content, "RGB", upright=True), wanted), case
        assert extent_of(content, upright=True) == wanted.shape[:2], case
        assert jpeg_extent(content[:HEAD_BYTES], upright=True) in (None, wanted.shape[:2]), case
        as_stored = picture_of(content, "RGB", upright=False).shape[:2]
        assert extent_of(content, upright=False) == as_stored, case
        corpus = sh.ArrayDeserializer(
            {"x": [content]}, sh.StreamDefs(x=sh.StreamDef(decode="image"))
        )
        with sh.MinibatchSource(corpus) as source:
            (found,) = source.next_minibatch(1)["x"].values
        assert np.array_equal(found.transpose(1, 2, 0), wanted), case
    assert orientation == 1 or num_turned(pictures) > 10
    rule = sh.images.NativeResolution(patch=4, merge=1, min_pixels=16, max_pixels=2**20)
    corpus = sh.ArrayDeserializer(
        {
            "image": [[one] for one in pictures.values()],
            "tokens": [np.array([1])] * len(pictures),
        },
        {"image": sh.StreamDef(carried=True), "tokens": sh.StreamDef()},
    )
    mapped = corpus.map(sh.images.patchify("image", rule, placeholder=1))
    with sh.MinibatchSource(mapped, randomize=False, max_sweeps=1) as source:
        grids = source.next_minibatch(10**6)["grid"].values[:, 1:] * 4
    extents = [extent_of(content, upright=True) for content in pictures.values()]
    assert grids.tolist() == [list(one) for one in extents]


def num_turned(pictures: dict[str, bytes]) -> int:
    """Return how many pictures are not as they are stored."""
    return sum(
        not np.array_equal(picture_of(one, "RGB", upright=True), TALL)
        for one in pictures.values()
    )


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) print\n%%EOF\n"
READERS: dict[str, Any] = {
    "decode": lambda content: picture_of(content, "RGB", upright=True),
    "heads": lambda content: extent_of(content, upright=True),
    "patches": lambda content: sh.images.patchify("image", placeholder=1)(
        {"image": [content], "tokens": np.array([1])}
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["EPS", "TGA", "ICO", "PCX", "SGI", "DDS"])
def test_a_picture_of_another_format_is_refused(
    kind: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.Popen.__init__", refuse)
    content = EPS if kind == "EPS" else stored(kind=kind)
    with pytest.raises(ValueError, match=r"none of JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM"):
        READERS[reader](content)


def tile_of_tiff(width: int, height: int, edge: int) -> bytes:
    """Return a TIFF of grey zeros in one tile, which may be larger than the picture."""
    content = zlib.compress(bytes(edge**2))
    shorts = {258: 8, 259: 8, 262: 1, 277: 1}  # bits, deflate, black is 0, channels
    longs = {256: width, 257: height, 322: edge, 323: edge, 325: len(content)}
    entries = {**shorts, **longs}
    begin = 8 + 2 + 12 * (len(entries) + 1) + 4
    entries[324] = begin  # of the tile
    fields = [
        struct.pack("<HHII", tag, 3 if tag in shorts else 4, 1, value)
        for tag, value in sorted(entries.items())
    ]
    head = b"II*\0" + struct.pack("<IH", 8, len(fields))
    return head + b"".join(fields) + bytes(4) + content


@cache
def bombs() -> dict[str, bytes]:
    """Return small files whose headers ask for more than 32 MiB."""
    grey = Image.new("L", (1400, 1400))
    made = {kind: stored(grey, kind) for kind in ("PNG", "JPEG", "GIF")}
    for kind, feature in [("WEBP", "webp"), ("JPEG2000", "jpg_2000"), ("AVIF", "avif")]:
        if features.check(feature):
            made[kind] = stored(grey, kind)
    made["TIFF"] = stored(grey, "TIFF", compression="tiff_deflate")
    made["a tile of TIFF"] = tile_of_tiff(16, 16, 1400)
    made["bits of PNG"] = stored(Image.new("1", (1400, 1400)), "PNG")
    assert all(len(content) < 2**18 for content in made.values())
    return made


@pytest.mark.parametrize("case", bombs())
def test_a_picture_that_memory_does_not_hold_is_an_error_with_the_sequence(case: str) -> None:
    contents = [stored(), bombs()[case]]
    size: Any = sh.images.Resize((24, 16))
    for decoder in (
        sh.decode.image("x", transforms=[size]),
        sh.decode.image("x", transforms=[size], scaled=True),
    ):
        corpus = sh.ArrayDeserializer({"x": contents}).map(decoder)
        options: dict[str, Any] = {"max_sweeps": 1, "memory_limit": 2**25}
        with (
            sh.MinibatchSource(corpus, **options) as source,
            pytest.raises(sh.DataError, match=r"1400 x 1400 pixels takes \d+ bytes") as raised,
        ):
            list(source.minibatches(2))
        assert raised.value.sequence == "array__1"
        with sh.MinibatchSource(corpus, max_errors=1, **options) as source:
            assert sum(one.num_sequences for one in source.minibatches(2)) == 1
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        assert source.next_minibatch(2).num_sequences == 2


def test_a_header_that_needs_pixels_is_measured_within_memory() -> None:
    whole = stored(Image.new("1", (1400, 1400)))
    at = whole.index(b"IEND") - 4
    own = exif(6).tobytes().removeprefix(b"Exif\0\0")
    content = whole[:at] + chunk(b"eXIf", own) + whole[at:]  # which is after the pixels
    data = {"image": [[stored()], [content]], "tokens": [np.array([1])] * 2}
    corpus = sh.ArrayDeserializer(
        data, {"image": sh.StreamDef(carried=True), "tokens": sh.StreamDef()}
    )
    mapped = corpus.map(sh.images.patchify("image", placeholder=1))
    with pytest.raises(sh.DataError, match="1400 x 1400 pixels takes") as raised:
        sh.MinibatchSource(mapped, memory_limit=2**25)
    assert raised.value.sequence == "array__1"


def test_a_limit_of_memory_changes_no_order_and_no_state() -> None:
    crop = sh.images.RandomCrop(5)
    corpus = sh.ArrayDeserializer({"x": [stored()] * 9})
    found, states = [], []
    for limit in (None, 2**30):
        mapped = corpus.map(sh.decode.image("x", transforms=[crop]), name="mine")
        with sh.MinibatchSource(mapped, memory_limit=limit) as source:
            found.append(source.next_minibatch(9)["x"].values)
            states.append(source.get_checkpoint_state())
    assert (found[0] == found[1]).all()
    assert states[0] == states[1]


def masks() -> dict[str, tuple[Any, str]]:
    """Return pictures of numbers of classes, and how they are stored."""
    numbers = np.arange(24, dtype=np.uint8).reshape(4, 6)
    palette = Image.fromarray(numbers, "L").convert("P")
    palette.putdata(numbers.ravel().tolist())
    palette.putpalette(np.random.default_rng(0).integers(0, 256, 768).tolist())
    few = Image.fromarray(numbers % 2, "L").convert("P")
    few.putdata((numbers % 2).ravel().tolist())
    few.putpalette([255, 0, 0, 0, 0, 255])
    return {
        "palette": (palette, "PNG"),
        "palette of two colours": (few, "PNG"),
        "palette in TIFF": (palette, "TIFF"),
        "palette in BMP": (palette, "BMP"),
        "palette in GIF": (palette, "GIF"),
        "greys": (Image.fromarray(numbers, "L"), "PNG"),
        "bits": (Image.fromarray(numbers % 2 == 1), "PNG"),
    }


@pytest.mark.parametrize("case", masks())
def test_a_palette_is_a_mask_of_classes(case: str) -> None:
    mask, kind = masks()[case]
    numbers = np.arange(24, dtype=np.uint8).reshape(4, 6)
    if case in ("palette of two colours", "bits"):
        numbers %= 2
    options = {"optimize": False} if kind == "GIF" else {}
    corpus = sh.ArrayDeserializer({"x": [stored(mask, kind, **options)]})
    with sh.MinibatchSource(corpus.map(sh.decode.image("x", mode="P"))) as source:
        assert (source.next_minibatch(1)["x"].values[0, 0] == numbers).all()
    with sh.MinibatchSource(corpus.map(sh.decode.image("x", (8, 12), mode="P"))) as source:
        large = source.next_minibatch(1)["x"].values[0, 0]
    assert (large == numbers.repeat(2, 0).repeat(2, 1)).all()


def test_numbers_of_classes_are_not_blended_or_made_of_colours() -> None:
    for step in (sh.images.Resize(4), sh.images.Compose([sh.images.RandomResizedCrop(4)])):
        with pytest.raises(ValueError, match="would blend the numbers of mode='P'"):
            sh.decode.image("x", transforms=[step], mode="P")
    with pytest.raises(ValueError, match="has colours"):
        picture_of(stored(), "P", upright=True)
