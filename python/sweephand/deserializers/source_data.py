"""The data of a source: deserializers, or data that need none of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.data_in_memory import (
    advice_for,
    is_saved_split,
    is_source,
    is_table,
    wrong_data,
)
from sweephand.deserializers.deserializer import Deserializer


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


_THEN = {
    "split": "train, validation = sh.split(corpus, validation=0.1), and make a source of each "
    "part, sh.MinibatchSource(train)",
}


def single_corpus(data: object, wanted: str) -> Deserializer:
    """Return the single deserializer of data to be cut in parts, in memory or not."""
    if is_source(data):
        raise TypeError(
            f"{wanted} takes a corpus, got a {type(data).__name__}: {advice_for(data)}, "
            f"{_THEN.get(wanted, 'and make a source of what comes of it')}"
        )
    found = deserializers_of(data)
    if len(found) > 1:
        raise TypeError(
            f"{wanted} takes one corpus, got {len(found)} that are joined: split the first of "
            "them, and join each part with the others, sh.MinibatchSource([train, labels])"
        )
    return found[0]


def deserializers_of(data: object) -> list[Deserializer]:
    """Return the deserializers of the data given to a source."""
    if isinstance(data, Deserializer):
        return [data]
    if isinstance(data, Mapping) and not is_saved_split(data):
        if any(isinstance(one, Deserializer) for one in data.values()):
            raise TypeError("deserializers that are joined come in a list, not in a dict")
        return [ArrayDeserializer(data)]
    if is_table(data):
        from sweephand import (
            ArrowDeserializer,  # by its public name: it brings files and stores
        )

        return [ArrowDeserializer(data)]
    if not isinstance(data, list | tuple):
        raise wrong_data("deserializers must be Deserializer objects", data)
    if not data:
        raise ValueError("give at least one deserializer")
    for one in data:
        if not isinstance(one, Deserializer):
            raise wrong_data("deserializers must be Deserializer objects", data)
    return list(data)
