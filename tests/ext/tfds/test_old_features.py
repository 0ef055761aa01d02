"""Folders that an old TFDS prepared are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.ext.tfds.folders import write_folder
from tests.ext.tfds.old_tree import OLD_TREE, old, tensor
from tests.ext.tfds.recordings import FOLDER, recorded
from tests.ext.tfds.test_recorded_features import read

import sweephand as sh

DECODED = {case["name"]: case["values"] for case in recorded("features")}


def test_old_trees_are_read_as_those_of_today(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "kinds", tmp_path / "1.0.0"))
    (folder / "features.json").write_text(json.dumps(OLD_TREE))
    dataset = sh.tfds.load(folder, "train")
    with sh.MinibatchSource(dataset, randomize=False, max_sweeps=1) as source:
        assert len(source.streams) == 18
        for number, batch in enumerate(source.minibatches(1)):
            for name in source.streams:
                if name != "image":
                    wanted = DECODED[name][number]
                    assert read(batch, name, wanted) == wanted["value"], name


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (old("text_feature.Text", {"use_encoder": True}), "'x' is a .*Text, which is not read"),
        (old("my.Own", {}), "'x' is a .*my.Own, which is not read"),
    ],
)
def test_an_old_feature_that_is_not_known_is_refused_by_name(
    tmp_path: Path, feature: object, reason: str
) -> None:
    tree = old("features_dict.FeaturesDict", {"x": feature, "y": tensor("int64")})
    write_folder(tmp_path, {"s": [[{"x": b"", "y": 5}]]}, tree)
    with pytest.raises(ValueError, match=reason):
        sh.tfds.load(tmp_path, "s")
    dataset = sh.tfds.load(tmp_path, "s", streams=sh.StreamDefs(y=sh.StreamDef()))
    with sh.MinibatchSource(dataset, randomize=False) as source:
        assert source.next_minibatch(1)["y"].values.tolist() == [5]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (5, "must be a dict, got 5"),
        ("{", "not valid JSON in a feature"),
        ("5", "must be a dict"),
    ],
)
def test_a_damaged_old_feature_is_an_error_with_the_file(
    tmp_path: Path, content: object, reason: str
) -> None:
    tree = old("features_dict.FeaturesDict", {"x": old("a.Tensor", content, proto_cls="T")})
    write_folder(tmp_path, {"s": [[{"x": 1}]]}, tree)
    with pytest.raises(sh.DataError, match=reason) as caught:
        sh.tfds.load(tmp_path, "s")
    assert caught.value.file == str(tmp_path / "features.json")
