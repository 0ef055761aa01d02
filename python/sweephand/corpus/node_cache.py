"""A cache on the disk of a node, as users name it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sweephand.checks import check_int
from sweephand.dataclass import dataclass, field

if TYPE_CHECKING:
    from sweephand.files.cluster.make_plan import ClusterOptions, PeersArgument, TLSFiles


@dataclass(frozen=True)
class NodeCache:
    """A folder on a disk of this node, where a source keeps data that it reads from a store.

    All processes of the node that are given one folder share it: what a chunk reads is fetched
    by one of them. When what comes next is known there is no need to guess what to keep: it is
    what is needed soonest. So of a corpus of which a part fits, at least that part of every
    later sweep comes from the disk. Local files are read where they are.

    Ranks that get the same data, loaders' workers, or an evaluation beside the training may
    also share what they have decoded of compressed files or text: `decoded_bytes`.

    Parameters
    ----------
    folder : str or path
        A folder of its own, made if need be. It can be deleted when nobody uses it.
    max_bytes : int
        What all files in it together may take, but for some bytes of notes for each.
    decoded_bytes : int
        Of main memory in which each process may offer the chunks that it has decoded to the
        others, of local files too; 0 is none.
    peers : list of (host, port), callable or "torch", optional
        The nodes of a cluster, whose caches are one: a node asks the others before the store.
        A third number is the `max_bytes` of a node where it is another. A callable returns the
        list as it is now, and is asked at each minibatch. "torch" takes the nodes of all ranks
        of the process group.
    address : (host, port), optional
        Of this node, where the others ask it; no other is bound. "torch" finds it.
    token : str, optional
        A secret that all nodes share; "torch" makes one.
    tls : (certificate, key, authority), optional
        PEM files, with which nodes encrypt what they send, and know each other.
    peer_seconds : float
        That a node waits for another one before it asks the store.
    peer_bytes : int
        That are under way to other nodes at a time, and as much from them.

    Raises
    ------
    ValueError
        If one of them is out of range. When a source is made with it: if the folder
        holds other things, the disk has no room, or the largest chunk does not fit.
    OSError
        When a source is made with it: if the folder cannot be written, or the address is not
        one of this machine.
    RuntimeError
        When a source is made with it: if "torch" finds no process group, or not all ranks.

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
    peers: PeersArgument | None = None
    address: tuple[str, int] | None = None
    token: str | None = field(default=None, repr=False)
    tls: TLSFiles | None = None
    peer_seconds: float = 2.0
    peer_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        check_int("max_bytes", self.max_bytes, 1, 2**63)
        check_int("decoded_bytes", self.decoded_bytes, 0, 2**63)
        os.fspath(self.folder)
        _ = self.cluster_options

    @property
    def cluster_options(self) -> ClusterOptions | None:
        """Options that concern other nodes; None if there are none."""
        if self.peers is None:
            return None
        from sweephand.files.cluster.make_plan import ClusterOptions  # only here: few use it

        return ClusterOptions(
            self.peers, self.address, self.token, self.tls, self.peer_seconds, self.peer_bytes
        )
