"""Types of Arrow that become numbers of a declared dtype, and samples of a shape."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.rows import rows

import sweephand as sh

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def opened(folder: Path, arrays: list[Any], streams: Any = None) -> sh.Deserializer:
    """Parquet files, each with one column."""
    for number, array in enumerate(arrays):
        pq.write_table(pa.table({"x": array}), folder / f"{number}.parquet")
    return sh.ParquetDeserializer(str(folder / "*.parquet"), streams)


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        (("int32", "int64"), "int64"),
        (("int64", "int32"), "int32"),
        (("uint64", "int8"), "int16"),
        (("int64", "float64"), "float64"),
        (("float32", "float64"), "float32"),
        (("int32", "float32"), None),
    ],
)
def test_files_of_several_types_are_numbers_of_the_declared_one(
    types: tuple[str, str], dtype: str | None, is_list: bool, tmp_path: Path
) -> None:
    values = [[1, 2], [3]] if is_list else [1, 2, 3]
    kinds = [pa.list_(pa.type_for_alias(one)) if is_list else one for one in types]
    corpus = opened(
        tmp_path, [pa.array(values, one) for one in kinds], {"x": sh.StreamDef(dtype=dtype)}
    )
    if dtype is None:
        with pytest.raises(sh.DataError, match="must agree"):
            rows(corpus)
        return
    found = [np.ravel(row["x"]).tolist() for row in rows(corpus)]
    assert found == 2 * [np.ravel(one).tolist() for one in values]


def test_a_number_that_does_not_fit_the_declared_type_is_one_damaged_row(
    tmp_path: Path,
) -> None:
    arrays = [pa.array([1, 2**53 + 1, 3]), pa.array([0.5])]
    corpus = opened(tmp_path, arrays, {"x": sh.StreamDef(dtype="float64")})
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=1) as source:
        assert source.next_minibatch(9)["x"].values.tolist() == [1, 3, 0.5]
        assert [error.sequence for error in source.errors] == [1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_decimals_are_the_nearest_numbers_of_a_declared_dtype(
    dtype: str, tmp_path: Path
) -> None:
    values = [Decimal("1.25"), Decimal("-3.00"), Decimal("0.10")]
    array = pa.array(values, pa.decimal128(10, 2))
    found = rows(opened(tmp_path, [array], {"x": sh.StreamDef(dtype=dtype)}))
    wanted = np.array([1.25, -3, 0.1]).astype(dtype)
    assert [row["x"] for row in found] == wanted[:, None].tolist()
    with pytest.raises(sh.DataError, match="declare a dtype"):
        opened(tmp_path, [array])


def test_decimals_that_are_no_integers_of_a_dtype_are_damaged_rows(tmp_path: Path) -> None:
    lists = pa.array([[5], None, [2**63], [7, 8]], pa.list_(pa.decimal128(20, 0)))
    corpus = opened(tmp_path, [lists], {"x": sh.StreamDef(dtype="int64")})
    assert [row["x"] for row in rows(corpus, max_errors=2)] == [[5], [7, 8]]


@pytest.mark.parametrize("permutation", [None, [1, 0]])
def test_tensors_of_one_shape_are_samples(permutation: Any, tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=permutation)
    stored = pa.array([list(range(6)), list(range(6, 12))], pa.list_(pa.int32(), 6))
    array = pa.ExtensionArray.from_storage(kind, stored)
    found = rows(opened(tmp_path, [array]))
    assert [row["x"] for row in found] == array.to_numpy_ndarray()[:, None].tolist()


def test_a_date_that_python_does_not_have_is_a_damaged_row(tmp_path: Path) -> None:
    days = pa.array([10**7], pa.int32()).cast(pa.date32())
    structs = pa.StructArray.from_arrays([days], ["day"])
    with pytest.raises(sh.DataError, match="no Python object") as caught:
        rows(opened(tmp_path, [structs]))
    assert (caught.value.stream, caught.value.sequence) == ("x", 0)
