"""Data in memory: the kinds that are served directly, and advice for other kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from sweephand.deserializers.deserializer import Deserializer

_SERIES = {"pandas.Series", "polars.Series"}
_COLUMNS = {"pyarrow.Array", "pyarrow.ChunkedArray"}
_DATASET = "datasets.Dataset"
_SPLITS = ("datasets.DatasetDict", "datasets.IterableDatasetDict")
_STREAMING = (
    "what streams has no rows by number: load it without streaming=True, or write it once, "
    "dataset.to_parquet('data.parquet')"
)
# By the type's package and name: what to write.
_KNOWN = {
    "datasets.DatasetDict": "give one of its splits, such as data['train']",
    "datasets.IterableDatasetDict": _STREAMING,
    "datasets.IterableDataset": _STREAMING,
    _DATASET: "write sh.ArrowDeserializer(dataset)",
    "torch.TensorDataset": "write sh.MapDeserializer(dataset)",
    "torch.DataLoader": "give its dataset: sh.MapDeserializer(loader.dataset, ['x', 'y'])",
    "torch.IterableDataset": (
        "it has no items by number: write them to files, or write a sh.UserDeserializer"
    ),
    "tensorflow.DatasetV2": "its files are read by sh.tfds.load(folder) or sh.open(files)",
    "polars.LazyFrame": "write sh.ArrowDeserializer(frame.collect())",
    "lance.LanceDataset": "write sh.LanceDeserializer(dataset)",
    "pyarrow.Dataset": "write sh.ArrowDeserializer(dataset.to_table())",
    **dict.fromkeys(_SERIES, "write sh.ArrayDeserializer({'x': series.to_numpy()})"),
    **dict.fromkeys(_COLUMNS, "write sh.ArrowDeserializer(pyarrow.table({'x': array}))"),
}


class Table(Protocol):
    """Columns by name that Arrow hands over: a table, a DataFrame."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as an Arrow stream."""


class Rows(Protocol):
    """A Hugging Face Dataset."""

    @property
    def column_names(self) -> Any:
        """Return the names of its columns."""


SourceData = Deserializer | Sequence[Deserializer] | Mapping[str, Any] | Table | Rows
"""Deserializers, a dict of arrays as `ArrayDeserializer` takes it, or a table."""


def deserializers_of(data: object) -> list[Deserializer]:
    """Return the deserializers of the data given to a source."""
    import sweephand as sh  # deserializers by their public names: they are built on this

    if isinstance(data, Deserializer):
        return [data]
    if isinstance(data, Mapping) and _names(data).isdisjoint(_SPLITS):
        if any(isinstance(one, Deserializer) for one in data.values()):
            raise TypeError("deserializers that are joined come in a list, not in a dict")
        return [sh.ArrayDeserializer(data)]
    if is_table(data):
        return [sh.ArrowDeserializer(data)]
    if not isinstance(data, list | tuple) or not all(
        isinstance(one, Deserializer) for one in data
    ):
        raise wrong_data("deserializers must be Deserializer objects", data)
    if not data:
        raise ValueError("give at least one deserializer")
    return list(data)


def single_corpus(data: object, wanted: str) -> Deserializer:
    """Return the single deserializer of data to be cut in parts, in memory or not."""
    if _is_source(data):
        raise TypeError(
            f"{wanted} takes a corpus, got a {type(data).__name__}: {advice_for(data)}, and "
            "make a source of what comes of it"
        )
    found = deserializers_of(data)
    if len(found) > 1:
        raise TypeError(
            f"{wanted} takes one corpus, got {len(found)} that are joined: split the first of "
            "them, and join each part with the others, sh.MinibatchSource([train, labels])"
        )
    return found[0]


def is_table(data: object) -> bool:
    """Return True for columns by name that Arrow can export: a table, a DataFrame."""
    names = _names(data)
    has_stream = hasattr(data, "__arrow_c_stream__")
    return _DATASET in names or (has_stream and not names & (_SERIES | _COLUMNS))


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


def names_for(count: int) -> list[str]:
    """Return the names of values that have none: x and y of two, else x0, x1, ..."""
    return ["x", "y"] if count == 2 else [f"x{number}" for number in range(count)]


def check_dict(wanted: str, data: object) -> None:
    """Refuse anything but a dict of streams that has streams."""
    if not isinstance(data, Mapping) or not _names(data).isdisjoint(_SPLITS):
        raise wrong_data(wanted, data)
    if not data:
        raise ValueError("give at least one stream")
    for name in data:
        if not isinstance(name, str):
            raise TypeError(f"the name of a stream is text, got {name!r:.60}")


def wrong_data(wanted: str, data: object) -> TypeError:
    """Return the error for data that are served otherwise, saying how."""
    kind = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
    if isinstance(data, list | tuple) and data:
        kind = f"a {kind} of {type(data[0]).__name__}"
    return TypeError(f"{wanted}, got {kind}: {advice_for(data)}")


def advice_for(data: object) -> str:
    """Return the code that serves given data."""
    known = (advice for name, advice in _KNOWN.items() if name in _names(data))
    if (advice := next(known, None)) is not None:
        return advice
    if isinstance(data, type):
        return f"make one: {data.__name__}(...)"
    if isinstance(data, Deserializer):
        return "write sh.MinibatchSource(deserializer)"
    if _is_source(data):
        return "give the corpus that it was made of"
    if isinstance(data, str | os.PathLike):
        return f"write sh.open({os.fspath(data)!r:.80})"
    if hasattr(data, "__arrow_c_stream__"):
        return "write sh.ArrowDeserializer(table)"
    if hasattr(data, "__array__") or hasattr(data, "tocsr"):
        return "write sh.ArrayDeserializer({'x': array}), with a name for every stream"
    if isinstance(data, Mapping):
        return "write sh.ArrayDeserializer(data), a dict from stream to array"
    if hasattr(data, "read"):
        return "give its path: sh.open(path)"
    if isinstance(data, Iterator):
        return "it is gone after one pass: write sh.MapDeserializer(list(data)) of dicts"
    if isinstance(data, Sequence) and not isinstance(data, bytes):
        return _advice_for_list(data)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return "write sh.MapDeserializer(dataset, ['x', 'y']), with the names of the streams"
    return "see sh.ArrayDeserializer, sh.ArrowDeserializer, sh.MapDeserializer and sh.open"


def _advice_for_list(data: Sequence[Any]) -> str:
    first = list(islice(data, 3))
    if any(isinstance(one, Deserializer) for one in first):
        return "every one of a list must be a Deserializer"
    if first and all(isinstance(one, Mapping) for one in first):
        return "write sh.MapDeserializer(rows), a list of dicts"
    if first and all(isinstance(one, str | os.PathLike) for one in first):
        return "files are opened by sh.open(paths)"
    return "write sh.ArrayDeserializer({'x': data}), with a name for every stream"


def _is_source(data: object) -> bool:
    return hasattr(data, "next_minibatch") and not isinstance(data, type)


def _names(data: object) -> set[str]:
    """Return the names of the types of an object, without importing any."""
    return {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(data).__mro__}
