"""The items of a map-style dataset as samples of streams."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Sized
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.casts import as_array, cast
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.given_data import make_column
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.corpus.turns import turn_of
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams
from sweephand.errors import DataError
from sweephand.files.index_file import show_progress

_MEASURED_AT_ONCE = 64
_LIKE_PICTURE = 3  # axes of an array that is rarely a sequence

# Per stream the samples of one item: an array (samples, *shape), a CSR matrix, a list of bytes.
Samples = dict[str, Any]


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
    size_stream : str or None
        The stream that defines the size of an item; None: the longest.
    turn : Turn
        Whose call it is.
    """

    def __init__(self, dataset: MapDataset, streams: StreamsLike | None, name: str) -> None:
        self._dataset = dataset
        self.turn = turn_of(dataset)
        self.name = name
        self.count = len(dataset)
        if self.count == 0:
            raise ValueError("the corpus is empty: no items")
        # Names alone need no look at the data, which may have none.
        self.streams = choose_streams(
            streams, self._guess_streams if streams is None else StreamDefs
        )
        self._fields = {name: one.field or name for name, one in self.streams.items()}
        self._shapes = {name: one.sample_shape for name, one in self.streams.items()}
        self._like: dict[str, Any] = {}  # per stream what the other items must be like
        self.size_stream = next(
            (name for name, one in self.streams.items() if one.defines_mb_size), None
        )
        self._sequences: set[str] = set()  # streams that were seen to be no single sample
        (first,) = self.read([0])
        if isinstance(first, DataError):
            raise first
        self.first = self._like = first
        self.sequence_streams = frozenset(self._sequences)

    def __reduce__(self) -> tuple[type[MapItems], tuple[object, ...]]:
        return type(self), (self._dataset, self.streams, self.name)

    def _guess_streams(self) -> StreamDefs:
        """Return the fields of item 0."""
        (item,) = self._get([0])
        if isinstance(item, DataError):
            raise item
        if isinstance(item, tuple) and not hasattr(item, "_asdict"):
            raise ValueError(
                f"item 0 is a tuple of {len(item)}: name the streams in its order, such as "
                f"MapDeserializer(dataset, [{', '.join(map(repr, _names_for(item)))}])"
            )
        members = _as_mapping(item, [])
        if members is None:
            raise DataError(_no_dict(item), self.name, sequence=0)
        return StreamDefs({str(name): StreamDef() for name in members})

    def read(self, numbers: list[int]) -> list[Samples | DataError]:
        """Return the samples of items; in place of one that cannot be served the reason."""
        return [
            item if isinstance(item, DataError) else self._convert(number, item)
            for number, item in zip(numbers, self._get(numbers), strict=True)
        ]

    def size(self, samples: Samples) -> int:
        """Return the size of an item, in samples."""
        if self.size_stream is not None:
            return _count(samples[self.size_stream])
        return max(_count(one) for one in samples.values())

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
        """Return the samples of some items, each a sequence, as columns."""
        return {
            stream: _to_column(stream, [item[stream] for item in items])
            for stream in self._fields
        }

    def _get(self, numbers: list[int]) -> list[Any]:
        with self.turn.take(f"the dataset of {self.name}"):
            get_several = getattr(self._dataset, "__getitems__", None)
            if get_several is None or len(numbers) == 1:
                return [self._get_one(number) for number in numbers]
            try:
                items = list(get_several(numbers))
            except Exception:  # each by itself tells which one it was
                return [self._get_one(number) for number in numbers]
        if len(items) != len(numbers):
            raise ValueError(
                f"__getitems__ of {self.name} returned {len(items)} items for {len(numbers)}"
            )
        return items

    def _get_one(self, number: int) -> Any:
        try:
            return self._dataset[number]
        except Exception as error:
            reason = f"reading the item raised {type(error).__name__}: {error}"
            told = DataError(reason, self.name, sequence=number)
            told.__cause__ = error
            return told

    def _convert(self, number: int, item: object) -> Samples | DataError:
        members = _as_mapping(item, list(self._fields.values()))
        if members is None:
            return DataError(_no_dict(item), self.name, sequence=number)
        samples = {}
        for stream, field in self._fields.items():
            try:
                if field not in members:
                    told = ", ".join(map(str, members))
                    raise ValueError(f"there is no field {field!r}, there are: {told:.200}")
                samples[stream] = self._samples(stream, members[field])
            except (TypeError, ValueError) as error:
                return DataError(str(error), self.name, stream=stream, sequence=number)
        if not self.size(samples):
            where = f"stream {self.size_stream!r}" if self.size_stream else "any stream"
            return DataError(f"the item has no sample in {where}", self.name, sequence=number)
        return samples

    def _samples(self, stream: str, value: Any) -> Any:
        """Return the samples of a value, of the dtype and shape that item 0 has."""
        like = self._like.get(stream)
        is_list = isinstance(value, list | tuple)
        first = value[0] if is_list and value else value
        if isinstance(first, bytes | str):
            if like is not None and not isinstance(like, list):
                raise ValueError("it is text or bytes, item 0 has numbers")
            self._see(stream, is_list)
            return _to_bytes(value if is_list else [value])
        if isinstance(like, list):
            if is_list and not value:
                return []
            raise ValueError("it is no text or bytes, as item 0 has them")
        if getattr(value, "format", None) == "csr":
            self._see(stream, True)
            return self._matrix(stream, like, value)
        if like is not None and not isinstance(like, np.ndarray):
            raise ValueError("it is no CSR matrix, as item 0 has one")
        return self._array(stream, like, value)

    def _see(self, stream: str, is_sequence: bool) -> None:
        if is_sequence:
            self._sequences.add(stream)

    def _matrix(self, stream: str, like: Any, matrix: Any) -> Any:
        if isinstance(like, np.ndarray):
            raise ValueError("it is a CSR matrix, item 0 has an array")
        column = make_column(stream, matrix)  # checks it
        if like is None:
            like = matrix
        if matrix.shape[1] != like.shape[1]:
            raise ValueError(f"it has {matrix.shape[1]} columns, item 0 has {like.shape[1]}")
        values = self._cast(stream, column.values, np.dtype(like.dtype).newbyteorder("="))
        return type(matrix)((values, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _array(self, stream: str, like: Any, value: Any) -> NDArray[Any]:
        array = as_array("the value", value)
        shape = self._shapes[stream] if like is None else like.shape[1:]
        if shape is None:
            shape = array.shape[1:]
        is_sample = array.shape == shape
        if like is None and self._shapes[stream] is None and array.ndim >= _LIKE_PICTURE:
            warnings.warn(
                f"{self.name}: stream {stream!r} of item 0 has shape {array.shape} and is a "
                f"sequence of {len(array)} samples; if it is one sample, declare "
                f"{stream}=StreamDef(shape={array.shape})",
                stacklevel=2,
            )
        if not is_sample and (array.ndim == 0 or array.shape[1:] != shape):
            raise ValueError(f"samples of shape {shape} are wanted, got {array.shape}")
        self._see(stream, not is_sample)
        array = self._cast(stream, array, array.dtype if like is None else like.dtype)
        return array[None] if is_sample else array

    def _cast(self, stream: str, array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array in the dtype that is asked for, or by default in that of item 0."""
        declared = self.streams[stream].dtype
        if declared is None:
            return cast(array, dtype, rounds=False)
        return cast(array, np.dtype(declared))


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


def _no_dict(item: object) -> str:
    """Return why an item has no values by name, and what to do."""
    if isinstance(item, tuple):
        return (
            f"an item must be a dict, or a tuple of as many values as there are streams; this "
            f"one has {len(item)}: name a stream for each, in its order"
        )
    return (
        f"an item must be a dict, got {type(item).__name__}: wrap the dataset in one whose "
        "items are dicts, or give arrays to ArrayDeserializer"
    )


def _names_for(item: Sized) -> list[str]:
    return ["x", "y"] if len(item) == 2 else [f"x{number}" for number in range(len(item))][:8]


def _to_bytes(samples: Sequence[Any]) -> list[bytes]:
    for number, sample in enumerate(samples):
        if not isinstance(sample, bytes | str):
            raise ValueError(
                f"sample {number} is {type(sample).__name__}, where the first is bytes or str"
            )
    return [one.encode() if isinstance(one, str) else one for one in samples]


def _count(samples: Any) -> int:
    return len(samples) if isinstance(samples, list) else int(samples.shape[0])


def _to_column(stream: str, items: list[Any]) -> ColumnData:
    if not isinstance(items[0], np.ndarray):
        return make_column(stream, items)
    values = np.ascontiguousarray(np.concatenate(items))
    offsets = offsets_of([len(one) for one in items])
    return ColumnData(values, values.dtype, values.shape[1:], len(values), offsets)
