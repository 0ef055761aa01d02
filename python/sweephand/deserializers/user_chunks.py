"""The chunks that a user's object makes, as columns; errors in it name the chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import as_array
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.given_data import make_column
from sweephand.corpus.own_values import copied, own_result
from sweephand.corpus.reader import CallLock, call_lock_of
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamInfo, name_of, sizing_streams
from sweephand.corpus.wanted_streams import choose_streams
from sweephand.deserializers.array import check_same_sequences
from sweephand.errors import DataError

_CHUNKS_A_TURN = 64
"""Whose lengths are asked for before others hold the lock: taking one costs some 30 calls."""


class ChunkMaker(Protocol):
    """The methods of a `UserDeserializer` that make chunks, called one at a time."""

    thread_safe: bool

    def stream_infos(self) -> object:
        """Return the streams of every chunk."""

    def sequence_lengths(self, chunk_id: int) -> object:
        """Return the sizes of a chunk's sequences, or None."""

    def sequence_lengths_of(self, chunk_ids: NDArray[np.int64]) -> object:
        """Return the sizes of the sequences of each chunk, or None."""

    def get_chunk(self, chunk_id: int) -> object:
        """Return a chunk's data by stream."""


@dataclass(frozen=True)
class ChunkData:
    """A chunk as columns, and the size of each of its sequences, int64."""

    columns: dict[str, ColumnData]
    sizes: NDArray[np.int64]


@dataclass
class _Call:
    """A method of the user's object, and the chunk that it is called for."""

    method: str
    chunk: int

    def __str__(self) -> str:
        return f"{self.method}({self.chunk})"


class UserChunks:
    """The chunks of one object."""

    def __init__(self, user: ChunkMaker) -> None:
        self._user = user
        self.name = type(user).__name__
        self.call_lock = CallLock(several=True) if user.thread_safe else call_lock_of(user)
        streams = self.call("stream_infos")
        if not isinstance(streams, Mapping | list):
            raise TypeError(
                f"{self.name}.stream_infos() must return StreamDefs, a dict of StreamDef or a "
                f"list of names, got {type(streams).__name__}"
            )
        if not streams:
            raise ValueError(f"{self.name}.stream_infos() names no stream")
        self._definitions = choose_streams(streams, StreamDefs)
        self._sizing = sizing_streams(self._definitions)
        self._asks_each = False  # for lengths, chunk by chunk

    def call(self, method: str) -> Any:
        """Call a method of the user's object under its lock."""
        with self.call_lock.hold(f"{self.name}.{method}()"):
            return own_result(getattr(self._user, method))

    def lengths(self, chunks: NDArray[np.int64]) -> list[NDArray[np.integer]]:
        """Return the sizes of the sequences of chunks, declared or else measured."""
        sizes = self._lengths_of(chunks)
        if sizes is None:
            sizes = []
            for at in range(0, len(chunks), _CHUNKS_A_TURN):
                sizes += self._lengths(chunks[at : at + _CHUNKS_A_TURN].tolist())
        return sizes

    def _lengths_of(self, chunks: NDArray[np.int64]) -> list[NDArray[np.integer]] | None:
        """Return the sizes from one call for all chunks, or None if it returned None."""
        if self._asks_each:
            return None
        call = f"{self.name}.sequence_lengths_of({len(chunks)} chunks)"
        with self.call_lock.hold(call):
            found = own_result(self._user.sequence_lengths_of, chunks)
            if found is None:
                self._asks_each = True
                return None
            if isinstance(found, Mapping | str | bytes) or not isinstance(found, Iterable):
                raise DataError(
                    f"sequence_lengths_of must return an array for each of {len(chunks)} "
                    f"chunks, got {type(found).__name__}",
                    self.name,
                )
            sizes = [one if type(one) is np.ndarray else as_array(call, one) for one in found]
        if len(sizes) != len(chunks):
            raise DataError(
                f"sequence_lengths_of must return an array for each of {len(chunks)} chunks, "
                f"got {len(sizes)}",
                self.name,
            )
        return sizes

    def _lengths(self, chunks: list[int]) -> list[NDArray[np.integer]]:
        call = _Call(f"{self.name}.sequence_lengths", chunks[0])
        sizes: list[Any] = []
        unknown = []
        with self.call_lock.hold(call):
            ask = self._user.sequence_lengths
            for at, call.chunk in enumerate(chunks):
                one, is_own = _core.read.own_call(ask, (call.chunk,))
                if not is_own:
                    one = copied(one)
                if one is None:
                    unknown.append(at)
                elif type(one) is not np.ndarray:
                    one = as_array(str(call), one)
                sizes.append(one)
        for at in unknown:
            sizes[at] = self.read(chunks[at]).sizes
        return sizes

    def read(self, chunk: int) -> ChunkData:
        """Have a chunk made, and return it."""
        # Returned objects may read data only when they are accessed.
        with self.call_lock.hold(f"{self.name}.get_chunk({chunk})"):
            data = self._get(chunk)
            try:
                columns = {
                    name: make_column(
                        name, data[definition.field or name], definition.sample_shape
                    )
                    for name, definition in self._definitions.items()
                }
                check_same_sequences(columns)
            except (TypeError, ValueError) as error:
                raise DataError(str(error), self.name, chunk=chunk) from error
        return ChunkData(columns, self._sizes(columns, chunk))

    def describe(self, chunk: int, data: ChunkData) -> list[StreamInfo]:
        """Return the types of the streams of a chunk."""
        try:
            return [
                # An array of one sample per sequence holds for all chunks; lists may vary.
                describe_stream(
                    name,
                    data.columns[name],
                    definition,
                    is_single=data.columns[name].sample_offsets is None,
                )
                for name, definition in self._definitions.items()
            ]
        except ValueError as error:
            raise DataError(str(error), self.name, chunk=chunk) from error

    def _get(self, chunk: int) -> Mapping[str, object]:
        try:
            data = own_result(self._user.get_chunk, chunk)
        except Exception as error:
            error.add_note(f"raised by {self.name}.get_chunk({chunk})")
            raise
        if not isinstance(data, Mapping):
            raise TypeError(
                f"{self.name}.get_chunk({chunk}) must return a dict of streams, got "
                f"{type(data).__name__}"
            )
        data = {name_of(key): stream for key, stream in data.items()}
        for name, definition in self._definitions.items():
            if (definition.field or name) not in data:
                raise DataError(
                    f"get_chunk returned no stream {definition.field or name!r}, only "
                    f"{', '.join(map(str, data))}",
                    self.name,
                    chunk=chunk,
                )
        return data

    def _sizes(self, columns: Mapping[str, ColumnData], chunk: int) -> NDArray[np.int64]:
        least = 0 if self._sizing else 1
        sizes = np.full(next(iter(columns.values())).num_sequences, least, np.int64)
        for name in self._sizing:
            offsets = columns[name].sample_offsets
            sizes = np.maximum(sizes, 1 if offsets is None else np.diff(offsets))
        if sizes.size and sizes.min() == 0:
            raise DataError(
                "the sequence has no sample in the stream that defines its size",
                self.name,
                chunk=chunk,
                sequence=int(np.argmin(sizes)),
            )
        return sizes
