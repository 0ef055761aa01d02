"""Chunks that the user's own Python code makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
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
from sweephand.corpus.sizes import Sizing
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
from sweephand.errors import DataError, StaleError, shown


class UserDeserializer(Deserializer):
    """Base class for chunks that are made by your code.

    Implement `stream_infos`, `num_chunks` and `get_chunk`. A chunk must always be the same, and
    its arrays must not change: they are not copied. With `chunk_infos` a single chunk is loaded
    in advance, to learn its streams; without it, all are loaded once for the lengths of their
    sequences. `sequence_lengths` avoids loading a chunk only to plan it. Chunks are loaded when
    the first of their sequences is delivered and dropped when the window has passed them.

    The methods are called from other threads than yours, but one call at a time, over all
    sources of the object. With ``thread_safe = True`` in the class, several threads may call
    them at once. A method that asks a source for a minibatch that needs the object itself would
    wait for itself: that is a RuntimeError.

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

    thread_safe: bool = False

    @abstractmethod
    def stream_infos(self) -> StreamsLike:
        """Return the streams that every chunk holds; in CNTK a list of infos."""

    @abstractmethod
    def num_chunks(self) -> int:
        """Return the number of chunks."""

    @abstractmethod
    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        """Return one chunk: stream name to data, as `ArrayDeserializer` takes them."""

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


# The columns of a chunk, their types, none if it is empty, and the size of each sequence.
_Made = tuple[dict[str, ColumnData], list[StreamInfo], NDArray[np.int64]]


class _UserChunks:
    """The chunks of one object, and their sizes, to which everything served is compared."""

    def __init__(self, user: UserDeserializer, ledger: Ledger) -> None:
        self._user, self._ledger = user, ledger
        self._name = type(user).__name__
        self._lock = CallLock(several=True) if user.thread_safe else call_lock_of(user)
        streams = self._call("stream_infos")
        if not isinstance(streams, Mapping | list) or not streams:
            raise TypeError(
                f"{self._name}.stream_infos() must return StreamDefs, a dict of StreamDef or a "
                f"list of names, got {shown(streams)}"
            )
        self._definitions = choose_streams(streams, StreamDefs)
        num_chunks = self._call("num_chunks")
        check_int(f"{self._name}.num_chunks()", num_chunks, 1, 2**63)
        self._infos: list[StreamInfo] = []
        table = self._declared(num_chunks)
        read = range(num_chunks) if table is None else [int(np.argmax(table[:, 0] > 0))]
        num_bytes = 0
        measured = []
        for chunk in read:
            columns, infos, sizes = made = self._read(chunk)
            measured.append(sizes)
            if infos and not self._infos:
                self._infos = infos
                nothing = np.empty(0, np.int64)
                self._like = [take(column, nothing) for column in columns.values()]
            stored = sum(column.num_bytes for column in columns.values())
            num_bytes += max(stored, sum(map(delivered_bytes, columns.values(), infos)))
        if not self._infos:
            raise ValueError(f"the corpus is empty: {self._name} made no sequence")
        self._sample_bytes = num_bytes / sum(int(sizes.sum()) for sizes in measured)
        self._first: dict[int, _Made] = {}
        sizes_of: _core.index.Sizes
        if is_measured := table is None:
            table = np.array([(len(one), one.sum()) for one in measured], np.uint64)
            sizes_of = _core.index.StoredSizes(np.concatenate(measured).astype(np.uint32))
        else:
            self._first[read[0]] = made  # it need not be made again
            sizes_of = _core.index.CallbackSizes(self._sizes_of)
        self._starts = _core.index.Starts(table[:, 0])
        self._samples = _core.index.Starts.of_samples(table[:, 1])
        self._sizing = Sizing.one_each(self._starts)
        if not self._sizing.samples.equals(self._samples):
            self._sizing = Sizing(sizes_of, self._samples, is_measured)

    def corpus(self) -> StoredCorpus:
        """Return the corpus."""
        reader = StoredReader(
            core=_core.read.CallbackDeserializer(self._load),
            streams=self._infos,
            chunks=self._starts,
            measure=lambda: self._sizing,
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

    def _declared(self, num_chunks: int) -> NDArray[np.uint64] | None:
        declared = self._call("chunk_infos")
        if declared is None:
            return None
        table = as_array(f"{self._name}.chunk_infos()", declared)
        is_table = table.shape == (num_chunks, 2) and table.dtype.kind in "iu"
        if not is_table or (table.astype(np.int64, copy=False) < 0).any():
            raise ValueError(
                f"{self._name}.chunk_infos() must give (sequences, samples) for {num_chunks} "
                f"chunks, integers in [0, 2^63), got {table.dtype} of shape {table.shape}"
            )
        return table.astype(np.uint64, copy=False)

    def _load(self, chunk: int) -> _core.read.Chunk:
        """Return a chunk; if it cannot be served it is skipped as one damaged item."""
        try:
            made = self._first.pop(chunk, None)
            columns, infos, sizes = made or self._read(chunk)
            for found, wanted in zip(infos, self._infos, strict=False):
                if found != wanted:
                    raise StaleError(
                        f"the stream has {found.form} here, and {wanted.form} in the chunk "
                        "that was read first",
                        self._name,
                        chunk=chunk,
                        stream=wanted.name,
                    )
            self._check(chunk, sizes)
            return make_chunk(list(columns.values()))
        except DataError as error:
            self._ledger.add(error)
        begin, end = self._starts.bounds(chunk)
        lengths = np.zeros(end - begin, np.int64)
        blank = [
            replace(blank_column(one, lengths), sample_offsets=offsets_of(lengths))
            for one in self._like
        ]
        return make_chunk(blank, skipped=range(end - begin))

    def _read(self, chunk: int) -> _Made:
        """Have a chunk made."""
        call = f"{self._name}.get_chunk({chunk})"
        # Returned objects may read data only when they are accessed.
        with self._lock.hold(call):
            try:
                data = copied(self._user.get_chunk(chunk))
            except Exception as error:
                error.add_note(f"raised by {call}")
                raise
            if not isinstance(data, Mapping):
                raise TypeError(f"{call} must return a dict of streams, got {shown(data)}")
            given = {name_of(key): stream for key, stream in data.items()}
            columns = {}
            try:
                for name, definition in self._definitions.items():
                    if (field := definition.field or name) not in given:
                        listed = ", ".join(map(str, given))
                        raise ValueError(f"{call} returned no stream {field!r}, only {listed}")
                    columns[name] = make_column(name, given[field], definition.sample_shape)
                check_same_sequences(columns)
                num_sequences = next(iter(columns.values())).num_sequences
                # An array of one sample per sequence holds for all chunks; lists may vary.
                infos = [
                    describe_stream(
                        name,
                        columns[name],
                        definition,
                        is_single=columns[name].sample_offsets is None,
                    )
                    for name, definition in self._definitions.items()
                    if num_sequences  # an empty list has any type
                ]
            except (TypeError, ValueError) as error:
                raise DataError(str(error), self._name, chunk=chunk) from error
        sizing = sizing_streams(self._definitions)
        sizes = np.full(num_sequences, 0 if sizing else 1, np.int64)
        for name in sizing:
            offsets = columns[name].sample_offsets
            sizes = np.maximum(sizes, 1 if offsets is None else np.diff(offsets))
        wrong = np.flatnonzero((sizes < 1) | (sizes >= 2**32))
        if len(wrong):
            reason = "the sequence has no sample, or 2^32, in the stream that defines its size"
            raise DataError(reason, self._name, chunk=chunk, sequence=int(wrong[0]))
        return columns, infos, sizes

    def _sizes_of(
        self, firsts: NDArray[np.uint64], counts: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return the sizes of runs of sequences, by asking for those of whole chunks."""
        parts = []
        for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
            ends = np.array([first, first + count - 1], np.uint64)
            begin, last = self._starts.find(ends).tolist()
            whole = np.concatenate([self._lengths(chunk) for chunk in range(begin, last + 1)])
            skipped = first - self._starts.bounds(begin)[0]
            parts.append(whole[skipped : skipped + count])
        return np.concatenate(parts)

    def _lengths(self, chunk: int) -> NDArray[np.uint32]:
        """Return the sizes of the sequences of a chunk, declared or else measured."""
        call = f"{self._name}.sequence_lengths({chunk})"
        with self._lock.hold(call):
            sizes = copied(self._user.sequence_lengths(chunk))
            if sizes is not None:
                sizes = as_array(call, sizes)
        return self._check(chunk, self._read(chunk)[2] if sizes is None else sizes)

    def _check(self, chunk: int, sizes: NDArray[np.integer]) -> NDArray[np.uint32]:
        """Return the sizes of a chunk, if they are those that were said."""
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu":
            reason = f"sequence_lengths must be one row of integers, got {shown(sizes)}"
            raise DataError(reason, self._name, chunk=chunk)
        sizes = sizes.astype(np.int64, copy=False)  # what is beyond becomes negative
        said = [int(np.diff(of.bounds(chunk))[0]) for of in (self._starts, self._samples)]
        is_odd = sizes.size and not 1 <= sizes.min() <= sizes.max() < 2**32
        if is_odd or [len(sizes), sizes.sum()] != said:
            raise StaleError(
                f"the chunk was said to have {said[0]} sequences of {said[1]} samples, each of "
                f"1 to 2^32 - 1, now it has {len(sizes)} of {sizes.sum()}",
                self._name,
                chunk=chunk,
            )
        return sizes.astype(np.uint32)
