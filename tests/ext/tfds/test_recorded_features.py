"""Features of every kind are what was recorded of the real TFDS."""

from __future__ import annotations

import io
import shutil
import wave
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.tfds.recordings import FOLDER, recorded

import sweephand as sh

DECODED = {case["name"]: case["values"] for case in recorded("features")}
IMAGES = ("image", "grey", "alpha", "classes", "jpeg")
FRAMES = ("images", "video", "any_image", "any_video")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, beside which an index may be written."""
    return Path(shutil.copytree(FOLDER / "kinds", tmp_path_factory.mktemp("tfds") / "1.0.0"))


def examples(folder: Path, **options: Any) -> list[sh.Minibatch]:
    """Return minibatches of one example."""
    config = sh.tfds.ReadConfig(add_tfds_id=True)
    dataset = sh.tfds.load(folder, "train", read_config=config, **options)
    with sh.MinibatchSource(dataset, randomize=False, max_sweeps=1) as source:
        return list(source.minibatches(1))


@pytest.fixture(scope="module")
def batches(folder: Path) -> list[sh.Minibatch]:
    return examples(folder)


def plain(values: Any) -> Any:
    """Return values as they are recorded."""
    if isinstance(values, list):
        return [plain(one) for one in values]
    if isinstance(values, float):
        return values.hex()
    return values.hex() if isinstance(values, bytes) else values


def nested(values: list[Any], lengths: list[list[int]]) -> list[Any]:
    """Return flat values in the rows that the lengths say, the innermost ones last."""
    for row_lengths in reversed(lengths):
        rest: Iterator[Any] = iter(values)
        values = [[next(rest) for _ in range(length)] for length in row_lengths]
    return values


def read(batch: sh.Minibatch, name: str, wanted: dict[str, Any]) -> Any:
    """Return a feature of an example as TFDS has it."""
    if f"{name}/ragged_flat_values" in batch:
        lengths = []
        while (key := f"{name}/ragged_row_lengths_{len(lengths)}") in batch:
            lengths.append(batch[key].values.tolist())
        return plain(nested(batch[f"{name}/ragged_flat_values"].values.tolist(), lengths))
    if f"{name}/value" in batch:
        unpack = zlib.decompress if name == "dynamics" else bytes
        stored = zip(batch[f"{name}/value"].values, batch[f"{name}/shape"].values, strict=True)
        tensors = [
            np.frombuffer(unpack(content), wanted["dtype"]).reshape(shape)
            for content, shape in stored
        ]
        return plain(np.array(tensors).reshape(wanted["shape"]).tolist())
    values = batch[name].values
    if wanted["dtype"] != "string":
        assert values.dtype == wanted["dtype"]
    if name.startswith("steps/"):  # a data set in an example: a list of its steps here
        return plain(values.tolist())
    return plain(values.reshape(wanted["shape"]).tolist())


STORED = {*IMAGES, *FRAMES, "deep", "lazy_wave"}


@pytest.mark.parametrize("name", sorted(DECODED.keys() - STORED))
def test_a_feature_is_what_tfds_makes_of_it(batches: list[sh.Minibatch], name: str) -> None:
    for batch, wanted in zip(batches, DECODED[name], strict=True):
        if name.startswith("perhaps") and not len(batch[name].values):
            # TFDS puts the least number where there is none.
            assert wanted["value"] in (-(2**63), [(-np.finfo(np.float32).max).item().hex()] * 2)
        else:
            assert read(batch, name, wanted) == wanted["value"]


def test_decoded_images_are_those_of_tfds(folder: Path) -> None:
    pytest.importorskip("PIL.Image")
    decoders = dict.fromkeys(IMAGES, True)
    for number, batch in enumerate(examples(folder, decoders=decoders)):
        for name in IMAGES:
            wanted = np.array([DECODED[name][number]["value"]])
            assert batch[name].values.dtype == DECODED[name][number]["dtype"]
            # TensorFlow decodes JPEG by a transform that is fast and less exact.
            allowed = 6 if name == "jpeg" else 0
            assert np.max(np.abs(batch[name].values.astype(int) - wanted)) <= allowed


def test_images_of_a_shape_that_features_do_not_know_are_decoded(folder: Path) -> None:
    pytest.importorskip("PIL.Image")
    first, second = (one["value"] for one in DECODED["any_image"])
    streams = sh.StreamDefs(any_image=sh.StreamDef(shape=np.shape(first)))
    config = sh.tfds.ReadConfig(interleave_cycle_length=1)
    dataset = sh.tfds.load(
        folder, "train", read_config=config, streams=streams, decoders={"any_image": True}
    )
    with sh.MinibatchSource(dataset, randomize=False) as source:
        assert source.next_minibatch(1)["any_image"].values.tolist() == [first]
        height, width, _ = np.shape(second)
        with pytest.raises(sh.DataError, match=f"{height} high and {width} wide, not 3 and 4"):
            source.next_minibatch(1)


def decode_wave(content: bytes) -> np.ndarray:
    with wave.open(io.BytesIO(content)) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(np.int16)


def test_decoded_sounds_are_those_of_tfds(folder: Path) -> None:
    found = examples(folder, decoders={"lazy_wave": decode_wave})
    sounds = [batch["lazy_wave"].values[0].tolist() for batch in found]
    assert sounds == [one["value"] for one in DECODED["lazy_wave"]]


@pytest.mark.parametrize("name", [*FRAMES, "deep"])
def test_stored_images_are_the_files_that_tfds_decodes(
    batches: list[sh.Minibatch], name: str
) -> None:
    image = pytest.importorskip("PIL.Image")
    for batch, wanted in zip(batches, DECODED[name], strict=True):
        frames = [np.asarray(image.open(io.BytesIO(one))) for one in batch[name].values]
        assert np.array_equal(
            np.array(frames).reshape(wanted["shape"]),
            np.array(wanted["value"], wanted["dtype"]).reshape(wanted["shape"]),
        )


def test_names_of_classes_are_those_of_tfds(folder: Path) -> None:
    assert sh.tfds.load(folder, "train").label_names("label") == ["cat", "dog"]
