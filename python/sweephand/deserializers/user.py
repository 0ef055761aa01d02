"""Chunks that the user's own Python code makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.casts import as_array
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData, delivered_bytes, describe_stream, offsets_of
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import make_column
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.own_values import own_result
from sweephand.corpus.reader import CallLock, StoredReader, call_lock_of
from sweephand.corpus.sizes import Sizing, sum_chunks
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import (
    StreamInfo,
    StreamsLike,
    choose_streams,
    name_of,
    sizing_streams,
)
from sweephand.deserializers.array import check_same_sequences
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import DataError, StaleError

_CHUNKS_A_TURN = 64
"""Whose lengths are asked for before others hold the lock: taking one costs some 30 calls."""


class UserDeserializer(Deserializer):
    """Base class for chunks that are made by your code.

    Implement `stream_infos`, `num_chunks` and `get_chunk`. A chunk must always be the same, and
    its arrays must not change: they are not copied. With `chunk_infos` a single chunk is loaded
    in advance, to learn its streams; without it, all are loaded once for the lengths of their
    sequences. `sequence_lengths` avoids loading a chunk only to plan it.

    The methods are called from other threads than yours, but one call at a time, over all
    sources of the object. With ``thread_safe = True`` in the class, several threads may call
    them at once.

    A method must not ask a source for a minibatch that needs the object itself, which would
    wait for itself: that is a RuntimeError.

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

    Attributes
    ----------
    thread_safe : bool
        True if several threads may call the methods at once; False unless a class says
        otherwise.
    """

    thread_safe: bool = False

    @abstractmethod
    def stream_infos(self) -> StreamsLike:
        """Return the streams that every chunk holds; in CNTK a list of infos."""

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
        """Return the size of every sequence of a chunk in samples, or None to measure it.

        A returned array must not change afterwards.
        """
        return None

    def sequence_lengths_of(self, chunk_ids: NDArray[np.int64]) -> object:
        """Return the sizes of the sequences of many chunks at once, or None: ask for each.

        A source that begins anywhere in a sweep asks for the chunks of each of its lanes. With
        16,384 lanes that is 32,768 calls of `sequence_lengths`, or some hundred of this method,
        which goes before it. After a None it is not called again.

        Parameters
        ----------
        chunk_ids : ndarray of int64, shape (n,)
            In ``[0, num_chunks())``, in any order; a chunk may come twice.

        Returns
        -------
        sequence of ndarray of int, length n, or None
            The result of `sequence_lengths` for each chunk: one integer from 1 to 2^32 - 1 per
            sequence. The same checks apply: integers in one dimension, with the number of
            sequences and samples of `chunk_infos`, and the same at every call. A number of
            arrays other than that of chunks is a `DataError`.
        """
        return None

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        return _Opening(self, ledger).corpus()


class _Opening:
    """The sizes of all chunks, declared or measured, as the reference for later checks."""

    def __init__(self, user: UserDeserializer, ledger: Ledger) -> None:
        self._ledger = ledger
        self._chunks = UserChunks(user)
        self._name = self._chunks.name
        num_chunks = self._chunks.call("num_chunks")
        check_int(f"{self._name}.num_chunks()", num_chunks, 1, 2**63)
        self._infos: list[StreamInfo] = []
        self._measured: NDArray[np.uint32] | None = None
        self._described_by: dict[int, ChunkData] = {}  # a chunk that need not be made again
        declared = self._declared(num_chunks)
        if declared is None:
            self._sizes = self._measure(num_chunks)
        else:
            self._sizes = self._make_sizes(declared[:, 0], declared[:, 1])
            first = int(np.argmax(declared[:, 0] > 0))
            data = self._described_by[first] = self._chunks.read(first)
            self._infos = self._chunks.describe(first, data)
            self._sample_bytes = self._bytes_of(data) / max(1, int(declared[first, 1]))

    def _make_sizes(self, counts: NDArray[np.uint64], samples: NDArray[np.uint64]) -> UserSizes:
        return UserSizes(
            self._name,
            _core.index.Starts(counts),
            _core.index.GroupedCounts(samples),
            self._chunks.lengths,
        )

    def corpus(self) -> StoredCorpus:
        reader = StoredReader(
            core=_core.read.CallbackDeserializer(self._load),
            streams=self._infos,
            chunks=self._sizes.chunks,
            measure=self._size,
            resident=False,
            sample_bytes=self._sample_bytes,
            load_threads=0,
            call_locks=(self._chunks.call_lock,),
        )
        num_sequences = self._sizes.chunks.total
        return StoredCorpus([reader], ShardIds([self._name], [0, num_sequences]), [self._name])

    def _bytes_of(self, data: ChunkData) -> int:
        """Return the bytes of a chunk, or of its delivered streams if those are more."""
        columns = data.columns.values()
        stored = sum(column.num_bytes for column in columns)
        return max(stored, sum(map(delivered_bytes, columns, self._infos)))

    def _declared(self, num_chunks: int) -> NDArray[np.uint64] | None:
        declared = self._chunks.call("chunk_infos")
        if declared is None:
            return None
        table = as_array(f"{self._name}.chunk_infos()", declared)
        if table.shape != (num_chunks, 2) or table.dtype.kind not in "iu":
            raise ValueError(
                f"{self._name}.chunk_infos() must give (sequences, samples) for {num_chunks} "
                f"chunks, got {table.dtype} of shape {table.shape}"
            )
        if (table < 0).any():
            raise ValueError(f"{self._name}.chunk_infos() has a negative number")
        if (table > np.iinfo(np.int64).max).any():
            raise ValueError(f"{self._name}.chunk_infos() has a number of 2^63 or more")
        return table.astype(np.int64, copy=False).view(np.uint64)

    def _measure(self, num_chunks: int) -> UserSizes:
        """Load every chunk once; the first that is not empty describes the streams."""
        sizes: list[NDArray[np.int64]] = []
        num_bytes = 0
        for chunk in range(num_chunks):
            data = self._chunks.read(chunk)
            sizes.append(data.sizes)
            if not self._infos and (data.sizes.size or chunk == num_chunks - 1):
                self._infos = self._chunks.describe(chunk, data)
            num_bytes += self._bytes_of(data)
        samples = np.array([part.sum() for part in sizes], np.uint64)
        self._sample_bytes = num_bytes / max(1, int(samples.sum()))
        measured = self._make_sizes(np.array([len(part) for part in sizes], np.uint64), samples)
        self._measured = measured.check(np.arange(num_chunks), sizes).astype(np.uint32)
        return measured

    def _size(self) -> Sizing:
        chunks, samples = self._sizes.chunks, self._sizes.samples
        if chunks.total == samples.total:
            one_each = Sizing.one_each(chunks)
            if one_each.samples.equals(samples):
                return one_each
        if self._measured is not None:
            return Sizing(_core.index.StoredSizes(self._measured), samples)
        return Sizing(_core.index.CallbackSizes(self._sizes.read), samples, False)

    def _load(self, chunk: int) -> _core.read.Chunk:
        """Return a chunk; if it cannot be served it is skipped as one damaged item."""
        try:
            return make_chunk(list(self._read(chunk).columns.values()))
        except DataError as error:
            self._ledger.add(error)
        begin, end = self._sizes.chunks.bounds(chunk)
        count = end - begin
        return make_chunk([_blank(info, count) for info in self._infos], skipped=range(count))

    def _read(self, chunk: int) -> ChunkData:
        data = self._described_by.pop(chunk, None) or self._chunks.read(chunk)
        for found, wanted in zip(self._chunks.describe(chunk, data), self._infos, strict=True):
            if found != wanted:
                raise StaleError(
                    f"the stream has {found.kind} here, and {wanted.kind} in the chunk that "
                    "was read first",
                    self._name,
                    chunk=chunk,
                    stream=wanted.name,
                )
        self._sizes.check(np.array([chunk]), [data.sizes])
        return data


def _blank(info: StreamInfo, num_sequences: int) -> ColumnData:
    """Return a number of sequences without samples."""
    dtype = np.dtype(np.uint8) if info.is_bytes else info.dtype
    nothing = np.zeros(1, np.int64)
    return ColumnData(
        np.empty(0 if info.is_variable else (0, *info.shape), dtype),
        dtype,
        info.shape,
        num_samples=0,
        sample_offsets=np.zeros(num_sequences + 1, np.int64),
        element_offsets=nothing if info.is_variable else None,
        indices=np.empty(0, np.int32) if info.is_sparse else None,
    )


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

    def __init__(self, user: UserDeserializer) -> None:
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
                one = own_result(ask, call.chunk)
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


class UserSizes:
    """Sequences and samples of every chunk, and the lengths of sequences on request.

    `ask` returns the lengths of sequences that the user's code has for chunks, one array each;
    `name` is that of the user's class, for errors.
    """

    def __init__(
        self,
        name: str,
        chunks: _core.index.Starts,
        samples: _core.index.GroupedCounts,
        ask: Callable[[NDArray[np.int64]], Sequence[NDArray[np.integer]]],
    ) -> None:
        self.chunks, self.samples = chunks, samples
        self._name, self._ask = name, ask

    def read(
        self, firsts: NDArray[np.uint64], counts: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return the sizes of runs of sequences, by asking for those of whole chunks.

        No run is empty, and there is one at least.
        """
        ends = firsts + counts
        chunks, take = self.chunks.find(firsts), self.chunks.take
        if (firsts == take(chunks)).all() and (ends == take(chunks + np.uint64(1))).all():
            asked = chunks.view(np.int64)
            return self.check(asked, self._ask(asked)).astype(np.uint32)
        runs = [self._run(*run) for run in zip(firsts.tolist(), ends.tolist(), strict=True)]
        return np.concatenate(runs).astype(np.uint32)

    def _run(self, first: int, end: int) -> NDArray[np.int64]:
        begin, last = self.chunks.find(np.array([first, end - 1], np.uint64)).tolist()
        chunks = np.arange(begin, last + 1)
        sizes = self.check(chunks, self._ask(chunks))
        skipped = first - self.chunks.take(np.array([begin], np.uint64)).item()
        return sizes[skipped : skipped + end - first]

    def check(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> NDArray[np.int64]:
        """Return the given sizes of chunks in order, once they are checked."""
        self._check_types(chunks, sizes_by_chunk)
        sizes = np.concatenate(sizes_by_chunk, dtype=np.int64, casting="unsafe")
        if sizes.size and (sizes.max() >= 2**32 or sizes.min() < 0):
            self._check_bounds(chunks, sizes_by_chunk)
        starts = offsets_of(np.fromiter(map(len, sizes_by_chunk), np.int64))
        self._check_sums(chunks, sizes, starts)
        return sizes

    def _check_types(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> None:
        kinds = {dtype.kind for dtype in {part.dtype for part in sizes_by_chunk}}
        if kinds <= {"i", "u"} and {part.ndim for part in sizes_by_chunk} == {1}:
            return
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.ndim != 1 or part.dtype.kind not in "iu":
                raise DataError(
                    f"sequence_lengths must be one row of integers, got {part.dtype} of shape "
                    f"{part.shape}",
                    self._name,
                    chunk=int(chunk),
                )

    def _check_bounds(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> None:
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.itemsize >= 8 and part.size and part.max() >= 2**32:
                raise DataError(
                    f"sequence_lengths has {part.max()}; a sequence is below 2^32 samples",
                    self._name,
                    chunk=int(chunk),
                    sequence=int(part.argmax()),
                )

    def _check_sums(
        self, chunks: NDArray[np.int64], sizes: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> None:
        counts, samples = np.diff(starts), sum_chunks(sizes, starts).astype(np.int64)
        asked = chunks.astype(np.uint64)
        take = self.chunks.take
        said_counts = (take(asked + np.uint64(1)) - take(asked)).view(np.int64)
        said_samples = self.samples.take(asked).view(np.int64)
        wrong = (counts != said_counts) | (samples != said_samples)
        empty = np.flatnonzero(sizes < 1)
        wrong[np.searchsorted(starts, empty, "right") - 1] = True
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        raise StaleError(
            f"the chunk was said to have {said_counts[at]} sequences of {said_samples[at]} "
            f"samples, now it has {counts[at]} of {samples[at]}; it must be the same whenever "
            "asked for",
            self._name,
            chunk=int(chunks[at]),
        )
