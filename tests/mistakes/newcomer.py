"""What newcomers have: arrays, rows, small files, and the packages that they come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import sweephand as sh

X = np.arange(12.0).reshape(4, 3)
ROWS = [{"x": [1, 2], "y": 0}, {"x": [3], "y": 1}]


class Packages:
    """The packages that newcomers come from; a row is skipped without those that it names."""

    _MODULES: ClassVar = {
        "pd": "pandas",
        "pa": "pyarrow",
        "pq": "pyarrow.parquet",
        "torch": "torch",
        "hf": "datasets",
    }

    def __getattr__(self, name: str) -> Any:
        return pytest.importorskip(self._MODULES[name])


def packages() -> Any:
    return Packages()


def with_packages(call: Callable[[Any], object]) -> Callable[[Path], object]:
    return lambda folder: call(packages())


def write(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def at(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return at


CTF = write("train.ctf", "0 |A 1 2 |S 3:1\n1 |A 3 4 |S 9:1\n")
JSONL = write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))


def tfrecord(folder: Path) -> Path:
    sh.tfrecord.write(folder / "train.tfrecord", ROWS)
    return folder / "train.tfrecord"


def npz(folder: Path) -> Path:
    np.savez(folder / "train.npz", x=X, y=np.arange(4))
    return folder / "train.npz"


def parquet(folder: Path) -> Path:
    them = packages()
    them.pq.write_table(them.pa.table({"x": [[1, 2], [3]], "y": [0, 1]}), folder / "a.parquet")
    return folder / "a.parquet"


def serve(data: Any) -> sh.MinibatchSource:
    return sh.MinibatchSource(data)


def both(folder: Path) -> Path:
    parquet(folder)
    JSONL(folder)
    return folder


def tensors(them: Any) -> Any:
    return them.torch.utils.data.TensorDataset(them.torch.ones(3, 2), them.torch.arange(3))


def dataset(them: Any) -> Any:
    return them.hf.Dataset.from_dict({"x": [1, 2]})


def splits(folder: Path) -> Path:
    them = packages()
    them.hf.disable_progress_bars()
    them.hf.DatasetDict(train=dataset(them), test=dataset(them)).save_to_disk(folder / "saved")
    return folder / "saved"


def closed(path: Path) -> Any:
    with path.open() as file:
        return file


def in_folder(name: str, file: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """Write a file into a folder of the folder, which is returned."""

    def at(folder: Path) -> Path:
        (folder / name).mkdir()
        file(folder / name)
        return folder

    return at
