"""TFDS and TensorFlow do what was recorded, and read what we write: with SWEEPHAND_TFDS=1."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.ext.tfds.recordings import FOLDER, recorded

import sweephand as sh

if os.environ.get("SWEEPHAND_TFDS") != "1":
    pytest.skip("SWEEPHAND_TFDS=1 compares with TFDS", allow_module_level=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what TensorFlow warns of is not ours
    import tensorflow as tf
    import tensorflow_datasets as tfds
    from tests.ext.tfds import record_tfds

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", ["examples", "orders", "splits", "roundings", "features"])
def test_the_recording_is_what_tfds_does(name: str) -> None:
    assert record_tfds.RECORDINGS[name]() == recorded(name)


def test_the_files_are_what_tensorflow_writes(tmp_path: Path) -> None:
    record_tfds.write_records(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()


EXAMPLES: list[dict[str, Any]] = [
    {"n": n, "x": [n, -n, 2**63 - 1][:n], "f": [n + 0.5, -1.0], "b": [b"", b"\xff" * n]}
    for n in range(5)
]


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_tensorflow_reads_what_we_write(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "x.tfrecord"
    sh.tfrecord.write(path, EXAMPLES, compression=compression)
    records = tf.data.TFRecordDataset(str(path), (compression or "").upper())
    columns = tf.io.parse_example(
        next(iter(records.batch(5))),
        {
            "n": tf.io.FixedLenFeature((), tf.int64),
            "x": tf.io.RaggedFeature(tf.int64),
            "f": tf.io.FixedLenFeature((2,), tf.float32),
            "b": tf.io.RaggedFeature(tf.string),
        },
    )
    assert columns["n"].numpy().tolist() == [one["n"] for one in EXAMPLES]
    assert columns["x"].to_list() == [one["x"] for one in EXAMPLES]
    assert columns["f"].numpy().tolist() == [one["f"] for one in EXAMPLES]
    assert columns["b"].to_list() == [one["b"] for one in EXAMPLES]


@pytest.mark.parametrize("names", [("a/1.0.0", "b/1.0.0"), ("a/1.0.0", "a/2.0.0")])
def test_several_folders_are_one_as_in_tfds(tmp_path: Path, names: tuple[str, str]) -> None:
    folders = [shutil.copytree(FOLDER / "numbers", tmp_path / name) for name in names]
    config = {"interleave_cycle_length": 3, "interleave_block_length": 2, "shuffle_seed": 5}
    theirs = tfds.builder_from_directories(folders).as_dataset(
        split="train[20%:]",
        shuffle_files=True,
        read_config=tfds.ReadConfig(**config, add_tfds_id=True),
    )
    ids = [one["tfds_id"].decode() for one in theirs.as_numpy_iterator()]
    ours = sh.tfds.load(folders, "train[20%:]", True, sh.tfds.ReadConfig(**config))
    assert ours.ids(0, len(ours)) == ids
