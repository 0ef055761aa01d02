"""Map-style datasets: anything with ``__len__`` and ``__getitem__``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from operator import getitem
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand import _core
from sweephand.corpus.casts import as_array
from sweephand.corpus.chunks import make_chunk, sequences_per_chunk
from sweephand.corpus.columns import ColumnData, describe_stream
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import common_picture_shape, is_picture
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.objects import LACKING, Unusable, member_at
from sweephand.corpus.own_values import copied, own_result
from sweephand.corpus.reader import CallLock, StoredReader, call_lock_of
from sweephand.corpus.sample_form import SampleForm, Samples, WrongSamples
from sweephand.corpus.side_by_side import side_by_side
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams
from sweephand.deserializers.array import ArrayDeserializer
from sweephand.deserializers.data_in_memory import (
    arrays_of,
    is_map_style,
    names_for,
    wrong_data,
)
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import show_progress
from sweephand.files.local import open_regular
from sweephand.files.source_file import spec_of
from sweephand.run.writing import replaced_file

_MEASURED_AT_ONCE = 64
_LOOKED_AT = 8  # items, to distinguish pictures from sequences


class MapDeserializer(Deserializer):
    """Serve the items of a map-style dataset; they are read when they are delivered.

    Only item 0 is read in advance, for its streams, a few more if it holds pictures, and all of
    them if their lengths must be measured. Items are read on other threads, in one call at a
    time over all sources of the dataset; by ``__getitems__`` for a whole minibatch at once, if
    the dataset has it. With an attribute ``thread_safe = True`` a dataset allows concurrent
    calls.

    Without ``streams`` and ``lengths`` a ``TensorDataset``, or a ``Subset`` of one, is served
    as its arrays, with one sample per item.

    Parameters
    ----------
    dataset : object
        With ``__len__`` and ``__getitem__``, whose items are dicts: of arrays, tensors, lists,
        numbers, pictures of Pillow, ``bytes`` or ``str``; or tuples of as many of them as there
        are streams.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all of item 0. ``field`` is the key; for tuples the streams are the values in
        order, by default ``x`` and ``y``, or ``x0``, ``x1``, ... A value of the declared
        ``shape`` is one sample, and with one more axis in front a sequence of samples; without
        a shape a number is one sample and an array a sequence along its first axis. But
        pictures are one sample each, if the first ones have one shape: those of
        Pillow, and arrays of three axes whose first or last has 1, 3 or 4 channels.
    lengths : sequence of int, or path, optional
        The size of every item in samples, shape (items,). A path is a ``.npy`` file with them,
        which is written if it is absent. By default the items are measured, by reading each
        once, unless all streams of item 0 are one sample: then all items must be.
    name : str, optional
        Name of the corpus in ids and fingerprints; by default that of the dataset's type.

    Raises
    ------
    TypeError
        If the dataset has no length or no items, or an item is not a dict.
    ValueError
        If lengths do not fit, or item 0 lacks a field.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> digits = [{"image": np.full((2, 2), n), "label": n} for n in range(4)]
    >>> corpus = sh.MapDeserializer(digits, sh.StreamDefs(
    ...     image=sh.StreamDef(shape=(2, 2)), label=sh.StreamDef()))
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(3)["label"].values
    array([0, 1, 2])
    """

    def __init__(
        self,
        dataset: MapDataset,
        streams: StreamsLike | None = None,
        lengths: ArrayLike | str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        if not is_map_style(dataset):
            raise wrong_data("a map-style dataset has __len__ and __getitem__", dataset)
        name = name or type(dataset).__name__
        self._arrays: ArrayDeserializer | None = None
        if streams is None and lengths is None and (found := arrays_of(dataset)) is not None:
            named = dict(zip(names_for(len(found)), found, strict=True))
            self._arrays = ArrayDeserializer(named, name=name)
            return
        self._items = MapItems(dataset, streams, name)
        self._definitions = self._items.streams
        self._given = lengths

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        if self._arrays is not None:
            return self._arrays.open(ledger)
        items = self._items
        first = items.to_columns([items.first])
        sizes = self._sizes(ledger)
        num_bytes = max(1, sum(column.num_bytes for column in first.values()))
        chunks = _core.index.Starts.even(items.count, sequences_per_chunk(1, num_bytes))
        reader = StoredReader(
            core=_core.read.FetchingDeserializer(partial(_fetch, items, sizes, ledger)),
            streams=[
                describe_stream(
                    stream,
                    first[stream],
                    definition,
                    is_single=stream not in items.sequence_streams,
                )
                for stream, definition in self._definitions.items()
            ],
            chunks=chunks,
            measure=lambda: (
                Sizing.one_each(chunks) if sizes is None else Sizing.of(sizes, chunks)
            ),
            resident=True,
            sample_bytes=num_bytes / items.size(items.first),
            call_locks=(items.call_lock,),
        )
        return StoredCorpus([reader], ShardIds([items.name], [0, items.count]), [items.name])

    def _description(self) -> str:
        if self._arrays is not None:
            return self._arrays._description()
        return brief([self._items.name], self._definitions, self._items.count)

    def _sizes(self, ledger: Ledger) -> NDArray[np.uint32] | None:
        """Return the size of every item; None: one sample each."""
        given = self._given
        if isinstance(given, str | os.PathLike):
            return self._kept_sizes(Path(spec_of(given)), ledger)
        if given is not None:
            return self._check(as_array("lengths", given), "lengths")
        if self._items.sequence_streams:
            return self._check(self._items.measure(ledger), "the measured lengths")
        return None

    def _kept_sizes(self, path: Path, ledger: Ledger) -> NDArray[np.uint32]:
        if path.exists():
            try:
                with open_regular(path) as file:
                    kept = np.load(file, allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise DataError(f"no file of lengths: {error}", str(path)) from None
            return self._check(kept, str(path))
        num_left = ledger.num_left
        sizes = self._items.measure(ledger)
        if ledger.num_left == num_left:  # damaged items may be repaired
            with replaced_file(path) as file:
                np.save(file, sizes)
        return self._check(sizes, str(path))

    def _check(self, lengths: NDArray[np.generic], name: str) -> NDArray[np.uint32]:
        if lengths.shape != (self._items.count,) or lengths.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be one integer per item, {self._items.count} in all, got "
                f"{lengths.dtype} of shape {lengths.shape}"
            )
        least = int(lengths.argmin())
        if lengths[least] < 1:
            raise ValueError(
                f"{name}: item {least} has {lengths[least]} samples, at least 1 is wanted"
            )
        most = int(lengths.argmax())
        if lengths[most] >= 2**32:
            raise ValueError(f"{name}: item {most} has {lengths[most]} samples, 2^32 or more")
        return lengths.astype(np.uint32)


def _fetch(
    items: MapItems,
    sizes: NDArray[np.uint32] | None,
    ledger: Ledger,
    numbers: NDArray[np.uint64],
) -> _core.read.Chunk:
    """Return the items of a share; those that cannot be served are skipped in the budget."""
    skipped = []
    usable: list[Samples] = []
    wanted_numbers = numbers.tolist()
    found = zip(wanted_numbers, items.read(wanted_numbers), strict=True)
    for place, (number, item) in enumerate(found):
        wanted = 1 if sizes is None else int(sizes[number])
        wrong = item if isinstance(item, DataError) else _compare(items, number, item, wanted)
        if wrong is not None:
            ledger.add(wrong)
            skipped.append(place)
        # In place of one that is skipped another, which is never delivered.
        usable.append(items.first if isinstance(item, DataError) else item)
    return make_chunk(list(items.to_columns(usable).values()), owned=False, skipped=skipped)


def _compare(items: MapItems, number: int, samples: Samples, wanted: int) -> DataError | None:
    size = items.size(samples)
    if size == wanted:
        return None
    return StaleError(
        f"the item has {size} samples, {wanted} were expected; give the lengths of all "
        "items, or measure them again",
        items.name,
        sequence=number,
    )


class MapDataset(Protocol):
    """Items by number. ``__getitems__``, for several at once, is used if it is there."""

    def __len__(self) -> int:
        """Return the number of items."""

    def __getitem__(self, number: int, /) -> Any:
        """Return an item, a dict."""


class MapItems:
    """Items got one call at a time, whichever thread asks, of whichever source."""

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
