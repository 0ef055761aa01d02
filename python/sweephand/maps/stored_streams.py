"""The sequences of a corpus as maps are given them, cut apart on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.objects import parse_object
from sweephand.layouts import Ragged
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch


class StreamSequences(Sequence[Any]):
    """Consecutive sequences of a stream.

    They pickle as one piece, so that another process gets them by one copy. Objects are made
    when they are asked for, each time anew.
    """

    __slots__ = ("_are_objects", "_offsets", "_values")

    def __init__(self, values: Any, offsets: list[int], *, are_objects: bool = False) -> None:
        self._values = values
        self._offsets = offsets
        self._are_objects = are_objects

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            begin, end, _ = which.indices(len(self))
            return StreamSequences(
                self._values, self._offsets[begin : end + 1], are_objects=self._are_objects
            )
        samples = self._values[self._offsets[which] : self._offsets[which + 1]]
        return _object_of(samples) if self._are_objects else samples

    def as_arrays(self) -> tuple[Any, NDArray[np.int64]]:
        """Return all values, and where each sequence begins in them, and the end."""
        offsets = np.array(self._offsets, np.int64)
        return self._values[offsets[0] : offsets[-1]], offsets - offsets[0]

    def to_list(self) -> list[Any]:
        """Return the samples of every sequence."""
        values, offsets = self._values, self._offsets
        if self._are_objects:
            return [_object_of(values[begin:end]) for begin, end in pairwise(offsets)]
        if isinstance(values, np.ndarray) and len(offsets) > 1:
            begin, end, length = offsets[0], offsets[-1], offsets[1] - offsets[0]
            if length and offsets == list(range(begin, end + 1, length)):  # the quick way
                return list(values[begin:end].reshape(-1, length, *values.shape[1:]))
        return [values[begin:end] for begin, end in pairwise(offsets)]

    def __reduce__(self) -> tuple[Any, ...]:
        begin, end = self._offsets[0], self._offsets[-1]
        values = self._values[begin:end]
        lengths = np.diff(self._offsets)
        if isinstance(values, np.ndarray) and values.dtype.hasobject:
            samples = values.tolist()
            data = np.frombuffer(b"".join(samples), np.uint8)
            sizes = np.fromiter(map(len, samples), np.int64, len(samples))
            return _of_bytes, (data, sizes, lengths, self._are_objects)
        return _of_values, (values, lengths)


def _object_of(samples: Any) -> Any:
    return parse_object(samples[0]) if len(samples) else None


def _of_values(
    values: Any, lengths: NDArray[np.int64], are_objects: bool = False
) -> StreamSequences:
    return StreamSequences(values, offsets_of(lengths).tolist(), are_objects=are_objects)


def _of_bytes(
    data: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    are_objects: bool,
) -> StreamSequences:
    objects = np.empty(len(sizes), object)
    pieces = StreamSequences(data, offsets_of(sizes).tolist())
    objects[:] = [piece.tobytes() for piece in pieces.to_list()]
    return _of_values(objects, lengths, are_objects)


class StoredStreams:
    """The streams of a corpus, of which batches are taken apart.

    Transforms wait: they are of minibatches, and of streams that keep their names.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        # Objects stay texts on their way to who calls the map.
        self._infos = {
            info.name: replace(info.used(transforms=()), is_object=False)
            for info in corpus.streams
        }
        self._objects = {info.name for info in corpus.streams if info.is_object}
        keys = {name: (number, info) for number, (name, info) in enumerate(self._infos.items())}
        self._contents = Contents(keys, Ragged(), corpus.ids)

    def sequences_of(self, batch: _core.engine.Batch) -> dict[str, StreamSequences]:
        """Return per stream the samples of every sequence of a ragged batch."""
        minibatch = Minibatch(batch, self._contents, None)
        streams = {name: minibatch[name] for name in self._infos}
        return {
            name: StreamSequences(
                stream.values, stream.offsets.tolist(), are_objects=name in self._objects
            )
            for name, stream in streams.items()
        }

    def names_of_size(self) -> dict[str, bool]:
        """Return the streams whose sizes are known without reading: one sample, or the size."""
        size_stream = self.corpus.size_stream
        ragged = [
            name for name, info in self._infos.items() if not (info.is_single or info.carried)
        ]
        sized = [size_stream] if size_stream else ragged if len(ragged) == 1 else []
        return {
            name: not info.is_single
            for name, info in self._infos.items()
            if info.is_single or name in sized
        }
