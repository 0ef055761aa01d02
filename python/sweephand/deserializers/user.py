"""Chunks that the user's own Python code makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.calls import CallLock, call_lock_of, copied
from sweephand.corpus.casts import as_array
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import (
    ColumnData,
    blank_column,
    delivered_bytes,
    describe_stream,
    offsets_of,
    take,
)
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.given_data import make_column
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
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

    def open(self, ledger: Ledger) -> StoredCorpus:
        """Return the corpus, ready to be planned and read."""
        return _UserChunks(self, ledger).corpus()


@dataclass(frozen=True)
class _ChunkData:
    """A chunk as columns, and the size of each of its sequences, int64."""

    columns: dict[str, ColumnData]
    sizes: NDArray[np.int64]


class _UserChunks:
    """The chunks of one object, and their sizes, to which everything served is compared."""

    def __init__(self, user: UserDeserializer, ledger: Ledger) -> None:
        self._user, self._ledger = user, ledger
        self._name = type(user).__name__
        self._lock = CallLock(several=True) if user.thread_safe else call_lock_of(user)
        streams = self._call("stream_infos")
        if not isinstance(streams, Mapping | list):
            raise TypeError(
                f"{self._name}.stream_infos() must return StreamDefs, a dict of StreamDef or a "
                f"list of names, got {type(streams).__name__}"
            )
        if not streams:
            raise ValueError(f"{self._name}.stream_infos() names no stream")
        self._definitions = choose_streams(streams, StreamDefs)
        self._sizing = sizing_streams(self._definitions)
        num_chunks = self._call("num_chunks")
        check_int(f"{self._name}.num_chunks()", num_chunks, 1, 2**63)
        self._infos: list[StreamInfo] = []
        self._measured: NDArray[np.uint32] | None = None
        self._first: dict[int, _ChunkData] = {}  # a chunk that need not be made again
        declared = self._declared(num_chunks)
        if declared is None:
            self._measure(num_chunks)
        else:
            self._know(declared[:, 0], declared[:, 1])
            first = int(np.argmax(declared[:, 0] > 0))
            data = self._first[first] = self._read(first)
            self._learn(first, data)
            self._sample_bytes = self._bytes_of(data) / max(1, int(declared[first, 1]))

    def corpus(self) -> StoredCorpus:
        """Return the corpus."""
        reader = StoredReader(
            core=_core.read.CallbackDeserializer(self._load),
            streams=self._infos,
            chunks=self._starts,
            measure=self._size,
            resident=False,
            sample_bytes=self._sample_bytes,
            load_threads=0,
            call_locks=(self._lock,),
        )
        ids = ShardIds([self._name], [0, self._starts.total])
        return StoredCorpus([reader], ids, [self._name])

    def _call(self, method: str) -> Any:
        """Call a method of the user's object under its lock."""
        with self._lock.hold(f"{self._name}.{method}()"):
            return copied(getattr(self._user, method)())

    def _know(self, counts: NDArray[np.uint64], samples: NDArray[np.uint64]) -> None:
        """Keep the sequences and samples of every chunk."""
        self._starts = _core.index.Starts(counts)
        self._samples = _core.index.Starts.of_samples(samples)

    def _learn(self, chunk: int, data: _ChunkData) -> None:
        """Keep the types of the streams, which are those of a chunk."""
        self._infos = self._describe(chunk, data)
        nothing = np.empty(0, np.int64)
        self._like = [take(column, nothing) for column in data.columns.values()]

    def _declared(self, num_chunks: int) -> NDArray[np.uint64] | None:
        declared = self._call("chunk_infos")
        if declared is None:
            return None
        table = as_array(f"{self._name}.chunk_infos()", declared)
        if table.shape != (num_chunks, 2) or table.dtype.kind not in "iu":
            raise ValueError(
                f"{self._name}.chunk_infos() must give (sequences, samples) for {num_chunks} "
                f"chunks, got {table.dtype} of shape {table.shape}"
            )
        table = table.astype(np.int64, copy=False)
        if (table < 0).any():
            raise ValueError(f"{self._name}.chunk_infos() has a negative number, or 2^63")
        return table.view(np.uint64)

    def _measure(self, num_chunks: int) -> None:
        """Load every chunk once; the first that is not empty describes the streams."""
        sizes: list[NDArray[np.int64]] = []
        num_bytes = 0
        for chunk in range(num_chunks):
            data = self._read(chunk)
            sizes.append(data.sizes)
            if not self._infos and (data.sizes.size or chunk == num_chunks - 1):
                self._learn(chunk, data)
            num_bytes += self._bytes_of(data)
        samples = np.array([part.sum() for part in sizes], np.uint64)
        self._sample_bytes = num_bytes / max(1, int(samples.sum()))
        self._know(np.array([len(part) for part in sizes], np.uint64), samples)
        self._measured = self._checked(np.arange(num_chunks), sizes)

    def _bytes_of(self, data: _ChunkData) -> int:
        """Return the bytes of a chunk, or of its delivered streams if those are more."""
        columns = data.columns.values()
        stored = sum(column.num_bytes for column in columns)
        return max(stored, sum(map(delivered_bytes, columns, self._infos)))

    def _size(self) -> Sizing:
        if self._starts.total == self._samples.total:
            one_each = Sizing.one_each(self._starts)
            if one_each.samples.equals(self._samples):
                return one_each
        if self._measured is not None:
            return Sizing(_core.index.StoredSizes(self._measured), self._samples)
        return Sizing(_core.index.CallbackSizes(self._sizes_of), self._samples, False)

    def _load(self, chunk: int) -> _core.read.Chunk:
        """Return a chunk; if it cannot be served it is skipped as one damaged item."""
        try:
            data = self._first.pop(chunk, None) or self._read(chunk)
            for found, wanted in zip(self._describe(chunk, data), self._infos, strict=True):
                if found != wanted:
                    raise StaleError(
                        f"the stream has {found.kind} here, and {wanted.kind} in the chunk "
                        "that was read first",
                        self._name,
                        chunk=chunk,
                        stream=wanted.name,
                    )
            self._checked(np.array([chunk]), [data.sizes])
            return make_chunk(list(data.columns.values()))
        except DataError as error:
            self._ledger.add(error)
        begin, end = self._starts.bounds(chunk)
        lengths = np.zeros(end - begin, np.int64)
        blank = [
            replace(blank_column(one, lengths), sample_offsets=offsets_of(lengths))
            for one in self._like
        ]
        return make_chunk(blank, skipped=range(end - begin))

    def _read(self, chunk: int) -> _ChunkData:
        """Have a chunk made, and return it."""
        # Returned objects may read data only when they are accessed.
        with self._lock.hold(f"{self._name}.get_chunk({chunk})"):
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
                raise DataError(str(error), self._name, chunk=chunk) from error
        least = 0 if self._sizing else 1
        sizes = np.full(next(iter(columns.values())).num_sequences, least, np.int64)
        for name in self._sizing:
            offsets = columns[name].sample_offsets
            sizes = np.maximum(sizes, 1 if offsets is None else np.diff(offsets))
        if sizes.size and sizes.min() == 0:
            raise DataError(
                "the sequence has no sample in the stream that defines its size",
                self._name,
                chunk=chunk,
                sequence=int(np.argmin(sizes)),
            )
        return _ChunkData(columns, sizes)

    def _get(self, chunk: int) -> Mapping[str, object]:
        try:
            data = copied(self._user.get_chunk(chunk))
        except Exception as error:
            error.add_note(f"raised by {self._name}.get_chunk({chunk})")
            raise
        if not isinstance(data, Mapping):
            raise TypeError(
                f"{self._name}.get_chunk({chunk}) must return a dict of streams, got "
                f"{type(data).__name__}"
            )
        data = {name_of(key): stream for key, stream in data.items()}
        for name, definition in self._definitions.items():
            if (definition.field or name) not in data:
                raise DataError(
                    f"get_chunk returned no stream {definition.field or name!r}, only "
                    f"{', '.join(map(str, data))}",
                    self._name,
                    chunk=chunk,
                )
        return data

    def _describe(self, chunk: int, data: _ChunkData) -> list[StreamInfo]:
        """Return the types of the streams of a chunk."""
        try:
            # An array of one sample per sequence holds for all chunks; lists may vary.
            return [
                describe_stream(
                    name,
                    data.columns[name],
                    definition,
                    is_single=data.columns[name].sample_offsets is None,
                )
                for name, definition in self._definitions.items()
            ]
        except ValueError as error:
            raise DataError(str(error), self._name, chunk=chunk) from error

    def _sizes_of(
        self, firsts: NDArray[np.uint64], counts: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return the sizes of runs of sequences, by asking for those of whole chunks.

        No run is empty, and there is one at least.
        """
        ends = firsts + counts
        chunks, take_starts = self._starts.find(firsts), self._starts.take
        begins, stops = take_starts(chunks), take_starts(chunks + np.uint64(1))
        if (firsts == begins).all() and (ends == stops).all():
            return self._lengths(chunks.view(np.int64))
        runs = zip(firsts.tolist(), ends.tolist(), strict=True)
        return np.concatenate([self._sizes_of_run(first, end) for first, end in runs])

    def _sizes_of_run(self, first: int, end: int) -> NDArray[np.uint32]:
        begin, last = self._starts.find(np.array([first, end - 1], np.uint64)).tolist()
        skipped = first - self._starts.bounds(begin)[0]
        return self._lengths(np.arange(begin, last + 1))[skipped : skipped + end - first]

    def _lengths(self, chunks: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the sizes of the sequences of chunks, declared or else measured."""
        sizes: list[Any] = []
        call = f"{self._name}.sequence_lengths()"
        ask = self._user.sequence_lengths
        for begin in range(0, len(chunks), _CHUNKS_A_TURN):
            with self._lock.hold(call):
                for chunk in chunks[begin : begin + _CHUNKS_A_TURN].tolist():
                    one = copied(ask(chunk))
                    if one is not None and type(one) is not np.ndarray:
                        one = as_array(call, one)
                    sizes.append(one)
        for at, one in enumerate(sizes):
            if one is None:
                sizes[at] = self._read(int(chunks[at])).sizes
        return self._checked(chunks, sizes)

    def _checked(
        self, chunks: NDArray[np.int64], sizes_by_chunk: Sequence[NDArray[np.integer]]
    ) -> NDArray[np.uint32]:
        """Return the given sizes of chunks in order, if they are those that were said."""
        for chunk, part in zip(chunks, sizes_by_chunk, strict=True):
            if part.ndim != 1 or part.dtype.kind not in "iu":
                raise DataError(
                    f"sequence_lengths must be one row of integers, got {part.dtype} of shape "
                    f"{part.shape}",
                    self._name,
                    chunk=int(chunk),
                )
        # What is beyond int64 becomes negative.
        sizes = np.concatenate(sizes_by_chunk, dtype=np.int64, casting="unsafe")
        starts = offsets_of(np.fromiter(map(len, sizes_by_chunk), np.int64))
        counts, samples = np.diff(starts), sum_chunks(sizes, starts).astype(np.int64)
        asked = chunks.astype(np.uint64)
        said_counts, said_samples = (
            (of.take(asked + np.uint64(1)) - of.take(asked)).view(np.int64)
            for of in (self._starts, self._samples)
        )
        wrong = (counts != said_counts) | (samples != said_samples)
        odd = np.flatnonzero((sizes < 1) | (sizes >= 2**32))
        wrong[np.searchsorted(starts, odd, "right") - 1] = True
        if not wrong.any():
            return sizes.astype(np.uint32)
        at = int(np.argmax(wrong))
        raise StaleError(
            f"the chunk was said to have {said_counts[at]} sequences of {said_samples[at]} "
            f"samples, now it has {counts[at]} of {samples[at]}; it must be the same whenever "
            "asked for, and a sequence has 1 to 2^32 - 1 samples",
            self._name,
            chunk=int(chunks[at]),
        )
