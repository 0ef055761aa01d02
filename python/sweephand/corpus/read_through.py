"""Readers of chunks through the shared cache of a node."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.reader import Change, Reader, StoredReader

if TYPE_CHECKING:
    from sweephand.corpus.node_cache import NodeCache
    from sweephand.corpus.reader import ReadCorpus
    from sweephand.files.node_cache.decoded import DecodedChunks
    from sweephand.files.node_cache.next_uses import Uses
    from sweephand.files.node_cache.reads import NodeReads

UNKNOWN_CHUNK = 2**64 - 1
"""Stands for the chunks of a member whose sequences come in another order."""


@dataclass(frozen=True)
class CacheUse:
    """How a source uses the cache of its node."""

    reads: NodeReads | None = None  # none where nothing lies in a store
    decoded: DecodedChunks | None = None  # none where that was not asked for

    def stand(self, engine: _core.engine.Engine, request: _core.compose.Request) -> None:
        """Publish the nominal time of the source, and its share of the workers."""
        if self.reads is not None:
            self.reads.stand(engine.time, request.num_workers, request.rank)

    def stats(self) -> dict[str, float]:
        """Return counts since this process began to read."""
        found = {} if self.reads is None else self.reads.stats()
        if self.decoded is not None:
            found["cache_chunks_mapped"] = self.decoded.num_mapped
            found["cache_chunks_offered"] = self.decoded.num_offered
        return found

    def close(self) -> None:
        """Leave the cache; chunks that other processes have mapped stay valid."""
        if self.reads is not None:
            self.reads.close()


def read_through(
    corpus: Corpus, cache: NodeCache, make_uses: Callable[[], Uses], made_of: object
) -> tuple[Sequence[Reader], CacheUse]:
    """Return readers whose chunks come from other processes of the node where they can."""
    from pathlib import Path  # only here, as it brings urllib

    stored: list[tuple[ReadCorpus, StoredReader]] = []

    def note(owner: ReadCorpus, reader: StoredReader, _chunks: slice) -> StoredReader:
        stored.append((owner, reader))
        return reader

    _change(corpus, note)
    reads, decoded, made = None, None, b""
    if any(_is_remote(reader) for _, reader in stored):
        from sweephand.files.node_cache.reads import NodeReads  # only here: few use it

        for owner, reader in stored:
            _check_room(owner, reader, cache)
        reads = NodeReads(Path(cache.folder), cache.max_bytes, make_uses)
    if cache.decoded_bytes and any(_is_decoded(reader) for _, reader in stored):
        made = digest_of(made_of)
    if made:
        from sweephand.files.node_cache.decoded import DecodedChunks

        decoded = DecodedChunks(Path(cache.folder), cache.decoded_bytes)
    numbers = count()

    def change(owner: ReadCorpus, reader: StoredReader, chunks: slice) -> StoredReader:
        number, found = next(numbers), reader
        if reads is not None and _is_remote(reader):
            found = _read_through(reads, _chunks_in(chunks, owner, reader), found)
        if decoded is not None and _is_decoded(reader):
            found = _decode_once(decoded, made + f" {number}".encode(), found)
        return found

    return _change(corpus, change), CacheUse(reads, decoded)


def _change(corpus: Corpus, change: Change) -> list[Reader]:
    chunks = slice(0, len(corpus.chunk_starts))
    return [reader.through(corpus, chunks, change) for reader in corpus.readers]


def _is_remote(reader: StoredReader) -> bool:
    return reader.asks_a_store and not reader.resident


def _is_decoded(reader: StoredReader) -> bool:
    """Return True if loading takes more than the page cache of the system, which all share."""
    return not reader.resident and not isinstance(reader.core, _core.read.ExtentChunks)


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


def _decode_once(decoded: DecodedChunks, made: bytes, reader: StoredReader) -> StoredReader:
    from hashlib import blake2b  # only here, as it loads OpenSSL

    core = reader.core

    def load(number: int) -> _core.read.Chunk:
        key = blake2b(made + f" {number}".encode(), digest_size=16).digest()
        return decoded.load(key, lambda: core.load_chunk(number))

    return replace(reader, core=_core.read.CallbackDeserializer(load))


def digest_of(made_of: object) -> bytes:
    """Return a digest that processes share if they decode the same; none if it cannot be."""
    from hashlib import blake2b

    try:
        return blake2b(pickle.dumps(made_of)).digest()
    except Exception as error:  # whatever users' classes raise
        warnings.warn(
            f"decoded chunks are not shared, as equal chunks cannot be recognised: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return b""


def _check_room(corpus: ReadCorpus, reader: StoredReader, cache: NodeCache) -> None:
    if not _is_remote(reader):
        return
    largest = int(int(corpus.sizing.chunk_samples.max()) * reader.sample_bytes)
    if cache.max_bytes < largest:
        raise ValueError(
            f"max_bytes of the node cache is {cache.max_bytes}, less than the largest chunk, "
            f"about {largest} bytes; give more, or read in smaller chunks"
        )
