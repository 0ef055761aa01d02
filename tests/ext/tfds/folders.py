"""Prepared folders that tests write themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweephand import tfrecord


def tensor(dtype: str, *shape: int, encoding: str = "none") -> dict[str, Any]:
    dimensions = {"dimensions": [str(extent) for extent in shape]} if shape else {}
    return {"tensor": {"shape": dimensions, "dtype": dtype, "encoding": encoding}}


def tree(**features: Any) -> dict[str, Any]:
    return {"pythonClassName": "FeaturesDict", "featuresDict": {"features": features}}


def write_folder(
    folder: Path,
    splits: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    features: Mapping[str, Any] | None = None,
    *,
    name: str = "demo",
    **info: Any,
) -> Path:
    """Write the examples of every shard of every split, and the JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    described = []
    for split, shards in splits.items():
        for number, examples in enumerate(shards):
            file = f"{name}-{split}.tfrecord-{number:05}-of-{len(shards):05}"
            tfrecord.write(folder / file, examples)
        lengths = [str(len(examples)) for examples in shards]
        described.append({"name": split, "shardLengths": lengths, "numBytes": "9"})
    content = {"name": name, "version": "1.0.0", "splits": described, **info}
    (folder / "dataset_info.json").write_text(json.dumps(content))
    if features is not None:
        (folder / "features.json").write_text(json.dumps(features))
    return folder


def numbered(*lengths: int) -> list[list[dict[str, Any]]]:
    """Shards of examples that hold 100 times their shard, and their number in it."""
    return [[{"x": 100 * shard + n} for n in range(size)] for shard, size in enumerate(lengths)]


NUMBERED = tree(x=tensor("int64"))
