"""Pictures become patches beside tokens, and are planned by their headers."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweephand as sh
from sweephand.ext.vision.images import patch_map
from sweephand.ext.vision.images import stored as stored_module
from sweephand.ext.vision.images.stored import HEAD_BYTES

Image = pytest.importorskip("PIL.Image")

RULE = sh.images.NativeResolution(patch=4, merge=2, min_pixels=64, max_pixels=64 * 20)
PLACEHOLDER = 1
RNG = np.random.default_rng(3)
extents = st.integers(1, 3000)


def stored(height: int, width: int, kind: str = "PNG", **options: Any) -> bytes:
    pixels = RNG.integers(0, 256, (height, width, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def documents(count: int) -> dict[str, list[Any]]:
    """Return sequences of 0 to 3 pictures among tokens."""
    pictures, tokens = [], []
    for _ in range(count):
        own = [stored(*RNG.integers(8, 60, 2)) for _ in range(RNG.integers(0, 4))]
        words = RNG.integers(2, 99, RNG.integers(4, 30))
        places = np.sort(RNG.integers(0, len(words), len(own)))
        pictures.append(own)
        tokens.append(np.insert(words, places, PLACEHOLDER))
    return {"image": pictures, "tokens": tokens}


DOCUMENTS = documents(60)
DEFS = sh.StreamDefs(image=sh.StreamDef(carried=True), tokens=sh.StreamDef())
PATCHIFY = sh.images.patchify("image", RULE, placeholder=PLACEHOLDER)
LIMITED: dict[str, Any] = {
    "layout": sh.Packed(128, limits={"patches": 200}),
    "balance": sh.Attention(cost={"patches": 3.5}),
}


def corpus(data: dict[str, list[Any]] = DOCUMENTS) -> sh.ArrayDeserializer:
    return sh.ArrayDeserializer(data, DEFS)


def own_map(sequence: dict[str, Any]) -> dict[str, Any]:
    return PATCHIFY(sequence)


def delivered(source: sh.MinibatchSource, count: int = 6) -> list[dict[str, Any]]:
    """Return what a source delivers, as plain values."""
    found = []
    for _, minibatch in zip(range(count), source.minibatches(512), strict=False):
        found.append(
            {
                "ids": minibatch.ids,
                **{
                    name: [data.asarray().tolist(), data.offsets.tolist()]
                    if name == "tokens"
                    else [data.values.tolist(), data.offsets.tolist(), data.rows.tolist()]
                    for name, data in minibatch.items()
                },
            }
        )
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how many headers were read, and how many pictures decoded."""
    counted = {"extent_of": 0, "picture_of": 0}

    def count(name: str) -> None:
        inner = getattr(patch_map, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[name] += 1
            return inner(*args, **options)

        monkeypatch.setattr(patch_map, name, counting)

    for name in counted:
        count(name)
    return counted


def by_the_book(height: int, width: int, edge: int, least: int, most: int) -> tuple[int, int]:
    """Return the size that Qwen2-VL's processor gives, by its published formula."""
    high, wide = round(height / edge) * edge or edge, round(width / edge) * edge or edge
    if high * wide > most:
        beta = math.sqrt(height * width / most)
        high = max(edge, math.floor(height / beta / edge) * edge)
        wide = max(edge, math.floor(width / beta / edge) * edge)
    elif high * wide < least:
        beta = math.sqrt(least / (height * width))
        high = math.ceil(height * beta / edge) * edge
        wide = math.ceil(width * beta / edge) * edge
    return high, wide


@given(extents, extents)
def test_native_resolution_is_the_published_rule(height: int, width: int) -> None:
    rule = sh.images.NativeResolution(min_pixels=56 * 56, max_pixels=28 * 28 * 1280)
    if max(height, width) > 200 * min(height, width):
        with pytest.raises(ValueError, match="200 times"):
            rule.sizes(height, width)
        return
    (found,) = rule.sizes(height, width)
    assert found == by_the_book(height, width, 28, 56 * 56, 28 * 28 * 1280)
    assert rule.num_patches(height, width) == 4 * rule.num_placeholders(height, width)


@given(extents, extents, st.integers(1, 12))
def test_tiles_have_the_nearest_proportions(height: int, width: int, most: int) -> None:
    rule = sh.images.Tiles(size=448, most=most)
    rows, columns = rule.grid(height, width)
    assert 1 <= rows * columns <= most
    distances = [
        abs(width / height - c / r)
        for r in range(1, most + 1)
        for c in range(1, most + 1)
        if r * c <= most
    ]
    assert abs(width / height - columns / rows) == min(distances)
    tiles = rows * columns + (rows * columns > 1)
    assert rule.num_placeholders(height, width) == 256 * tiles


class TwoSizes(sh.images.PatchRule):
    """A picture in half the size, too."""

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        return [(2 * self.edge, 2 * self.edge), (self.edge, self.edge)]


def test_a_rule_of_one_s_own_may_make_several_pictures() -> None:
    rule = TwoSizes(patch=4, merge=2)
    data = {"image": [[stored(20, 30)]], "tokens": [np.array([5, 1])]}
    patched = corpus(data).map(sh.images.patchify("image", rule, placeholder=1))
    with sh.MinibatchSource(patched) as source:
        minibatch = source.next_minibatch(6)
    assert minibatch["tokens"].values.tolist() == [5, 1, 1, 1, 1, 1]
    assert minibatch["grid"].values.tolist() == [[1, 4, 4], [1, 2, 2]]


def test_patches_are_the_pixels_block_by_block() -> None:
    file = stored(16, 24)
    pixels = np.asarray(Image.open(io.BytesIO(file)))
    patchify = sh.images.patchify("image", RULE, placeholder=PLACEHOLDER, frames=2)
    made = patchify({"image": [file], "tokens": np.array([5, 1, 6])})
    wanted = []
    for top in range(0, 16, 8):
        for left in range(0, 24, 8):
            for row in (top, top + 4):
                for column in (left, left + 4):
                    block = pixels[row : row + 4, column : column + 4].transpose(2, 0, 1)
                    wanted.append(np.stack([block, block], axis=1).reshape(-1))
    assert np.array_equal(made["patches"], wanted)
    assert made["grid"].tolist() == [[1, 4, 6]]
    assert made["tokens"].tolist() == [5, *[1] * 6, 6]


def test_pixels_may_be_scaled() -> None:
    file = stored(16, 24)
    sequence = {"image": [file], "tokens": np.array([1])}
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    scaled = sh.images.patchify("image", RULE, placeholder=1, mean=mean, std=std)(sequence)
    plain = PATCHIFY(sequence)["patches"].reshape(-1, 3, 16)
    wanted = (plain / 255 - np.array(mean)[:, None]) / np.array(std)[:, None]
    assert scaled["patches"].dtype == np.float32
    assert np.allclose(scaled["patches"].reshape(-1, 3, 16), wanted, atol=1e-6)


def test_tiles_are_parts_of_the_resized_picture() -> None:
    file = stored(16, 32)
    pixels = np.asarray(Image.open(io.BytesIO(file)))
    rule = sh.images.Tiles(patch=8, merge=2, size=16, most=2)
    made = sh.images.patchify("image", rule, placeholder=1)(
        {"image": [file], "tokens": np.array([1])}
    )
    assert made["grid"].tolist() == [[1, 2, 2]] * 3
    assert len(made["tokens"]) == 3
    first = made["patches"][0].reshape(3, 8, 8).transpose(1, 2, 0)
    of_second = made["patches"][4].reshape(3, 8, 8).transpose(1, 2, 0)
    assert np.array_equal(first, pixels[:8, :8])
    assert np.array_equal(of_second, pixels[:8, 16:24])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_no_pixel_is_read_for_a_size(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = stored(20, 30, kind)

    def refuse(*_: object) -> None:
        raise AssertionError("pixels were read")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", refuse)
    lengths = sh.images.patches("image", RULE)({"image": [file], "tokens": np.array([1])})
    assert lengths == {"tokens": 8, "patches": 32, "grid": 1}


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_cut_picture_is_an_error_or_has_its_extent(kind: str) -> None:
    whole = stored(8, 24, kind)
    found = set()
    for end in range(min(len(whole), 800)):
        try:
            found.add(stored_module.extent_of(whole[:end], upright=True))
        except ValueError:
            found.add(None)
    assert found == {None, (8, 24)}


def test_headers_plan_what_decoding_would(calls: dict[str, int]) -> None:
    """The same minibatches as by a pass that decodes everything, under limits and costs."""
    streams = {name: sh.StreamDef(carried=name != "tokens") for name in ("patches", "grid")}
    measured = corpus().map(
        own_map,
        name="patchify_image",
        size="measured",
        streams={"tokens": sh.StreamDef(), **streams},
    )
    with sh.MinibatchSource(corpus().map(PATCHIFY), **LIMITED) as source:
        num_pictures = sum(map(len, DOCUMENTS["image"]))
        assert calls["extent_of"] == num_pictures
        assert calls["picture_of"] < num_pictures / 4  # the first look
        found = delivered(source)
    with sh.MinibatchSource(measured, **LIMITED) as source:
        assert delivered(source) == found


def behind_a_segment(jpeg: bytes, size: int) -> bytes:
    """Return a JPEG whose header comes so many bytes later."""
    return jpeg[:2] + b"\xff\xe2" + (size - 2).to_bytes(2, "big") + bytes(size - 2) + jpeg[2:]


def large_pictures() -> list[bytes]:
    """Return pictures of a head's size and more, whose headers are in the head, or are not."""
    large = stored(120, 160, "JPEG", quality=98)
    small = stored(30, 40, "JPEG")
    pictures = [
        large,
        behind_a_segment(large, 5_000),
        behind_a_segment(large, 20_000),
        stored(80, 90),  # what tells how a PNG lies may stand after its pixels
        small + bytes(HEAD_BYTES - len(small)),
    ]
    assert all(len(picture) >= HEAD_BYTES for picture in pictures)
    return [*pictures, small]


def large_documents(form: str, folder: Path) -> sh.Deserializer:
    pictures = large_pictures()
    rows = [pictures[:2], pictures[2:4], [], pictures[4:], pictures[:1], pictures[2:3]]
    tokens = [[7] * number + [PLACEHOLDER] * len(row) for number, row in enumerate(rows, 1)]
    data: dict[str, list[Any]] = {"image": rows, "tokens": tokens}
    if form == "arrays":
        return corpus({"image": rows, "tokens": [np.array(one) for one in tokens]})
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(data), folder / "x.parquet")
    return sh.open(folder / "x.parquet", streams=DEFS)


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("form", ["arrays", "parquet"])
def test_a_header_behind_the_head_of_a_picture_is_found(
    form: str, executor: Any, tmp_path: Path, calls: dict[str, int]
) -> None:
    mapped = large_documents(form, tmp_path).map(PATCHIFY)
    options: dict[str, Any] = {"map_executor": executor, "num_map_workers": 2}
    with sh.MinibatchSource(mapped, max_sweeps=1, **options) as source:
        read_whole = calls["extent_of"]
        # A length that was told wrong is an error when its sequence is delivered.
        minibatches = list(source.minibatches(400))
    assert sum(one["grid"].num_samples for one in minibatches) == 8
    if executor == "threads":  # the first sequence, and those with a far header, or a PNG
        assert read_whole == 2 + 3


def test_the_second_start_reads_no_header(tmp_path: Path, calls: dict[str, int]) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({name: list(map(list, values)) for name, values in DOCUMENTS.items()})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    mapped = sh.open(tmp_path / "x.parquet", streams=DEFS).map(PATCHIFY)
    with sh.MinibatchSource(mapped, **LIMITED) as source:
        wanted = delivered(source, 2)
    assert calls["extent_of"] >= sum(map(len, DOCUMENTS["image"]))
    with sh.MinibatchSource(mapped, **LIMITED) as source:
        calls.update(extent_of=0)
        assert delivered(source, 2) == wanted


def test_a_map_of_one_s_own_is_planned_by_headers() -> None:
    """Its tokens come from a text that is none before the map."""
    captions = [f"{number} is a number" for number in range(20)]
    data = {"image": [[stored(16, 24)] for _ in captions], "text": captions}
    defs = sh.StreamDefs(image=sh.StreamDef(carried=True), text=sh.StreamDef())

    def words(sequence: dict[str, Any]) -> list[int]:
        return [len(word) + 1 for word in sequence["text"][0].split()]

    def encode(sequence: dict[str, Any]) -> dict[str, Any]:
        tokens = np.array([PLACEHOLDER, *words(sequence)])
        return PATCHIFY({"image": sequence["image"], "tokens": tokens})

    def mapped(num_tokens: Any) -> sh.Deserializer:
        return sh.ArrayDeserializer(data, defs).map(
            encode,
            size=sh.images.patches("image", RULE, num_tokens=num_tokens),
            streams={
                "tokens": sh.StreamDef(),
                "patches": sh.StreamDef(carried=True),
                "grid": sh.StreamDef(carried=True),
            },
        )

    with sh.MinibatchSource(mapped(lambda s: len(words(s))), **LIMITED) as source:
        assert source.next_minibatch(100)["tokens"].lengths.max() == 6 + 4
    with (
        sh.MinibatchSource(mapped(lambda s: 3), **LIMITED) as source,
        pytest.raises(sh.DataError, match=r"samples where 9 size= said"),
    ):
        source.next_minibatch(100)


def one_patch_more(sequence: dict[str, Any]) -> dict[str, Any]:
    made = PATCHIFY(sequence)
    return {**made, "patches": np.concatenate([made["patches"], made["patches"][:1]])}


@pytest.mark.parametrize("batched", [False, True])
def test_other_patches_than_were_told_are_an_error(batched: bool) -> None:
    """A row would hold more than its limit, in silence."""

    def several(sequences: dict[str, list[Any]]) -> dict[str, list[Any]]:
        made = [
            one_patch_more({"image": image, "tokens": tokens})
            for image, tokens in zip(sequences["image"], sequences["tokens"], strict=True)
        ]
        return {name: [one[name] for one in made] for name in made[0]}

    mapped = corpus().map(
        several if batched else one_patch_more,
        batched=batched,
        size=sh.images.patches("image", RULE),
        streams={
            "tokens": sh.StreamDef(),
            "patches": sh.StreamDef(carried=True),
            "grid": sh.StreamDef(carried=True),
        },
    )
    with (
        sh.MinibatchSource(mapped, **LIMITED) as source,
        pytest.raises(sh.DataError, match=r"samples of 'patches' where size= said"),
    ):
        source.next_minibatch(512)


def spoiled(which: int, content: bytes) -> dict[str, list[Any]]:
    pictures = [list(own) for own in DOCUMENTS["image"]]
    assert pictures[which]
    pictures[which][0] = content
    return {"image": pictures, "tokens": DOCUMENTS["tokens"]}


def damages() -> Iterator[Any]:
    which = max(n for n, own in enumerate(DOCUMENTS["image"]) if own)
    whole = DOCUMENTS["image"][which][0]
    yield pytest.param(which, b"no picture", id="header")
    yield pytest.param(which, whole[: len(whole) // 2], id="pixels")


@pytest.mark.parametrize(("which", "content"), list(damages()))
def test_damaged_pictures_are_named_and_counted(which: int, content: bytes) -> None:
    mapped = corpus(spoiled(which, content)).map(PATCHIFY)

    def deliver(max_errors: int) -> list[str]:
        with sh.MinibatchSource(
            mapped, layout=sh.Packed(128), max_errors=max_errors, max_sweeps=1
        ) as source:
            return [one for minibatch in source.minibatches(512) for one in minibatch.ids]

    with pytest.raises(sh.DataError, match=f"{which}"):
        deliver(0)
    found = deliver(1)
    assert sorted(found) == sorted(f"array__{n}" for n in range(60) if n != which)


def test_labels_are_not_taken_at_placeholders() -> None:
    patchify = sh.images.patchify("image", RULE, placeholder=PLACEHOLDER, loss_mask="loss_mask")
    with sh.MinibatchSource(corpus().map(patchify), layout=sh.Packed(128)) as source:
        minibatch = source.next_minibatch(1024)
    tokens = minibatch["tokens"]
    labels = tokens.labels()
    assert not (labels == PLACEHOLDER).any()
    assert (labels != -100).sum() == minibatch.global_num_label_samples
