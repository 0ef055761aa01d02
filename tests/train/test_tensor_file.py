"""The safetensors format: ours reads theirs, theirs reads ours, lies are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample

import sweephand as sh
from sweephand.train.checkpoint.safetensors_file import SavedTensors


class TestTensorFile:
    def write(self, path: Path, arrays: dict[str, Any]) -> None:
        with path.open("wb") as file:
            SavedTensors.of_arrays(arrays).write(file)

    def arrays(self) -> dict[str, Any]:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        rng = np.random.default_rng(0)
        dtypes = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
        arrays = {dtype: (rng.normal(size=(3, 2)) * 9).astype(dtype) for dtype in dtypes}
        return arrays | {
            "bfloat16": np.arange(3).astype(ml_dtypes.bfloat16),
            "scalar": np.float32(3).reshape(()),
            "empty": np.zeros((0, 4), np.float64),
            "transposed": np.arange(6.0).reshape(2, 3).T,
            "ünïcode.name": np.ones(1, np.complex64),
        }

    def test_arrays_come_back_as_they_were(self, tmp_path: Path) -> None:
        arrays = self.arrays()
        self.write(tmp_path / "file", arrays)
        found = SavedTensors.read(tmp_path / "file").arrays()
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            back = found[name]
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert back.tobytes() == array.tobytes()

    def test_the_reference_implementation_agrees(self, tmp_path: Path) -> None:
        reference = pytest.importorskip("safetensors.numpy")
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays().items()}
        self.write(tmp_path / "ours", arrays)
        theirs = reference.load_file(tmp_path / "ours")
        reference.save_file(arrays, tmp_path / "theirs", {"a": "b"})
        ours = SavedTensors.read(tmp_path / "theirs").arrays()
        for name, array in arrays.items():
            assert theirs[name].tobytes() == array.tobytes()
            assert theirs[name].shape == ours[name].shape == array.shape
            assert ours[name].tobytes() == array.tobytes()

    def test_every_truncation_and_many_lies_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        self.write(path, {"a": np.arange(3.0), "b": np.arange(4, dtype=np.int16)})
        good = path.read_bytes()
        for length in sample(range(len(good)), 64):
            path.write_bytes(good[:length])
            with pytest.raises(sh.StateError, match="no safetensors file"):
                SavedTensors.read(path)
        for lie in (
            good + b"x",
            good.replace(b'"a"', b'"b"'),
            good.replace(b"F64", b"F65"),
            good.replace(b"[3]", b"[4]"),
            good.replace(b"[3]", b"3.0"),
            good.replace(b"[0, 24]", b"[8, 24]"),
            good.replace(b"[0, 24]", b"[0, 99]"),
            good.replace(b"[3]", b"-3 "),
            (2**63).to_bytes(8, "little") + good[8:],
        ):
            path.write_bytes(lie)
            with pytest.raises(sh.StateError, match="no safetensors file"):
                SavedTensors.read(path)

    def test_a_dtype_without_a_name_is_refused(self) -> None:
        for array in (np.array(["a"]), np.ones(1, ">f4"), np.array([None])):
            with pytest.raises(TypeError, match="cannot be saved"):
                SavedTensors.of_arrays({"a": array})
