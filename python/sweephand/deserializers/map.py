"""Map-style datasets: anything with ``__len__`` and ``__getitem__``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from operator import getitem
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand import _core
from sweephand.corpus.calls import CallLock, call_lock_of, copied, side_by_side
from sweephand.corpus.casts import as_array
from sweephand.corpus.chunks import make_chunk, sequences_per_chunk
from sweephand.corpus.columns import describe_stream
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import (
    SampleForm,
    Samples,
    WrongSamples,
    common_picture_shape,
    is_picture,
)
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.objects import LACKING, Unusable, member_at
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams
from sweephand.deserializers.array import (
    DATASET,
    SERIES,
    is_table,
    names_of_types,
    wrong_data,
)
from sweephand.deserializers.deserializer import Deserializer, brief
from sweephand.errors import DataError, StaleError, shown
from sweephand.files.index_file import show_progress

_MEASURED_AT_ONCE = 64
_LOOKED_AT = 8  # items, to distinguish pictures from sequences


class MapDataset(Protocol):
    """Items by number, dicts or tuples."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


class MapDeserializer(Deserializer):
    """Serve the items of a map-style dataset; they are read when they are delivered.

    Only item 0 is read in advance, for its streams, a few more if it holds pictures, and all of
    them if their lengths must be measured. Items are read on other threads, in one call at a
    time over all sources of the dataset, unless it has an attribute ``thread_safe = True``; by
    ``__getitems__``, if it has that, for a whole minibatch at once.

    Parameters
    ----------
    dataset : object
        With ``__len__`` and ``__getitem__``, whose items are dicts: of arrays, tensors, lists,
        numbers, pictures of Pillow, ``bytes`` or ``str``; or tuples, a value a stream.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all of item 0; for tuples the values in order, by default ``x`` and ``y``, or
        ``x0``, ``x1``, ... A value of the declared ``shape`` is one sample, and with one more
        axis in front a sequence of samples; without a shape a number is one sample and an array
        a sequence. But pictures are one sample each, if the first ones have one shape: those of
        Pillow, and arrays of three axes whose first or last has 1, 3 or 4 channels.
    lengths : sequence of int, optional
        The size of every item in samples, shape (items,). By default the items are measured, by
        reading each once, unless all streams of item 0 are one sample: then all items must be.
    name : str, optional
        Name of the corpus in ids and fingerprints; by default that of the dataset's type.

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
        lengths: ArrayLike | None = None,
        *,
        name: str | None = None,
    ) -> None:
        names = names_of_types(dataset)
        has_items = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        is_other = isinstance(dataset, Mapping | str | type | Deserializer) or names & SERIES
        if not has_items or is_other or (is_table(dataset) and DATASET not in names):
            raise wrong_data("a map-style dataset has __len__ and __getitem__", dataset)
        self._name = name or type(dataset).__name__
        self._arguments = (dataset, streams, lengths)
        self._dataset, self._given = dataset, lengths
        is_safe = getattr(dataset, "thread_safe", False) is True
        self._num_threads = (os.cpu_count() or 1) if is_safe else 1
        self._lock = CallLock(several=True) if is_safe else call_lock_of(dataset)
        self._count = len(dataset)
        if self._count == 0:
            raise ValueError("the corpus is empty: no items")
        (item,) = self._get([0])
        if isinstance(item, DataError):
            raise item
        if streams is None:
            count = len(item) if isinstance(item, tuple) else 0
            named = ["x", "y"] if count == 2 else [f"x{number}" for number in range(count)]
            if (members := _as_mapping(item, named)) is None:
                raise self._no_dict(item, 0)
            streams = list(map(str, members))
        self._streams = choose_streams(streams, StreamDefs)
        shapes = self._picture_shapes(item)
        self._form = SampleForm(self._streams, "item", self._name, shapes=shapes)
        first = self._convert(0, item)
        if isinstance(first, DataError):
            raise first
        self._first = self._form.like = first

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: item 0 is read again."""
        return partial(type(self), name=self._name), self._arguments

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        first = self._form.to_columns([self._first])
        sizes = self._sizes(ledger)
        num_bytes = max(1, sum(column.num_bytes for column in first.values()))
        chunks = _core.index.Starts.even(self._count, sequences_per_chunk(1, num_bytes))
        reader = StoredReader(
            core=_core.read.FetchingDeserializer(partial(self._fetch, sizes, ledger)),
            streams=[
                describe_stream(
                    stream,
                    first[stream],
                    definition,
                    is_single=stream not in self._form.sequence_streams,
                )
                for stream, definition in self._streams.items()
            ],
            chunks=chunks,
            measure=lambda: (
                Sizing.one_each(chunks) if sizes is None else Sizing.of(sizes, chunks)
            ),
            resident=True,
            sample_bytes=num_bytes / self._form.size(self._first),
            call_locks=(self._lock,),
        )
        return StoredCorpus([reader], ShardIds([self._name], [0, self._count]), [self._name])

    def _description(self) -> str:
        return brief([self._name], self._streams, self._count)

    def _no_dict(self, item: object, number: int) -> DataError:
        reason = (
            f"an item must be a dict, or a tuple with a value a stream, got {shown(item)}; "
            "arrays are served by ArrayDeserializer"
        )
        return DataError(reason, self._name, sequence=number)

    def _picture_shapes(self, item: Any) -> dict[str, tuple[int, ...]]:
        """Return the shapes of those streams whose first items are pictures of one shape.

        Items beyond the first are looked at only where that is one.
        """
        fields = {name: one.field or name for name, one in self._streams.items()}
        named = list(fields.values())
        first = _as_mapping(item, named) or {}
        pictures = [
            name
            for name, one in self._streams.items()
            if one.sample_shape is None and is_picture(member_at(first, fields[name]))
        ]
        others = self._get(list(range(1, min(_LOOKED_AT, self._count)))) if pictures else []
        every = [first, *(_as_mapping(one, named) or {} for one in others)]
        shapes = {}
        for name in pictures:
            values = [member_at(one, fields[name]) for one in every]
            known = [
                one for one in values if one is not LACKING and not isinstance(one, Unusable)
            ]
            if (shape := common_picture_shape(known)) is not None:
                shapes[name] = shape
        return shapes

    def _sizes(self, ledger: Ledger) -> NDArray[np.uint32] | None:
        """Return the size of every item; None: one sample each."""
        if self._given is None and not self._form.sequence_streams:
            return None
        lengths = (
            self._measure(ledger) if self._given is None else as_array("lengths", self._given)
        )
        if lengths.shape != (self._count,) or lengths.dtype.kind not in "iu":
            raise ValueError(
                f"lengths must be one integer per item, {self._count} in all, got "
                f"{lengths.dtype} of shape {lengths.shape}"
            )
        wrong = np.flatnonzero((lengths < 1) | (lengths >= 2**32))
        if len(wrong):
            raise ValueError(f"item {wrong[0]} must have 1 to 2^32 - 1 samples")
        return lengths.astype(np.uint32)

    def _measure(self, ledger: Ledger) -> NDArray[np.uint32]:
        """Return the size of every item, by reading all; 1 of those that are damaged."""
        sizes = np.ones(self._count, np.uint32)
        with show_progress("measuring the items", self._count) as advance:
            for begin in range(0, self._count, _MEASURED_AT_ONCE):
                numbers = list(range(begin, min(begin + _MEASURED_AT_ONCE, self._count)))
                for number, samples in zip(numbers, self._read(numbers), strict=True):
                    if isinstance(samples, DataError):
                        ledger.add(samples)
                    else:
                        sizes[number] = self._form.size(samples)
                advance(len(numbers))
        return sizes

    def _fetch(
        self, sizes: NDArray[np.uint32] | None, ledger: Ledger, numbers: NDArray[np.uint64]
    ) -> _core.read.Chunk:
        """Return the items of a share; those that cannot be served are skipped."""
        skipped = []
        usable: list[Samples] = []
        for place, item in enumerate(self._read(numbers.tolist())):
            number = int(numbers[place])
            wrong = item if isinstance(item, DataError) else None
            # In place of one that is skipped another, which is never delivered.
            usable.append(self._first if isinstance(item, DataError) else item)
            size, wanted = self._form.size(usable[-1]), 1 if sizes is None else sizes[number]
            if wrong is None and size != wanted:
                reason = f"the item has {size} samples, {wanted} were expected"
                wrong = StaleError(reason, self._name, sequence=number)
            if wrong is not None:
                ledger.add(wrong)
                skipped.append(place)
        columns = self._form.to_columns(usable)
        return make_chunk(list(columns.values()), owned=False, skipped=skipped)

    def _read(self, numbers: list[int]) -> list[Samples | DataError]:
        """Return the samples of items, or the error of an item that cannot be served."""
        return [
            item if isinstance(item, DataError) else self._convert(number, item)
            for number, item in zip(numbers, self._get(numbers), strict=True)
        ]

    def _get(self, numbers: list[int]) -> list[Any]:
        return side_by_side(self._get_run, numbers, self._num_threads)

    def _get_run(self, numbers: list[int]) -> list[Any]:
        with self._lock.hold(f"the dataset of {self._name}"):
            get_several = getattr(self._dataset, "__getitems__", None)
            if get_several is None or len(numbers) == 1:
                return [self._get_one(number) for number in numbers]
            try:
                found = copied(get_several(numbers))
                # Of an iterator each before it makes the next.
                items = found if isinstance(found, list) else [copied(one) for one in found]
            except Exception:  # retried singly to find the item that failed
                return [self._get_one(number) for number in numbers]
        if len(items) != len(numbers):
            raise ValueError(
                f"__getitems__ of {self._name} returned {len(items)} items for {len(numbers)}"
            )
        return items

    def _get_one(self, number: int) -> Any:
        try:
            return copied(getitem(self._dataset, number))
        except Exception as error:
            reason = f"reading the item raised {type(error).__name__}: {error}"
            failure = DataError(reason, self._name, sequence=number)
            failure.__cause__ = error
            return failure

    def _convert(self, number: int, item: object) -> Samples | DataError:
        members = _as_mapping(item, list(self._form.fields.values()))
        if members is None:
            return self._no_dict(item, number)
        try:
            return self._form.convert(members)
        except WrongSamples as error:
            return DataError(str(error), self._name, stream=error.stream, sequence=number)


def _as_mapping(item: Any, names: Sequence[str]) -> Mapping[Any, Any] | None:
    """Return the values of an item by name; a tuple's are in the order of the names."""
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        item = item._asdict()
    elif isinstance(item, tuple) and len(item) == len(names):
        item = dict(zip(names, item, strict=True))
    return item if isinstance(item, Mapping) else None
