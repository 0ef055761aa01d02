"""Data in memory are served as they are: dicts, DataFrames, tables and data sets."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import sweephand as sh

COLUMNS = {"x": [0.5, 1.5, 2.5], "y": [0, 1, 2]}


def delivered(data: Any, size: int = 2) -> dict[str, list[Any]]:
    with sh.MinibatchSource(data, randomize=False, max_sweeps=1) as source:
        minibatch = source.next_minibatch(size)
        return {name: minibatch[name].values.tolist() for name in minibatch}


def test_a_dict_is_a_corpus_of_arrays() -> None:
    data = {name: np.array(column) for name, column in COLUMNS.items()}
    assert delivered(data) == {"x": [0.5, 1.5], "y": [0, 1]}
    given, wrapped = (
        sh.MinibatchSource(one, randomization_seed=3)
        for one in (data, sh.ArrayDeserializer(data))
    )
    assert given.get_checkpoint_state() == wrapped.get_checkpoint_state()
    assert given.next_minibatch(3).ids == wrapped.next_minibatch(3).ids


def test_a_dict_may_hold_tensors_and_lists() -> None:
    torch = pytest.importorskip("torch")
    data = {"x": torch.ones(3, 2), "tokens": [[1, 2], [3], [4]], "text": ["a", "b", "c"]}
    found = delivered(data, 3)
    assert (found["tokens"], found["text"]) == ([1, 2, 3], [b"a", b"b"])


def test_a_pandas_frame_is_a_table() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(COLUMNS)
    assert delivered(frame) == {"x": [0.5, 1.5], "y": [0, 1]}
    # The numbers of the rows that are left are no stream.
    assert delivered(frame[frame.y > 0]) == {"x": [1.5, 2.5], "y": [1, 2]}
    lists = pd.DataFrame({"tokens": [[1, 2], [3]], "text": ["a", "b"]})
    assert delivered(lists, 3) == {"tokens": [1, 2, 3], "text": [b"a", b"b"]}
    chosen = sh.ArrowDeserializer(frame, ["y"])
    assert delivered(chosen) == {"y": [0, 1]}


def test_a_polars_frame_and_a_table_are_corpora() -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = pl.DataFrame({**COLUMNS, "tokens": [[1], [2, 3], [4]], "text": ["a", "b", "c"]})
    wanted = {"x": [0.5, 1.5], "y": [0, 1]}
    lists = {"tokens": [1, 2, 3], "text": [b"a", b"b"]}
    assert delivered(frame, 3) == wanted | lists
    assert delivered(pa.table(COLUMNS)) == wanted
    with pytest.raises(TypeError, match="ArrowDeserializer"):
        sh.MinibatchSource(frame.lazy())


def test_a_stream_of_batches_is_read_once_and_copied_with_its_source() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table(COLUMNS)
    source = sh.MinibatchSource(table.to_reader(), randomize=False)
    source.next_minibatch(2)
    copied = pickle.loads(pickle.dumps(source))
    assert copied.next_minibatch(1)["y"].values.tolist() == [2]


def test_a_hugging_face_dataset_is_a_corpus() -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict(COLUMNS)
    assert delivered(dataset) == {"x": [0.5, 1.5], "y": [0, 1]}
    assert delivered(dataset.select([2, 0])) == {"x": [2.5, 0.5], "y": [2, 0]}
    assert delivered(sh.MapDeserializer(dataset)) == {"x": [0.5, 1.5], "y": [0, 1]}


def test_a_torch_dataset_of_tuples_is_named_by_order() -> None:
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.ones(3, 2), torch.arange(3))
    corpus = sh.MapDeserializer(dataset, {"x": sh.StreamDef(shape=2), "y": sh.StreamDef()})
    assert delivered(corpus) == {"x": [[1, 1], [1, 1]], "y": [0, 1]}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_the_parts_of_a_nested_tensor_are_sequences(layout: str) -> None:
    torch = pytest.importorskip("torch")
    parts = [torch.arange(3), torch.arange(2)]
    nested = torch.nested.nested_tensor(parts, layout=getattr(torch, layout))
    with sh.MinibatchSource({"x": nested}, randomize=False, max_sweeps=1) as source:
        found = source.next_minibatch(5)["x"].as_sequences()
    assert [one.tolist() for one in found] == [[0, 1, 2], [0, 1]]
