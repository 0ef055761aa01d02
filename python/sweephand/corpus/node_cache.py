"""A cache on the disk of a node, as users name it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sweephand.base.checks import check_int


@dataclass(frozen=True)
class NodeCache:
    """A folder on a disk of this node, where a source keeps data that it reads from a store.

    All processes of the node that use the same folder share it: the data of a chunk are fetched
    by one of them. As the future order is known, the cache does not guess: it keeps the data
    that are needed soonest. If a part of a corpus fits, at least that part of every later sweep
    comes from the disk. Local files are read where they are.

    Ranks that get the same data, loaders' workers, or an evaluation beside the training may
    also share decoded chunks of compressed files or text: `decoded_bytes`.

    Parameters
    ----------
    folder : str or path
        A folder of its own, made if need be. It can be deleted when no process uses it.
    max_bytes : int
        Limit of the size of all its files together, except a few bytes of notes for each.
    decoded_bytes : int
        Main memory in which each process may offer its decoded chunks, of local files too, to
        the other processes; 0 offers none.

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
    decoded_bytes: int = 0

    def __post_init__(self) -> None:
        check_int("max_bytes", self.max_bytes, 1, 2**63)
        check_int("decoded_bytes", self.decoded_bytes, 0, 2**63)
        os.fspath(self.folder)
