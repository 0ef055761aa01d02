"""The cache on the disk of a node, as users name it, and readers of chunks through it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.chunk_cache import UNKNOWN_CHUNK, CacheUse
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.reader import Change, Reader, StoredReader

if TYPE_CHECKING:
    from sweephand.corpus.reader import ReadCorpus
    from sweephand.files.node_cache.next_uses import Uses
    from sweephand.files.node_cache.reads import NodeReads


@dataclass(frozen=True)
class NodeCache:
    """A folder on a disk of this node, where a source keeps data that it reads from a store.

    All processes of the node that use the same folder share it: the data of a chunk are fetched
    by one of them. As the future order is known, the cache does not guess: it keeps the data
    that are needed soonest. If a part of a corpus fits, at least that part of every later sweep
    comes from the disk. Local files are read where they are.

    Parameters
    ----------
    folder : str or path
        A folder of its own, made if need be. It can be deleted when no process uses it.
    max_bytes : int
        Limit of the size of all its files together, except a few bytes of notes for each.

    Raises
    ------
    ValueError
        If an argument is out of range. When a source is made with it: if the folder
        holds other things, the disk has no room, or the largest chunk does not fit.
    OSError
        When a source is made with it: if the folder cannot be written.

    Examples
    --------
    >>> import fsspec, tempfile, numpy as np, sweephand as sh
    >>> content = np.arange(4096, dtype=np.uint16).tobytes()
    >>> fsspec.filesystem("memory").pipe("/cached/tokens.bin", content)
    >>> corpus = sh.RawTokensDeserializer(
    ...     "memory://cached/tokens.bin", "uint16", 64, chunk_size_in_bytes=1024)
    >>> cache = sh.NodeCache(tempfile.mkdtemp(), max_bytes=1 << 20)
    >>> with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache) as source:
    ...     _ = [minibatch.ids for minibatch in source.minibatches(64)]
    >>> with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache) as source:
    ...     _ = [minibatch.ids for minibatch in source.minibatches(64)]
    ...     source.stats()["cache_bytes_fetched"], source.stats()["cache_bytes_read"]
    (0, 8192)
    """

    folder: str | os.PathLike[str]
    max_bytes: int

    def __post_init__(self) -> None:
        check_int("max_bytes", self.max_bytes, 1, 2**63)
        os.fspath(self.folder)

    def read_through(
        self, corpus: Corpus, make_uses: Callable[[], Uses]
    ) -> tuple[Sequence[Reader], CacheUse]:
        """Return readers whose chunks come from the cache where they can."""
        from pathlib import Path  # only here, as it brings urllib

        stored: list[tuple[ReadCorpus, StoredReader]] = []

        def note(owner: ReadCorpus, reader: StoredReader, _chunks: slice) -> StoredReader:
            stored.append((owner, reader))
            return reader

        _change(corpus, note)
        remote = [(owner, reader) for owner, reader in stored if _is_remote(reader)]
        if not remote:
            return corpus.readers, CacheUse()
        from sweephand.files.node_cache.reads import NodeReads  # only here: few use it

        for owner, reader in remote:
            _check_room(owner, reader, self)
        reads = NodeReads(Path(self.folder), self.max_bytes, make_uses)

        def change(owner: ReadCorpus, reader: StoredReader, chunks: slice) -> StoredReader:
            if not _is_remote(reader):
                return reader
            return _read_through(reads, _chunks_in(chunks, owner, reader), reader)

        return _change(corpus, change), NodeCacheUse(reads)


@dataclass(frozen=True)
class NodeCacheUse(CacheUse):
    """The use that a source makes of the cache of its node."""

    reads: NodeReads

    def publish(self, engine: _core.engine.Engine, request: _core.compose.Request) -> None:
        """Publish the nominal time of the source, and its share of the workers."""
        self.reads.publish(engine.time, request.num_workers, request.rank)

    def stats(self) -> dict[str, float]:
        """Return counts since this process began to read."""
        return self.reads.stats()

    def close(self) -> None:
        """Leave the cache."""
        self.reads.close()


def _change(corpus: Corpus, change: Change) -> list[Reader]:
    chunks = slice(0, len(corpus.chunk_starts))
    return [reader.through(corpus, chunks, change) for reader in corpus.readers]


def _is_remote(reader: StoredReader) -> bool:
    return reader.asks_a_store and not reader.resident


def _chunks_in(chunks: slice, owner: ReadCorpus, reader: StoredReader) -> NDArray[np.uint64]:
    """Return the chunk in the plan for each load of a reader that may be of an inner corpus."""
    own = chunks_of_loads(owner, reader)
    if len(owner.chunk_starts) != chunks.stop - chunks.start:
        return np.full(len(own), UNKNOWN_CHUNK, np.uint64)
    return np.where(own == UNKNOWN_CHUNK, own, own + np.uint64(chunks.start))


def chunks_of_loads(corpus: ReadCorpus, reader: StoredReader) -> NDArray[np.uint64]:
    """Return the chunk of the corpus whose sequences come first in each load of a reader."""
    begins = reader.loads.offsets()[:-1]
    numbers = reader.numbers
    if numbers is not None:
        if (numbers[1:] < numbers[:-1]).any():
            return np.full(len(begins), UNKNOWN_CHUNK, np.uint64)
        begins = np.searchsorted(numbers, begins.astype(np.uint64))
    ends = corpus.chunk_starts.offsets()[1:]
    chunks = np.searchsorted(ends, begins, side="right")
    return np.minimum(chunks, len(ends) - 1).astype(np.uint64)


def _read_through(
    reads: NodeReads, chunks: NDArray[np.uint64], reader: StoredReader
) -> StoredReader:
    core = reader.core

    def load(number: int) -> _core.read.Chunk:
        return reads.load(lambda: core.load_chunk(number), int(chunks[number]))

    return replace(reader, core=_core.read.CallbackDeserializer(load))


def _check_room(corpus: ReadCorpus, reader: StoredReader, cache: NodeCache) -> None:
    largest = int(int(corpus.sizing.chunk_samples.max()) * reader.sample_bytes)
    if cache.max_bytes < largest:
        raise ValueError(
            f"max_bytes of the node cache is {cache.max_bytes}, less than the largest chunk, "
            f"about {largest} bytes; give more, or read in smaller chunks"
        )
