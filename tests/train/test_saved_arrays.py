"""Files of arrays: all comes back, NumPy opens them, and damage is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample

import sweephand as sh
from sweephand.train.states import SavedArrays


def arrays() -> dict[str, Any]:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    dtypes = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    made = {dtype: (rng.normal(size=(3, 2)) * 9).astype(dtype) for dtype in dtypes}
    return made | {
        "bfloat16": np.arange(3).astype(ml_dtypes.bfloat16),
        "scalar": np.float32(3).reshape(()),
        "scalar.npy": np.float64(4).reshape(()),
        "empty": np.zeros((0, 4), np.float64),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "ünïcode/name": np.ones(1, np.complex64),
    }


def write(path: Path, given: dict[str, Any]) -> None:
    with path.open("wb") as file:
        SavedArrays.of(given).write(file)


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    given = arrays()
    write(tmp_path / "file", given)
    found = SavedArrays.read(tmp_path / "file")
    found.check("model", SavedArrays.of(given))
    with np.load(tmp_path / "file") as opened:
        for name, array in given.items():
            for back in (found.arrays[name], opened[f"{name}.npy"]):
                assert (back.shape, back.tobytes()) == (array.shape, array.tobytes())


def test_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, {"a": np.arange(3.0)})
    good = path.read_bytes()
    for length in sample(range(len(good)), 64):
        path.write_bytes(good[:length])
        with pytest.raises(sh.StateError, match="no file of arrays"):
            SavedArrays.read(path)
    data = good.index(np.arange(3.0).tobytes())
    for place in range(data, data + 24):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(sh.StateError, match="no file of arrays"):
            SavedArrays.read(path)
