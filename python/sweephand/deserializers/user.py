"""Chunks that the user's own Python code makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.checks import check_int
from sweephand.columns import ColumnData, describe_stream, make_column
from sweephand.deserializers.array import check_same_sequences, same_offsets
from sweephand.deserializers.base import Deserializer, Opened, Sizing, make_chunk
from sweephand.errors import DataError, StaleError
from sweephand.ids import SequenceIds, ShardIds
from sweephand.ledger import Ledger
from sweephand.streams import StreamDefs, StreamInfo


class UserDeserializer(Deserializer):
    """Serve chunks that your code makes; subclass it.

    Implement `stream_infos`, `num_chunks` and `get_chunk`. A chunk must be the same whenever it
    is asked for, and may be asked for from another thread. With `chunk_infos` nothing is loaded
    before it is needed; without it, all chunks are loaded once to learn how long their
    sequences are. `sequence_lengths` saves loading a chunk only to plan it.

    Chunks are loaded when the first of their sequences is delivered and dropped when the window
    has passed them.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> class Squares(sh.UserDeserializer):
    ...     def stream_infos(self):
    ...         return sh.StreamDefs(x=sh.StreamDef())
    ...     def num_chunks(self):
    ...         return 3
    ...     def get_chunk(self, chunk_id):
    ...         return {"x": np.arange(4) ** 2 + 100 * chunk_id}
    >>> source = sh.MinibatchSource(Squares(), randomize=False, max_sweeps=1)
    >>> source.next_minibatch(6)["x"].values
    array([  0,   1,   4,   9, 100, 101])
    """

    @abstractmethod
    def stream_infos(self) -> StreamDefs:
        """Return the streams that every chunk holds."""

    @abstractmethod
    def num_chunks(self) -> int:
        """Return the number of chunks."""

    @abstractmethod
    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        """Return one chunk: stream name to data, as `ArrayDeserializer` takes them.

        Parameters
        ----------
        chunk_id : int
            In ``[0, num_chunks())``.
        """

    def chunk_infos(self) -> object:
        """Return (sequences, samples) of every chunk, shape (chunks, 2), or None: measure."""
        return None

    def sequence_lengths(self, chunk_id: int) -> object:
        """Return the size of every sequence of a chunk in samples, or None: measure."""
        return None

    def open(self, *, frames: bool = False, ledger: Ledger | None = None) -> Opened:
        """Return the corpus, ready to be planned and read."""
        return _Opening(self, frames).opened()


class _Opening:
    """A user's deserializer with everything checked that it says."""

    def __init__(self, user: UserDeserializer, frames: bool) -> None:
        self._user = user
        self._frames = frames
        self._name = type(user).__name__
        self._definitions = user.stream_infos()
        if not self._definitions:
            raise ValueError(f"{self._name}.stream_infos() names no stream")
        self._num_chunks = user.num_chunks()
        check_int(f"{self._name}.num_chunks()", self._num_chunks, 1, 2**63)
        self._size_stream = next(
            (name for name, stream in self._definitions.items() if stream.defines_mb_size), None
        )
        self._columns_of_first = self._columns(0)
        self._infos = self._describe(self._columns_of_first)
        self._counts, self._samples = self._measure_chunks()
        self._starts = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int64)

    def opened(self) -> Opened:
        total = int(self._starts[-1])
        ids: SequenceIds = ShardIds([self._name], [0, total])
        bytes_of_first = sum(column.num_bytes for column in self._columns_of_first.values())
        return Opened(
            core=_core.CallbackDeserializer(self._load),
            streams=self._infos,
            chunk_sequences=self._counts.astype(np.uint64),
            size_by=self._size_by,
            ids=ids,
            names=[self._name],
            resident=False,
            sample_bytes=bytes_of_first / max(1, int(self._samples[0])),
        )

    def _size_by(self, stream: str | None) -> Sizing:
        if stream != self._size_stream:
            raise ValueError(
                f"the size of {self._name}'s sequences is defined by "
                f"{self._size_stream or 'their longest stream'}, not by {stream!r}"
            )
        if (self._samples == self._counts).all():
            return Sizing(_core.CommonSize(1), self._samples.astype(np.uint64))
        return Sizing(
            _core.CallbackSizes(self._read_sizes), self._samples.astype(np.uint64), False
        )

    def _describe(self, columns: Mapping[str, ColumnData]) -> list[StreamInfo]:
        return [
            describe_stream(name, columns[name], definition)
            for name, definition in self._definitions.items()
        ]

    def _columns(self, chunk: int) -> dict[str, ColumnData]:
        data = self._user.get_chunk(chunk)
        if not isinstance(data, Mapping):
            raise TypeError(
                f"{self._name}.get_chunk({chunk}) must return a dict of streams, got "
                f"{type(data).__name__}"
            )
        columns = {}
        for name, definition in self._definitions.items():
            field = definition.field or name
            if field not in data:
                raise DataError(
                    f"get_chunk returned no stream {field!r}, only {', '.join(map(str, data))}",
                    self._name,
                    chunk=chunk,
                )
            columns[name] = make_column(name, data[field])
        check_same_sequences(columns)
        if self._frames:
            same_offsets(columns)
            columns = {name: column.as_frames() for name, column in columns.items()}
        return columns

    def _sizes(self, columns: Mapping[str, ColumnData], chunk: int) -> NDArray[np.int64]:
        chosen = [self._size_stream] if self._size_stream else list(columns)
        sizes = np.zeros(next(iter(columns.values())).num_sequences, dtype=np.int64)
        for name in chosen:
            offsets = columns[name].sample_offsets
            sizes = np.maximum(sizes, 1 if offsets is None else np.diff(offsets))
        if sizes.size and sizes.min() == 0:
            raise DataError(
                "the sequence has no sample in the stream that defines its size",
                self._name,
                chunk=chunk,
                sequence=int(np.argmin(sizes)),
            )
        return sizes

    def _measure_chunks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        told = self._user.chunk_infos()
        if told is not None:
            table = np.asarray(told)
            if table.shape != (self._num_chunks, 2) or table.dtype.kind not in "iu":
                raise ValueError(
                    f"{self._name}.chunk_infos() must give (sequences, samples) for "
                    f"{self._num_chunks} chunks, got {table.dtype} of shape {table.shape}"
                )
            if (table < 0).any():
                raise ValueError(f"{self._name}.chunk_infos() has a negative number")
            samples = table[:, 1].astype(np.int64)
            return (samples if self._frames else table[:, 0].astype(np.int64)), samples
        sizes = [
            self._sizes(self._columns_of_first if chunk == 0 else self._columns(chunk), chunk)
            for chunk in range(self._num_chunks)
        ]
        counts = np.array([len(part) for part in sizes], dtype=np.int64)
        samples = np.array([part.sum() for part in sizes], dtype=np.int64)
        self._measured = np.concatenate(sizes).astype(np.uint32)
        return counts, samples

    _measured: NDArray[np.uint32] | None = None

    def _read_sizes(self, first: int, count: int) -> NDArray[np.uint32]:
        if self._measured is not None:
            return self._measured[first : first + count]
        parts = []
        end = first + count
        chunk = int(np.searchsorted(self._starts, first, side="right")) - 1
        while first < end:
            sizes = self._chunk_sizes(chunk)
            begin = first - int(self._starts[chunk])
            part = sizes[begin : begin + end - first]
            parts.append(part)
            first += len(part)
            chunk += 1
        return np.concatenate(parts).astype(np.uint32) if parts else np.empty(0, np.uint32)

    def _chunk_sizes(self, chunk: int) -> NDArray[np.int64]:
        told = self._user.sequence_lengths(chunk)
        if told is None:
            sizes = self._sizes(self._columns(chunk), chunk)
        else:
            sizes = np.asarray(told)
            if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
                raise DataError(
                    f"sequence_lengths must be one row of integers, got {sizes.dtype} of shape "
                    f"{sizes.shape}",
                    self._name,
                    chunk=chunk,
                )
        self._check_told(chunk, sizes)
        return sizes.astype(np.int64)

    def _check_told(self, chunk: int, sizes: NDArray[np.integer]) -> None:
        wanted = int(self._counts[chunk]), int(self._samples[chunk])
        found = len(sizes), int(sizes.sum())
        if found != wanted or (len(sizes) and int(sizes.min()) < 1):
            raise StaleError(
                f"the chunk was said to have {wanted[0]} sequences of {wanted[1]} samples, now "
                f"it has {found[0]} of {found[1]}; it must be the same whenever asked for",
                self._name,
                chunk=chunk,
            )

    def _load(self, chunk: int) -> _core.Chunk:
        columns = self._columns(chunk)
        infos = self._describe(columns)
        if infos != self._infos:
            raise StaleError(
                f"the chunk has streams {infos}, chunk 0 has {self._infos}",
                self._name,
                chunk=chunk,
            )
        sizes = self._sizes(columns, chunk)
        self._check_told(chunk, sizes)
        start = int(self._starts[chunk])
        known: object = self._user.sequence_lengths(chunk)
        if self._measured is not None:
            known = self._measured[start : start + len(sizes)]
        if known is not None and not np.array_equal(np.asarray(known), sizes):
            raise StaleError(
                "the lengths of the chunk's sequences are not those that were told or measured",
                self._name,
                chunk=chunk,
            )
        return make_chunk(list(columns.values()))
