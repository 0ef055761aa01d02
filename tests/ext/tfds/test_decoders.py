"""Stored images and sounds come out as the arrays that the features declare."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.tfds.folders import LABEL, tensor, tree, write_folder

import sweephand as sh
from sweephand.ext.tfds.decoders import PillowDecoder


def image(*shape: int, dtype: str = "uint8") -> dict[str, Any]:
    return {"image": {"shape": {"dimensions": [str(n) for n in shape]}, "dtype": dtype}}


PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
SOUND = {"audio": {"lazyDecode": True, "shape": {"dimensions": ["4"]}, "dtype": "int16"}}


def raw_image(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8).reshape(2, 3, 3)


def raw_sound(content: bytes) -> np.ndarray:
    return np.frombuffer(content, "<i2").astype(np.int16)


def load(folder: Path, *examples: dict[str, Any], **options: Any) -> sh.tfds.Dataset:
    features = tree(nest=tree(image=image(2, 3, 3)), label=LABEL, sound=SOUND)
    write_folder(folder, {"s": [examples]}, features)
    return sh.tfds.load(folder, "s", **options)


def example(label: int, pixels: bytes) -> dict[str, Any]:
    return {"nest/image": pixels, "label": label, "sound": np.arange(4, dtype="<i2").tobytes()}


def serve(dataset: sh.tfds.Dataset, **options: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(dataset, randomize=False, max_sweeps=1, **options)


def png(pixels: np.ndarray) -> bytes:
    image_module = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image_module.fromarray(pixels).save(file, "png")
    return file.getvalue()


def test_decoders_give_the_declared_shape_and_dtype(tmp_path: Path) -> None:
    examples = [example(n, (PIXELS + n).tobytes()) for n in range(3)]
    decoders = {"nest/image": raw_image, "sound": raw_sound}
    dataset = load(tmp_path, *examples, decoders=decoders)
    source = serve(pickle.loads(pickle.dumps(dataset)))
    info = {name: (one.dtype, one.shape) for name, one in source.streams.items()}
    assert info["nest/image"] == (np.uint8, (2, 3, 3))
    assert info["sound"] == (np.int16, (4,))
    batch = source.next_minibatch(3)
    assert np.array_equal(batch["nest/image"].values, [PIXELS + n for n in range(3)])
    assert batch["sound"].values.tolist() == [[0, 1, 2, 3]] * 3
    assert batch["label"].values.tolist() == [0, 1, 2]


def test_without_a_decoder_they_are_bytes_and_the_memory_bound_is_less(tmp_path: Path) -> None:
    dataset = load(tmp_path, example(1, PIXELS.tobytes()))
    stored = serve(dataset, num_threads=0)
    decoders = {"nest/image": raw_image}
    decoded = serve(sh.tfds.load(tmp_path, "s", decoders=decoders), num_threads=0)
    assert stored.next_minibatch(1)["nest/image"].values.tolist() == [PIXELS.tobytes()]
    assert decoded.memory_bound(1) == stored.memory_bound(1) + 2 * PIXELS.nbytes


def test_a_renamed_and_cast_stream_is_decoded_under_the_name_of_its_feature(
    tmp_path: Path,
) -> None:
    streams = sh.StreamDefs(x=sh.StreamDef(field="nest/image", dtype="float32"))
    dataset = load(
        tmp_path,
        example(1, PIXELS.tobytes()),
        streams=streams,
        decoders={"nest/image": raw_image},
    )
    values = serve(dataset).next_minibatch(1)["x"].values
    assert values.dtype == np.float32
    assert np.array_equal(values, [PIXELS])


@pytest.mark.parametrize(
    ("decoder", "reason"),
    [
        (raw_image, "the decoder failed: ValueError: cannot reshape"),
        (
            lambda content: np.zeros((2, 3), np.uint8),
            r"gave uint8 of shape \(2, 3\), not uint8",
        ),
        (lambda content: np.zeros((2, 3, 3)), "gave float64 of shape"),
        (lambda content: {}["x"], "the decoder failed: KeyError: 'x'"),
    ],
)
def test_what_does_not_decode_is_an_error_with_its_place(
    tmp_path: Path, decoder: Any, reason: str
) -> None:
    def only_the_second(content: bytes) -> np.ndarray:
        return raw_image(content) if len(content) == PIXELS.nbytes else decoder(content)

    examples = [example(0, PIXELS.tobytes()), example(1, b"cut")]
    dataset = load(tmp_path, *examples, decoders={"nest/image": only_the_second})
    with pytest.raises(sh.DataError, match=reason) as caught:
        serve(dataset).next_minibatch(2)
    assert (caught.value.stream, caught.value.sequence) == ("nest/image", 1)
    assert caught.value.file == str(tmp_path / "demo-s.tfrecord-00000-of-00001")
    source = serve(dataset, max_errors=1)
    assert source.next_minibatch(2)["label"].values.tolist() == [0]
    assert [error.sequence for error in source.errors] == [1]


@pytest.mark.parametrize(
    ("feature", "decoder", "reason"),
    [
        (
            image(-1, 3, 3),
            raw_image,
            r"shape \(-1, 3, 3\), of which some is unknown .*field='x'",
        ),
        ({"image": {}}, raw_image, "'x' cannot have a decoder: features.json does not say"),
        ({"text": {}}, raw_image, "'x' cannot have a decoder"),
        (tensor("int64"), raw_image, "'x' cannot have a decoder"),
        ({"sequence": {"feature": image(2, 3, 3)}}, raw_image, "'x' is a sequence"),
        (image(2, 3, 2), True, "1, 3 or 4 channels, but the feature 'x' has uint8 of shape"),
        (image(2, 3, 1, dtype="uint16"), True, "but the feature 'x' has uint16 of shape"),
    ],
)
def test_a_feature_that_cannot_be_decoded_is_refused_by_name(
    tmp_path: Path, feature: Any, decoder: Any, reason: str
) -> None:
    write_folder(tmp_path, {"s": [[{"x": b""}]]}, tree(x=feature))
    with pytest.raises(ValueError, match=reason):
        sh.tfds.load(tmp_path, "s", decoders={"x": decoder})


def any_image(folder: Path, *shape: int, **content: bytes) -> sh.tfds.Dataset:
    """Return images of declared shape, of a feature that only knows the channels."""
    write_folder(
        folder, {"s": [[{"x": one} for one in content.values()]]}, tree(x=image(-1, -1, 3))
    )
    streams = sh.StreamDefs(pixels=sh.StreamDef(field="x", shape=shape))
    return sh.tfds.load(folder, "s", streams=streams, decoders={"x": raw_image})


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3)])
def test_a_shape_that_contradicts_the_feature_is_refused(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"'x' has the shape \(-1, -1, 3\), its stream"):
        any_image(tmp_path, *shape, a=b"")


def test_decoders_of_nothing_and_of_no_use_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="decoders for image, which is not read"):
        load(tmp_path, example(0, b""), decoders={"image": raw_image})
    with pytest.raises(TypeError, match="must be a callable or True, got 'png'"):
        load(tmp_path, example(0, b""), decoders={"nest/image": "png"})


def test_an_absent_pillow_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"'nest/image' needs Pillow: pip install"):
        load(tmp_path, example(0, b""), decoders={"nest/image": True})


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pillow_gives_the_declared_channels(channels: int) -> None:
    grey = PIXELS[:, :, 0]
    found = PillowDecoder((2, 3, channels))(png(grey))
    assert found.shape == (2, 3, channels)
    assert np.array_equal(found[:, :, 0], grey)


@pytest.mark.parametrize(
    ("pixels", "reason"),
    [
        (np.zeros((3, 2, 3), np.uint8), "the image is 3 high and 2 wide, not 2 and 3"),
        (np.zeros((2, 3), np.uint16), "more than 8 bits a channel"),
        (None, "none of JPEG, PNG"),
    ],
)
def test_images_that_are_not_as_declared_are_an_error(
    tmp_path: Path, pixels: Any, reason: str
) -> None:
    content = b"no image" if pixels is None else png(pixels)
    pytest.importorskip("PIL.Image")
    dataset = load(tmp_path, example(0, content), decoders={"nest/image": True})
    with pytest.raises(sh.DataError, match=reason):
        serve(dataset).next_minibatch(1)


def test_an_image_cut_anywhere_is_an_error_or_an_image(tmp_path: Path) -> None:
    content = png(PIXELS)
    examples = [example(n % 10, content[:n]) for n in range(len(content))]
    dataset = load(tmp_path, *examples, decoders={"nest/image": True})
    source = serve(dataset, max_errors=len(examples))
    num_found = sum(batch.num_samples for batch in source.minibatches(16))
    assert num_found + len(source.errors) == len(examples)
    assert len(source.errors) > len(content) // 2
