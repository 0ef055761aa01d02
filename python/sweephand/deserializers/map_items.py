"""The items of a map-style dataset as samples of streams."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData
from sweephand.corpus.given_data import common_picture_shape, is_picture
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.objects import LACKING, Unusable, member_at
from sweephand.corpus.own_values import copied, own_result
from sweephand.corpus.reader import CallLock, call_lock_of
from sweephand.corpus.sample_form import SampleForm, Samples, WrongSamples
from sweephand.corpus.side_by_side import side_by_side
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams
from sweephand.deserializers.data_in_memory import names_for
from sweephand.errors import DataError
from sweephand.files.index_file import show_progress

_MEASURED_AT_ONCE = 64
_LOOKED_AT = 8  # items, to distinguish pictures from sequences


class MapDataset(Protocol):
    """Items by number. ``__getitems__``, for several at once, is used if it is there."""

    def __len__(self) -> int:
        """Return the number of items."""

    def __getitem__(self, number: int, /) -> Any:
        """Return an item, a dict."""


class MapItems:
    """Items got one call at a time, whichever thread asks, of whichever source.

    Attributes
    ----------
    count : int
    first : dict
        The samples of item 0.
    sequence_streams : frozenset of str
        Streams that are not one sample in item 0.
    call_lock : CallLock
        Whose call it is.
    """

    def __init__(self, dataset: MapDataset, streams: StreamsLike | None, name: str) -> None:
        self._dataset = dataset
        is_safe = getattr(dataset, "thread_safe", False) is True
        self._num_threads = (os.cpu_count() or 1) if is_safe else 1
        self.call_lock = CallLock(several=True) if is_safe else call_lock_of(dataset)
        self.name = name
        self.count = len(dataset)
        if self.count == 0:
            raise ValueError("the corpus is empty: no items")
        (item,) = self._get([0])
        if isinstance(item, DataError):
            raise item
        self.streams = choose_streams(
            streams,
            # Names alone need no look at the data, which may have none.
            (lambda: self._guess_streams(item)) if streams is None else StreamDefs,
        )
        self._form = SampleForm(self.streams, "item", name, shapes=self._picture_shapes(item))
        first = self._convert(0, item)
        if isinstance(first, DataError):
            raise first
        self.first = self._form.like = first
        self.sequence_streams = frozenset(self._form.sequence_streams)

    def __reduce__(self) -> tuple[type[MapItems], tuple[object, ...]]:
        return type(self), (self._dataset, self.streams, self.name)

    def _guess_streams(self, item: Any) -> StreamDefs:
        """Return the fields of item 0."""
        members = _as_mapping(item, names_for(len(item)) if isinstance(item, tuple) else [])
        if members is None:
            raise DataError(_no_dict(item), self.name, sequence=0)
        return StreamDefs({str(name): StreamDef() for name in members})

    def _picture_shapes(self, item: Any) -> dict[str, tuple[int, ...]]:
        """Return the shapes of those streams whose first items are pictures of one shape.

        Items beyond the first are looked at only where that is one.
        """
        fields = {
            name: one.field or name
            for name, one in self.streams.items()
            if one.sample_shape is None
        }
        names = [one.field or name for name, one in self.streams.items()]
        first = _as_mapping(item, names) or {}
        fields = {
            name: field for name, field in fields.items() if is_picture(member_at(first, field))
        }
        if not fields:
            return {}
        others = self._get(list(range(1, min(_LOOKED_AT, self.count))))
        members = [_as_mapping(one, names) for one in others if not isinstance(one, DataError)]
        every = [first, *(one for one in members if one)]
        shapes = {
            name: common_picture_shape(_values_in(every, f)) for name, f in fields.items()
        }
        return {name: shape for name, shape in shapes.items() if shape is not None}

    def read(self, numbers: list[int]) -> list[Samples | DataError]:
        """Return the samples of items, or the error of an item that cannot be served."""
        return [
            item if isinstance(item, DataError) else self._convert(number, item)
            for number, item in zip(numbers, self._get(numbers), strict=True)
        ]

    def size(self, samples: Samples) -> int:
        """Return the size of an item, in samples."""
        return self._form.size(samples)

    def measure(self, ledger: Ledger) -> NDArray[np.uint32]:
        """Return the size of every item, by reading all; 1 of those that are damaged."""
        sizes = np.ones(self.count, np.uint32)
        with show_progress("measuring the items", self.count) as advance:
            for begin in range(0, self.count, _MEASURED_AT_ONCE):
                numbers = list(range(begin, min(begin + _MEASURED_AT_ONCE, self.count)))
                for number, samples in zip(numbers, self.read(numbers), strict=True):
                    if isinstance(samples, DataError):
                        ledger.add(samples)
                    else:
                        sizes[number] = self.size(samples)
                advance(len(numbers))
        return sizes

    def to_columns(self, items: Sequence[Samples]) -> dict[str, ColumnData]:
        """Return the samples of items, each a sequence, as columns."""
        return self._form.to_columns(items)

    def _get(self, numbers: list[int]) -> list[Any]:
        return side_by_side(self._get_run, numbers, self._num_threads)

    def _get_run(self, numbers: list[int]) -> list[Any]:
        with self.call_lock.hold(f"the dataset of {self.name}"):
            get_several = getattr(self._dataset, "__getitems__", None)
            if get_several is None or len(numbers) == 1:
                return [self._get_one(number) for number in numbers]
            try:
                found = own_result(get_several, numbers)
                # Of an iterator each before it makes the next.
                items = found if isinstance(found, list) else [copied(one) for one in found]
            except Exception:  # retried singly to find the item that failed
                return [self._get_one(number) for number in numbers]
        if len(items) != len(numbers):
            raise ValueError(
                f"__getitems__ of {self.name} returned {len(items)} items for {len(numbers)}"
            )
        return items

    def _get_one(self, number: int) -> Any:
        try:
            return own_result(getitem, self._dataset, number)
        except Exception as error:
            reason = f"reading the item raised {type(error).__name__}: {error}"
            failure = DataError(reason, self.name, sequence=number)
            failure.__cause__ = error
            return failure

    def _convert(self, number: int, item: object) -> Samples | DataError:
        members = _as_mapping(item, self._form.fields)
        if members is None:
            return DataError(_no_dict(item), self.name, sequence=number)
        try:
            return self._form.convert(members)
        except WrongSamples as error:
            return DataError(str(error), self.name, stream=error.stream, sequence=number)


def _as_mapping(item: Any, names: Sequence[str]) -> Mapping[Any, Any] | None:
    """Return the values of an item by name; a tuple's are in the order of the names."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        named: Mapping[Any, Any] = item._asdict()
        return named
    if isinstance(item, tuple) and len(item) == len(names):
        return dict(zip(names, item, strict=True))
    return None


def _values_in(items: Sequence[Mapping[Any, Any]], field: str) -> list[Any]:
    """Return the values of a field in those items that have it."""
    values = [member_at(one, field) for one in items]
    return [one for one in values if one is not LACKING and not isinstance(one, Unusable)]


def _no_dict(item: object) -> str:
    """Return the reason why an item has no values by name, with advice."""
    if isinstance(item, tuple):
        return (
            f"an item must be a dict, or a tuple of as many values as there are streams; this "
            f"one has {len(item)}: name a stream for each, in its order"
        )
    return (
        f"an item must be a dict, got {type(item).__name__}: wrap the dataset in one whose "
        "items are dicts, or give arrays to ArrayDeserializer"
    )
