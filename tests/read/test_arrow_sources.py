"""What ArrowDeserializer makes of Hugging Face data sets: all that they say, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sweephand as sh

datasets = pytest.importorskip("datasets")

STREAMS = sh.StreamDefs(a=sh.StreamDef())


@pytest.fixture
def dataset() -> Any:
    return datasets.Dataset.from_dict({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})


def delivered(corpus: sh.Deserializer, name: str = "a") -> list[Any]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        found: list[Any] = source.next_minibatch(9)[name].values.tolist()
        return found


def negative(rows: Any) -> Any:
    return {"a": [-value for value in rows["a"]]}


@pytest.mark.parametrize(
    "transform",
    [
        lambda dataset: dataset.with_transform(
            negative, columns=["a"], output_all_columns=True
        ),
        lambda dataset: dataset.with_transform(negative).shuffle(seed=1),
    ],
)
def test_a_transform_is_refused_and_not_forgotten(dataset: Any, transform: Any) -> None:
    changed = transform(dataset)
    with pytest.raises(ValueError, match=r"has a transform.* MapDeserializer"):
        sh.ArrowDeserializer(changed, STREAMS)
    by_items = delivered(sh.MapDeserializer(changed, STREAMS))
    assert by_items == [changed[n]["a"] for n in range(len(changed))]
    assert all(value < 0 for value in by_items)
    assert min(delivered(sh.ArrowDeserializer(changed.with_format(None), STREAMS))) > 0


@pytest.mark.parametrize("form", ["numpy", "torch", "arrow", "python", None])
def test_a_format_that_is_only_a_container_changes_nothing(dataset: Any, form: Any) -> None:
    assert delivered(sh.ArrowDeserializer(dataset.with_format(form), STREAMS)) == [1, 2, 3]


def test_a_format_that_changes_values_is_refused(dataset: Any) -> None:
    with pytest.raises(ValueError, match=r"format 'numpy' with options.*a dtype"):
        sh.ArrowDeserializer(dataset.with_format("numpy", dtype=np.int8), STREAMS)


def test_only_the_columns_of_a_format_are_there(dataset: Any) -> None:
    both = sh.StreamDefs(a=sh.StreamDef(), b=sh.StreamDef())
    limited = dataset.with_format("numpy", columns=["a"])
    assert delivered(sh.ArrowDeserializer(limited, STREAMS)) == [1, 2, 3]
    with pytest.raises(sh.DataError, match="no field 'b', there are: a"):
        delivered(sh.ArrowDeserializer(limited, both))
    whole = dataset.with_format("numpy", columns=["a"], output_all_columns=True)
    assert delivered(sh.ArrowDeserializer(whole, both), "b") == [0.5, 1.5, 2.5]


def test_data_sets_without_rows_by_number_are_refused_by_name(dataset: Any) -> None:
    with pytest.raises(TypeError, match="got IterableDataset"):
        sh.ArrowDeserializer(dataset.to_iterable_dataset(), STREAMS)
    with pytest.raises(TypeError, match="got DatasetDict"):
        sh.ArrowDeserializer(datasets.DatasetDict(train=dataset), STREAMS)


def pictures(shape: tuple[int | None, int], heights: list[int]) -> tuple[Any, list[Any]]:
    rows = [np.arange(h * 3).reshape(h, 3) + 10 * n for n, h in enumerate(heights)]
    features = datasets.Features(m=datasets.Array2D(shape, "int32"))
    return datasets.Dataset.from_dict({"m": rows}, features=features), rows


def test_arrays_of_two_dimensions_are_samples() -> None:
    dataset, rows = pictures((2, 3), [2, 2, 2, 2])
    corpus = sh.ArrowDeserializer(dataset.select([3, 1]))
    with sh.MinibatchSource(corpus) as source:
        assert source.streams["m"].shape == (2, 3)
        assert source.streams["m"].dtype == np.int32
    assert delivered(corpus, "m") == [rows[3].tolist(), rows[1].tolist()]


def test_arrays_whose_first_extent_is_free_are_sequences() -> None:
    dataset, rows = pictures((None, 3), [1, 3, 2])
    with sh.MinibatchSource(sh.ArrowDeserializer(dataset), randomize=False) as source:
        found = source.next_minibatch(6)["m"]
    assert found.lengths.tolist() == [1, 3, 2]
    assert found.values.tolist() == np.concatenate(rows).tolist()
