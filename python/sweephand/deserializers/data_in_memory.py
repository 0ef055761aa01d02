"""Data in memory: the kinds that are served directly, and advice for other kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sweephand.deserializers.deserializer import Deserializer

_ARRAYS = {
    *("numpy.ndarray", "torch.Tensor", "jax.Array", "jaxlib.ArrayImpl", "jax.Tracer"),
    *("tensorflow.Tensor", "tensorflow.EagerTensor", "scipy.csr_matrix", "scipy.csr_array"),
    *("scipy.spmatrix", "scipy.sparray", "h5py.Dataset", "pandas.Index", "numpy.generic"),
}
_SERIES = {"pandas.Series", "polars.Series"}
_PYARROW_COLUMNS = {"pyarrow.Array", "pyarrow.ChunkedArray"}
_DATASET = "datasets.Dataset"

_STREAMING = (
    "what streams has no rows by number: load it without streaming=True, or write it once, "
    "dataset.to_parquet('data.parquet'), or open its Parquet files where they lie, "
    "sh.open('hf://datasets/NAME/data/*.parquet')"
)
_SPLITS = ("datasets.DatasetDict", "datasets.IterableDatasetDict")
_MOST_SPLITS = 6  # that are named
_MOST_COLUMNS = 4  # of arrays in a tuple, such as (X, y)

# By the type's package and name: a description, and its replacement.
_KNOWN = {
    "datasets.IterableDataset": _STREAMING,
    "datasets.IterableDatasetDict": _STREAMING,
    "datasets.Dataset": "write sh.ArrowDeserializer(dataset)",
    "torch.TensorDataset": (
        "write sh.MapDeserializer(dataset), or "
        "sh.ArrayDeserializer({'x': dataset.tensors[0], 'y': dataset.tensors[1]})"
    ),
    "torch.DataLoader": "give its dataset: sh.MapDeserializer(loader.dataset, ['x', 'y'])",
    "torch.IterableDataset": (
        "it has no items by number: write them to files, or write a sh.UserDeserializer"
    ),
    "tensorflow.DatasetV2": "its files are read by sh.tfds.load(folder) or sh.open(files)",
    "polars.LazyFrame": "write sh.ArrowDeserializer(frame.collect())",
    "lance.LanceDataset": "write sh.LanceDeserializer(dataset)",
    "pyarrow.Dataset": "write sh.ArrowDeserializer(dataset.to_table())",
    "pyarrow.ParquetFile": "write sh.open(path)",
}


def is_table(data: object) -> bool:
    """Return True for columns by name that Arrow can export: a table, a DataFrame."""
    names = _names(data)
    has_stream = hasattr(data, "__arrow_c_stream__")
    return _DATASET in names or (has_stream and not names & (_SERIES | _PYARROW_COLUMNS))


def is_saved_split(data: object) -> bool:
    """Return True for data sets by the names of their splits."""
    return "datasets.DatasetDict" in _names(data)


def is_map_style(data: object) -> bool:
    """Return True for items by number, unless another deserializer serves them better."""
    has_items = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    is_other = isinstance(data, Mapping | str | type | Deserializer) or _names(data) & _SERIES
    is_frame = is_table(data) and _DATASET not in _names(data)
    return has_items and not is_other and not is_frame


def arrays_of(data: Any) -> list[Any] | None:
    """Return the arrays whose rows are the items, or None if there are none.

    That is a ``TensorDataset``, and a ``Subset`` of one, whose rows are copied.
    """
    names = type(data).__module__.partition(".")[0], type(data).__name__
    if names == ("torch", "TensorDataset"):
        return list(data.tensors)
    if names == ("torch", "Subset") and (whole := arrays_of(data.dataset)) is not None:
        return [one[list(data.indices)] for one in whole]
    return None


def is_source(data: object) -> bool:
    """Return True for a source, which gives minibatches, where a corpus is wanted."""
    return hasattr(data, "next_minibatch") and not isinstance(data, type)


def wrong_data(wanted: str, data: object) -> TypeError:
    """Return the error for data that are served otherwise, saying how."""
    return TypeError(f"{wanted}, got {_what(data)}: {advice_for(data)}")


def check_dict(wanted: str, data: object) -> None:
    """Refuse anything but a dict of streams that has streams."""
    is_splits = not _names(data).isdisjoint(_SPLITS)
    if not isinstance(data, Mapping) or is_splits:
        raise wrong_data(wanted, data)
    if not data:
        raise ValueError("give at least one stream")
    for name in data:
        if not isinstance(name, str):
            raise TypeError(f"the name of a stream is text, got {name!r:.60}")


def _what(data: object) -> str:
    if isinstance(data, type):
        return f"the class {data.__name__}"
    kind = type(data).__name__
    if isinstance(data, list | tuple) and data:
        return f"a {kind} of {type(data[0]).__name__}"
    return kind


def advice_for(data: object) -> str:
    """Return the code that serves given data."""
    names = _names(data)
    if isinstance(data, type):
        return f"make one: {data.__name__}(...)"
    if is_saved_split(data):
        return _advice_for_splits(list(data))  # type: ignore[call-overload]
    for name, advice in _KNOWN.items():
        if name in names:
            return advice
    if isinstance(data, Deserializer):
        return "write sh.MinibatchSource(deserializer)"
    if is_source(data):
        return "give the corpus that it was made of"
    if isinstance(data, str | os.PathLike):
        return f"write sh.open({_shown_path(data)})"
    if isinstance(data, bytes):
        return "a path is text: write os.fsdecode(path)"
    if names & _ARRAYS:
        return "write sh.ArrayDeserializer({'x': array}), with a name for every stream"
    if names & _SERIES:
        return "write sh.ArrayDeserializer({'x': series.to_numpy()})"
    if names & _PYARROW_COLUMNS:
        return "write sh.ArrowDeserializer(pyarrow.table({'x': array}))"
    if hasattr(data, "__arrow_c_stream__"):
        return "write sh.ArrowDeserializer(table)"
    if isinstance(data, Mapping):
        return "write sh.ArrayDeserializer(data), a dict from stream to array"
    return _advice_for_items(data)


def _advice_for_splits(splits: list[object]) -> str:
    if not splits:
        return "it has no split"
    names = ", ".join(f"{one!s:.40}" for one in splits[:_MOST_SPLITS])
    more = ", ..." if len(splits) > _MOST_SPLITS else ""
    return f"it has the splits {names}{more}: give one, such as data[{str(splits[0])!r:.40}]"


def _advice_for_items(data: Any) -> str:
    if hasattr(data, "read") and hasattr(data, "close"):
        return "give its path: sh.open(path)"
    if isinstance(data, Iterator):
        return "it is gone after one pass: write sh.MapDeserializer(list(data)) of dicts"
    if isinstance(data, Sequence):
        if all(isinstance(one, Mapping) for one in islice(data, 3)) and data:
            return "write sh.MapDeserializer(rows), a list of dicts"
        if any(isinstance(one, Deserializer) for one in islice(data, 3)):
            return "every one of a list must be a Deserializer"
        if _are_paths(data):
            return (
                f"files are opened by sh.open([{_shown_path(data[0])}, ...]), and texts served "
                "by sh.ArrayDeserializer({'text': data})"
            )
        if _are_rows(data):
            return (
                "rows are dicts: write sh.MapDeserializer([{'x': x, 'y': y} for x, y in data])"
            )
        if _are_columns(data):
            names = enumerate(names_for(len(data)))
            columns = ", ".join(f"{name!r}: data[{number}]" for number, name in names)
            return f"write sh.ArrayDeserializer({{{columns}}}), with a name for every stream"
        return "write sh.ArrayDeserializer({'x': data}), with a name for every stream"
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return "write sh.MapDeserializer(dataset, ['x', 'y']), with the names of the streams"
    return "see sh.ArrayDeserializer, sh.ArrowDeserializer, sh.MapDeserializer and sh.open"


def _are_columns(data: Sequence[Any]) -> bool:
    """Return True if a few arrays are streams, and not sequences of a stream."""
    is_tuple = isinstance(data, tuple)  # such as (X, y); a list of lists is of sequences
    shapes: list[tuple[int, ...]] = [
        (len(one),) if is_tuple and isinstance(one, list) else getattr(one, "shape", ())
        for one in data[: _MOST_COLUMNS + 1]
    ]
    is_few = 1 < len(shapes) <= _MOST_COLUMNS
    return is_few and all(map(len, shapes)) and len({shape[0] for shape in shapes}) == 1


def _are_rows(data: Sequence[Any]) -> bool:
    """Return True if the first items of a list are pairs, as of `zip(X, y)`."""
    first = data[:3]
    are_tuples = all(isinstance(one, tuple) and len(one) == 2 for one in first)
    return isinstance(data, list) and bool(first) and are_tuples


def _are_paths(data: Sequence[Any]) -> bool:
    first = data[:3]
    return bool(first) and all(isinstance(one, str | os.PathLike) for one in first)


def _shown_path(path: Any) -> str:
    return f"{os.fspath(path)!r:.80}"


def names_for(count: int) -> list[str]:
    """Return the names of values that have none: x and y of two, else x0, x1, ..."""
    return ["x", "y"] if count == 2 else [f"x{number}" for number in range(count)]


def _names(data: object) -> set[str]:
    """Return the names of the types of an object, without importing any."""
    return {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(data).__mro__}
