"""What newcomers hand over as data, and what they are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.mistakes.mistake import Mistake, assert_said, each
from tests.mistakes.newcomer import ROWS, X, dataset, serve, tensors, with_packages

import sweephand as sh

ARRAYS = "sh.ArrayDeserializer({'x': "
MISTAKES = [
    Mistake("an array", lambda _: serve(X), TypeError, ("ndarray", ARRAYS)),
    Mistake(
        "an array as streams", lambda _: sh.ArrayDeserializer(X), TypeError, ("ndarray", ARRAYS)
    ),
    Mistake(
        "a tensor",
        with_packages(lambda p: serve(p.torch.ones(3))),
        TypeError,
        ("Tensor", ARRAYS),
    ),
    Mistake(
        "a list of numbers", lambda _: serve([1, 2, 3]), TypeError, ("a list of int", ARRAYS)
    ),
    Mistake(
        "rows",
        lambda _: serve(ROWS),
        TypeError,
        ("a list of dict", "sh.MapDeserializer(rows)"),
    ),
    Mistake(
        "rows as streams",
        lambda _: sh.ArrayDeserializer(ROWS),  # type: ignore[arg-type]
        TypeError,
        ("a list of dict", "sh.MapDeserializer(rows)"),
    ),
    Mistake("a path", lambda _: serve("a.parquet"), TypeError, ("sh.open('a.parquet')",)),
    Mistake("nothing", lambda _: serve(None), TypeError, ("NoneType", "sh.open")),
    Mistake("an empty list", lambda _: serve([]), ValueError, ("at least one deserializer",)),
    Mistake(
        "a class", lambda _: serve(sh.ArrayDeserializer), TypeError, ("ArrayDeserializer(...)",)
    ),
    Mistake(
        "a dict of deserializers",
        lambda _: serve({"a": sh.ArrayDeserializer({"x": X})}),
        TypeError,
        ("in a list",),
    ),
    Mistake(
        "a deserializer beside a dict",
        lambda _: serve([sh.ArrayDeserializer({"x": X}), {"y": X}]),
        TypeError,
        ("every one of a list must be a Deserializer",),
    ),
    Mistake(
        "a generator",
        lambda _: serve(row for row in ROWS),
        TypeError,
        ("gone after one pass", "sh.MapDeserializer(list(data))"),
    ),
    Mistake(
        "an iterator as items",
        lambda _: sh.MapDeserializer(iter(ROWS)),  # type: ignore[arg-type]
        TypeError,
        ("__getitem__", "sh.MapDeserializer(list(data))"),
    ),
    Mistake(
        "a table as streams",
        with_packages(lambda p: sh.ArrayDeserializer(p.pa.table({"x": [1]}))),
        TypeError,
        ("got Table", "sh.ArrowDeserializer(table)"),
    ),
    Mistake(
        "a DataFrame as streams",
        with_packages(lambda p: sh.ArrayDeserializer(p.pd.DataFrame({"x": [1]}))),
        TypeError,
        ("got DataFrame", "sh.ArrowDeserializer(table)"),
    ),
    Mistake(
        "a DataFrame as items",
        with_packages(lambda p: sh.MapDeserializer(p.pd.DataFrame({"x": [1]}))),
        TypeError,
        ("got DataFrame", "sh.ArrowDeserializer(table)"),
    ),
    Mistake(
        "a DataFrame as a path",
        with_packages(lambda p: sh.open(p.pd.DataFrame({"x": [1]}))),
        TypeError,
        ("sh.open takes paths", "sh.ArrowDeserializer(table)"),
    ),
    Mistake(
        "a DataFrame as files",
        with_packages(lambda p: sh.ParquetDeserializer(p.pd.DataFrame({"x": [1]}))),
        TypeError,
        ("paths, globs or URLs", "got DataFrame", "ArrowDeserializer"),
    ),
    Mistake(
        "a DataFrame of mixed types",
        with_packages(lambda p: serve(p.pd.DataFrame({"x": [1, "a"]}))),
        ValueError,
        ("no table of Arrow", "column x"),
    ),
    Mistake(
        "a DataFrame of dates",
        with_packages(lambda p: serve(p.pd.DataFrame({"d": p.pd.to_datetime(["2020-01-01"])}))),
        sh.DataError,
        ("no column can be served by itself", "'d': timestamp"),
    ),
    Mistake(
        "a Series",
        with_packages(lambda p: serve(p.pd.Series([1, 2]))),
        TypeError,
        ("Series", "to_numpy()"),
    ),
    Mistake(
        "a column with nulls",
        with_packages(lambda p: sh.ArrayDeserializer({"x": p.pa.array([1, None])})),
        ValueError,
        ("stream 'x' has nulls", "fill or drop"),
    ),
    Mistake(
        "a TensorDataset",
        with_packages(lambda p: serve(tensors(p))),
        TypeError,
        ("TensorDataset", "sh.ArrayDeserializer({'x': dataset.tensors[0]"),
    ),
    Mistake(
        "a DataLoader",
        with_packages(lambda p: serve(p.torch.utils.data.DataLoader(tensors(p)))),
        TypeError,
        ("DataLoader", "sh.MapDeserializer(loader.dataset"),
    ),
    Mistake(
        "tuples with too many names",
        with_packages(lambda p: sh.MapDeserializer(tensors(p), ["x", "y", "z"])),
        sh.DataError,
        ("as many values as there are streams", "this one has 2"),
    ),
    Mistake(
        "a data set that streams",
        with_packages(lambda p: serve(dataset(p).to_iterable_dataset())),
        TypeError,
        ("IterableDataset", "without streaming=True", "dataset.to_parquet('data.parquet')"),
    ),
    Mistake(
        "all splits",
        with_packages(lambda p: serve(p.hf.DatasetDict(train=dataset(p), test=dataset(p)))),
        TypeError,
        ("DatasetDict", "it has the splits train, test: give one, such as data['train']"),
    ),
    Mistake(
        "all splits of data that stream",
        with_packages(
            lambda p: serve(p.hf.IterableDatasetDict(train=dataset(p).to_iterable_dataset()))
        ),
        TypeError,
        ("IterableDatasetDict", "without streaming=True"),
    ),
    Mistake(
        "items that are lists",
        lambda _: sh.MapDeserializer([[1, 2], [3]]),
        sh.DataError,
        ("an item must be a dict, got list", "ArrayDeserializer"),
    ),
    Mistake(
        "a dict as items",
        lambda _: sh.MapDeserializer({"x": X}),  # type: ignore[arg-type]
        TypeError,
        ("got dict", "sh.ArrayDeserializer(data)"),
    ),
    Mistake(
        "a field that items lack",
        lambda _: sh.MapDeserializer(ROWS, ["z"]),
        sh.DataError,
        ("no field 'z', there are: x, y",),
    ),
    Mistake(
        "labels of another length",
        lambda _: sh.ArrayDeserializer({"x": X, "y": [1, 2]}),
        ValueError,
        ("'x' has 4, 'y' has 2",),
    ),
    Mistake(
        "a field without data",
        lambda _: sh.ArrayDeserializer({"x": X}, ["z"]),
        ValueError,
        ("no data for stream 'z', there are: x",),
    ),
    Mistake(
        "None among numbers",
        lambda _: sh.ArrayDeserializer({"x": [1, None, 3]}),
        TypeError,
        ("stream 'x'", "item 1 is None"),
    ),
    Mistake(
        "dicts among data",
        lambda _: sh.ArrayDeserializer({"x": ROWS}),
        TypeError,
        ("stream 'x'", "MapDeserializer(rows)"),
    ),
    Mistake(
        "text beside numbers",
        lambda _: sh.ArrayDeserializer({"x": [1, "a"]}),
        ValueError,
        ("'x' mixes integers and text",),
    ),
    Mistake(
        "a text as data",
        lambda _: sh.ArrayDeserializer({"x": "words"}),
        TypeError,
        ("'x' must have a first axis",),
    ),
    Mistake(
        "a tuple of three",
        lambda _: sh.ArrayDeserializer({"x": (1, 2, 3)}),
        TypeError,
        ("a tuple is (values, offsets), got 3", "give a list"),
    ),
    Mistake(
        "a number as a name",
        lambda _: sh.ArrayDeserializer({1: X}),  # type: ignore[dict-item]
        TypeError,
        ("the name of a stream is text, got 1",),
    ),
    Mistake(
        "a shape that data have not",
        lambda _: sh.ArrayDeserializer({"x": X}, {"x": sh.StreamDef(shape=(28, 28))}),
        ValueError,
        ("samples of shape (3,), not (28, 28)", "leave the shape out"),
    ),
]


@each(MISTAKES)
def test_a_mistake_is_told_with_its_way_out(mistake: Mistake, tmp_path: Path) -> None:
    assert_said(mistake, tmp_path)


def test_no_message_shows_a_whole_array() -> None:
    for data in (np.arange(10_000), list(range(10_000)), [np.arange(10_000)] * 3):
        with pytest.raises(TypeError) as caught:
            serve(data)
        assert len(str(caught.value)) < 200
