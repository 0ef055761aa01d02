"""Texts are bytes whatever holds them; NaN is a value, and a null an error or passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sweephand as sh


def served(corpus: sh.Deserializer, **options: Any) -> tuple[list[Any], list[str]]:
    """All sequences of the stream x, and what was passed over."""
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        found = []
        for minibatch in source.minibatches(100):
            values = minibatch["x"].values
            assert values.dtype.kind in "fiubO"
            found += [
                values[a:b].tolist()
                for a, b in zip(
                    minibatch["x"].offsets, minibatch["x"].offsets[1:], strict=False
                )
            ]
        return found, [error.reason for error in source.errors]


class Chunk(sh.UserDeserializer):
    def __init__(self, data: object) -> None:
        self._data = data

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        return 1

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        return {"x": self._data}


def mapped(values: Any, **options: Any) -> sh.Deserializer:
    numbers = sh.ArrayDeserializer({"n": np.arange(len(values))})
    return numbers.map(
        lambda row: {"x": values[int(row["n"][0])]},
        name="pick",
        streams={"x": sh.StreamDef()},
        **options,
    )


@pytest.mark.parametrize("dtype", ["U", ">U3", "S"])
def test_several_texts_are_no_sample(dtype: str) -> None:
    texts = np.array([["ab", "e"], ["", "c"]]).astype(dtype)
    for make in (lambda: sh.ArrayDeserializer({"x": texts}), lambda: served(Chunk(texts))):
        with pytest.raises((ValueError, sh.DataError), match="several texts in a sample"):
            make()
    with pytest.raises(sh.DataError, match=r"texts of shape \(2, 2\)"):
        served(sh.MapDeserializer([{"x": texts}]))


# Nulls


@pytest.fixture
def packages() -> SimpleNamespace:
    return SimpleNamespace(
        pd=pytest.importorskip("pandas"), pa=pytest.importorskip("pyarrow"), nan=np.nan
    )


NAN = [[1.0], ["nan"]]
FRAMES_WITH_NAN: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "float64": (lambda p: [1.0, p.nan], NAN),
    "objects": (lambda p: np.array([1.0, p.nan], object), NAN),
    "lists": (lambda p: [[1.0, p.nan], [2.0]], [[1.0, "nan"], [2.0]]),
    "arrays": (lambda p: [np.array([1, p.nan], "f4"), np.ones(1, "f4")], [[1, "nan"], [1]]),
    "all": (lambda p: [p.nan, p.nan], [["nan"], ["nan"]]),
}


def named(found: list[Any]) -> list[Any]:
    return [["nan" if one != one else one for one in row] for row in found]


@pytest.mark.parametrize("form", FRAMES_WITH_NAN)
@pytest.mark.parametrize("index", [None, ["a", "b"]], ids=["", "index"])
def test_nan_in_a_data_frame_is_a_value(
    form: str, index: Any, packages: SimpleNamespace
) -> None:
    make, wanted = FRAMES_WITH_NAN[form]
    frame = packages.pd.DataFrame({"n": [1, 2], "x": make(packages)}, index=index)
    found, errors = served(sh.ArrowDeserializer(frame, ["x"]))
    assert (named(found), errors) == (wanted, [])


FRAMES_WITH_NULL: dict[str, Callable[[Any], Any]] = {
    "Int64": lambda p: p.pd.array([1, None], "Int64"),
    "string": lambda p: p.pd.array(["a", None], "string"),
    "category": lambda p: p.pd.Categorical(["a", None]),
    "arrow": lambda p: p.pd.array([1.0, None], dtype=p.pd.ArrowDtype(p.pa.float64())),
    "NaN beside text": lambda p: np.array(["a", p.nan], object),
    "NA beside integers": lambda p: np.array([1, p.pd.NA], object),
}


@pytest.mark.parametrize("form", FRAMES_WITH_NULL)
def test_a_null_of_pandas_is_an_error_that_says_what_to_do(
    form: str, packages: SimpleNamespace
) -> None:
    data = FRAMES_WITH_NULL[form](packages)
    corpus = sh.ArrowDeserializer(packages.pd.DataFrame({"x": data}))
    with pytest.raises(sh.DataError, match=r"is null.*fillna.*dropna.*max_errors") as caught:
        served(corpus)
    assert (caught.value.stream, caught.value.sequence) == ("x", 1)
    found, errors = served(corpus, max_errors=1)
    assert (len(found), len(errors)) == (1, 1)
    for given in (packages.pd.Series(data), data):
        with pytest.raises((ValueError, TypeError), match=r"fillna.*dropna"):
            sh.ArrayDeserializer({"x": given})


@pytest.mark.parametrize(
    "values",
    [
        [1.5, None],
        ["a", None],
        [["a"], ["b", None]],
        [["a"], [None]],
        [[1.0], None],
        [[1], [1, None]],
    ],
)
def test_a_null_is_an_error_or_passed_over(
    values: list[Any], packages: SimpleNamespace, tmp_path: Path
) -> None:
    pa, path = packages.pa, tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"x": one}) + "\n" for one in values))
    array = pa.array(values)
    corpora = [sh.ArrowDeserializer(pa.table({"x": array})), parquet(array, tmp_path)]
    if values[0] == "a":
        corpora.append(sh.ArrowDeserializer(pa.table({"x": array.dictionary_encode()})))
    for corpus in (*corpora, sh.JSONLDeserializer(path)):
        with pytest.raises(sh.DataError, match=r"null.*fillna.*dropna.*max_errors"):
            served(corpus)
        assert len(served(corpus, max_errors=1)[0]) == 1


def parquet(array: Any, folder: Path) -> sh.Deserializer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": array}), folder / "x.parquet")
    return sh.ParquetDeserializer(folder / "x.parquet", index=None)


def test_a_column_of_nulls_alone_is_told(packages: SimpleNamespace) -> None:
    with pytest.raises(sh.DataError, match=r"all values are null.*fillna"):
        sh.ArrowDeserializer(packages.pa.table({"x": packages.pa.nulls(2)}))


@pytest.mark.parametrize("null", ["None", "NA", "NaT"])
@pytest.mark.parametrize("first", [1.0, "a"])
def test_a_null_item_is_an_error_or_passed_over(
    null: str, first: Any, packages: SimpleNamespace
) -> None:
    absent = None if null == "None" else getattr(packages.pd, null)
    for corpus in (sh.MapDeserializer([{"x": first}, {"x": absent}]), mapped([first, absent])):
        with pytest.raises(sh.DataError, match=r"fillna.*dropna.*max_errors"):
            served(corpus)
        assert len(served(corpus, max_errors=1)[0]) == 1
    with pytest.raises(TypeError, match=r"item 1 is .*fillna.*dropna"):
        sh.ArrayDeserializer({"x": [first, absent]})


def test_columns_of_other_libraries_are_arrays(packages: SimpleNamespace) -> None:
    pd, pa = packages.pd, packages.pa
    for data in (
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Index(["a", "b"]),
        pd.Series(["a", "b"], dtype=object),
        pa.array(["a", "b"]),
        pa.chunked_array([[b"a"], [b"b"]]),
    ):
        assert served(sh.ArrayDeserializer({"x": data})) == ([[b"a"], [b"b"]], [])
    for data in (pd.Series([1, 2], dtype="Int64"), pa.array([1, 2])):
        assert served(sh.ArrayDeserializer({"x": data})) == ([[1], [2]], [])
