"""Chunks that the user's own Python code makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.casts import as_array
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.describe import delivered_bytes
from sweephand.corpus.ids import ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.streams import StreamInfo
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.user_chunks import ChunkData, UserChunks
from sweephand.deserializers.user_sizes import UserSizes
from sweephand.errors import DataError, StaleError


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
