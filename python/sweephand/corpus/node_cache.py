"""The cache on the disk of a node, as users name it, and readers of chunks through it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.reader import UNKNOWN_CHUNK, Reader, StoredReader

if TYPE_CHECKING:
    from sweephand.files.node_cache import NodeReads, Uses


@dataclass(frozen=True)
class NodeCache:
    """A folder on a disk of this node, where a source keeps data that it reads from a store.

    All processes of the node that use the same folder share it: a range of an object is fetched
    by one of them. The cache keeps what is needed soonest, as the order is known.

    Parameters
    ----------
    folder : str or path
        A folder of its own, made if need be. It can be deleted when no process uses it.
    max_bytes : int
        Limit of the size of all its entries together.

    Raises
    ------
    ValueError
        When a source is made with it: if the folder holds other things, or the largest chunk
        does not fit.

    Examples
    --------
    >>> import fsspec, tempfile, numpy as np, sweephand as sh
    >>> content = np.arange(4096, dtype=np.uint16).tobytes()
    >>> fsspec.filesystem("memory").pipe("/cached/tokens.bin", content)
    >>> corpus = sh.RawTokensDeserializer("memory://cached/tokens.bin", "uint16", 64)
    >>> cache = sh.NodeCache(tempfile.mkdtemp(), max_bytes=1 << 20)
    >>> for _ in range(2):
    ...     with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache) as source:
    ...         ids = [minibatch.ids for minibatch in source.minibatches(64)]
    ...         stats = source.stats()
    >>> stats["cache_bytes_fetched"], stats["cache_bytes_read"]
    (0, 8192)
    """

    folder: str | os.PathLike[str]
    max_bytes: int

    def __post_init__(self) -> None:
        check_int("max_bytes", self.max_bytes, 1, 2**63)
        os.fspath(self.folder)

    def read_through(
        self, corpus: Corpus, make_uses: Callable[[], Uses]
    ) -> tuple[Sequence[Reader], NodeReads | None]:
        """Return readers whose chunks come from the cache where they can, and their reads."""
        from pathlib import Path  # only here, as it brings urllib

        reads: list[NodeReads] = []

        def change(owner: Any, reader: StoredReader, chunks: slice) -> StoredReader:
            if reader.resident or not reader.asks_a_store:
                return reader
            from sweephand.files.node_cache import NodeReads  # only here: few use it

            largest = int(int(owner.sizing.chunk_samples.max()) * reader.sample_bytes)
            if self.max_bytes < largest:
                raise ValueError(
                    f"max_bytes of the node cache is {self.max_bytes}, less than the largest "
                    f"chunk, about {largest} bytes; give more, or read in smaller chunks"
                )
            if not reads:
                reads.append(NodeReads(Path(self.folder), self.max_bytes, make_uses))
            numbers = _chunks_in(chunks, owner, reader)

            def load(number: int) -> _core.read.Chunk:
                made = partial(reader.core.load_chunk, number)
                return reads[0].load(made, int(numbers[number]))

            return replace(reader, core=_core.read.CallbackDeserializer(load))

        chunks = slice(0, len(corpus.chunk_starts))
        readers = [reader.through(corpus, chunks, change) for reader in corpus.readers]
        return readers, reads[0] if reads else None


def _chunks_in(chunks: slice, owner: Any, reader: StoredReader) -> NDArray[np.uint64]:
    """Return the chunk in the plan whose sequences come first in each load of a reader."""
    begins, numbers = reader.loads.offsets()[:-1], reader.numbers
    is_inner = len(owner.chunk_starts) != chunks.stop - chunks.start
    if is_inner or (numbers is not None and (numbers[1:] < numbers[:-1]).any()):
        return np.full(len(begins), UNKNOWN_CHUNK, np.uint64)
    if numbers is not None:
        begins = np.searchsorted(numbers, begins.astype(np.uint64))
    ends = owner.chunk_starts.offsets()[1:]
    found = np.searchsorted(ends, begins, side="right")
    chosen: NDArray[np.int64] = np.minimum(found, len(ends) - 1) + chunks.start
    return chosen.astype(np.uint64)
