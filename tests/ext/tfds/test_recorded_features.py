"""Features of every kind are what was recorded of the real TFDS."""

from __future__ import annotations

import io
import shutil
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


@pytest.mark.parametrize("name", sorted(STORED - {"jpeg", "lazy_wave"}))
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
