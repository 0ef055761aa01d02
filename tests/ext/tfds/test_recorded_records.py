"""TFRecord files that TensorFlow wrote are read, and ours are the same bytes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ext.tfds.recordings import FOLDER

import sweephand as sh

EXAMPLES: list[dict[str, Any]] = [
    {"n": 0, "x": [1, -1, 2**63 - 1, -(2**63)]},
    {"f": np.array([0.1, -0.0], np.float32), "n": 1},
    {"b": [b"", b"\xff"], "n": 2},
    {"b": [], "f": [], "n": 3, "x": []},
]
PLAIN = (FOLDER / "plain.tfrecord").read_bytes()


@pytest.mark.parametrize("kind", ["plain", "gzip", "zlib"])
def test_what_tensorflow_wrote_is_read(tmp_path: Path, kind: str) -> None:
    path = shutil.copy(FOLDER / f"{kind}.tfrecord", tmp_path)
    streams = sh.StreamDefs(
        n=sh.StreamDef(defines_mb_size=True),
        x=sh.StreamDef(),
        f=sh.StreamDef(),
        b=sh.StreamDef(),
    )
    corpus = sh.TFRecordDeserializer(path, streams)
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        batch = source.next_minibatch(4)
    found = {name: [one.tolist() for one in batch[name].as_sequences()] for name in streams}
    assert found == {
        "n": [[0], [1], [2], [3]],
        "x": [[1, -1, 2**63 - 1, -(2**63)], [], [], []],
        "f": [[], [float(np.float32(0.1)), -0.0], [], []],
        "b": [[], [], [b"", b"\xff"], []],
    }
    assert np.signbit(batch["f"].values[1])


def test_what_is_written_is_what_tensorflow_wrote(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    sh.tfrecord.write(path, EXAMPLES)
    assert path.read_bytes() == PLAIN
