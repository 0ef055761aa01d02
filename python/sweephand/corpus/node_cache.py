"""A cache on the disk of a node, as users name it, and its part in a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from sweephand.base.checks import check_int, check_number
from sweephand.errors import shown

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from sweephand.files.cluster.cluster_node import ClusterPlan
    from sweephand.files.cluster.members import Member

Address: TypeAlias = tuple[str, int] | tuple[str, int, int]
"""Host, port, and the room of the node where it is another than that of this one."""

AddressesOf: TypeAlias = Callable[[], Sequence[Address]]
PeersArgument: TypeAlias = Sequence[Address] | AddressesOf | Literal["torch"]
AnyPath: TypeAlias = str | os.PathLike[str]
TLSFiles: TypeAlias = tuple[AnyPath, AnyPath, AnyPath]


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
    peers : list of (host, port), callable or "torch", optional
        The nodes of a cluster that share their caches: a node asks the other nodes before the
        store. A third number is the `max_bytes` of a node if it differs. A callable returns the
        current list, and is called at each minibatch. "torch" takes the nodes of all ranks
        of the process group.
    address : (host, port), optional
        Address of this node for requests of other nodes; only this is bound. "torch" finds it.
    token : str, optional
        A secret that all nodes share; "torch" makes one.
    tls : (certificate, key, authority), optional
        PEM files with which nodes encrypt their traffic and authenticate each other.
    peer_seconds : float
        Time that a node waits for another node before it asks the store.
    peer_bytes : int
        Bytes under way to other nodes at a time, and as many from them.

    Raises
    ------
    ValueError
        If an argument is out of range. When a source is made with it: if the folder
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
        if self.peers is not None:
            self._check_peers(self.peers)

    def plan_cluster(self, folder: Path) -> ClusterPlan | None:
        """Return the part of the node in a cluster; None if it has no peers.

        Raises
        ------
        OSError
            If its address is not one of this machine.
        ValueError
            If certificates cannot be read or used.
        ImportError
            If aiohttp is not installed.
        """
        if self.peers is None:
            return None
        if find_spec("aiohttp") is None:
            raise ImportError("peers need aiohttp: pip install 'sweephand[remote]'")
        from sweephand.files.cluster.cluster_node import ClusterPlan
        from sweephand.files.cluster.message import PeerLimits
        from sweephand.files.cluster.seat import check_address

        room = self.max_bytes
        server_tls, client_tls = (None, None) if self.tls is None else _contexts(*self.tls)
        if self.peers == "torch":
            # Torch is imported where it was asked for alone.
            from sweephand.torch.meeting import meet

            found, own, token = meet(folder, room, self.address, self.token)
            members: Callable[[], Sequence[Member]] = lambda: found  # noqa: E731
        else:
            assert self.address is not None
            assert self.token is not None
            own, token = _member(self.address, room), self.token
            members = _Listed(self.peers, room)
        check_address(own)
        limits = PeerLimits(self.peer_seconds, self.peer_bytes)
        return ClusterPlan(members, own, token, server_tls, client_tls, limits)

    def _check_peers(self, peers: PeersArgument) -> None:
        from sweephand.files.cluster.message import MOST_SECONDS  # only here: few have peers

        if not 0 < check_number("peer_seconds", self.peer_seconds) <= MOST_SECONDS:
            raise ValueError(
                f"peer_seconds must be in (0, {MOST_SECONDS:g}], got {shown(self.peer_seconds)}"
            )
        check_int("peer_bytes", self.peer_bytes, 1, 2**63)
        if self.address is not None:
            _check_address("address", self.address, 2)
        if self.tls is not None and len(self.tls) != 3:
            raise ValueError("tls must name three files: certificate, key and authority")
        if peers == "torch":
            return
        given: object = peers
        if isinstance(given, str) or not (callable(given) or isinstance(given, Sequence)):
            raise ValueError(
                "peers must be 'torch', addresses such as [('10.0.0.1', 7070), ...] or a "
                f"function that returns them, got {shown(peers)}"
            )
        if self.address is None or not self.token:
            raise ValueError(
                "peers need the address of this node, such as address=('10.0.0.1', 7070), and "
                "a token that all nodes share, such as token=secrets.token_hex() of one of them"
            )
        if not self.token.isprintable():
            raise ValueError("token must be of printable characters")
        if not callable(peers):
            for peer in peers:
                _check_address("peers", peer, 3)


class _Listed:
    """The members of a list, or of a function that returns a list."""

    def __init__(self, peers: Sequence[Address] | AddressesOf, room: int) -> None:
        self._ask = peers if callable(peers) else None
        self._room = room
        self._last: Sequence[Address] = () if callable(peers) else peers
        self._members = [_member(one, room) for one in self._last]

    def __call__(self) -> Sequence[Member]:
        if self._ask is not None:
            now = list(self._ask())
            if now != self._last:
                for one in now:
                    _check_address("peers", one, 3)
                self._last, self._members = now, [_member(one, self._room) for one in now]
        return self._members


def _member(address: Address, room: int) -> Member:
    from sweephand.files.cluster.members import Member

    host, port, *rooms = address
    return Member(host, port, rooms[0] if rooms else room, f"{host}:{port}")


def _check_address(name: str, address: object, most: int) -> None:
    if not isinstance(address, tuple | list) or not 2 <= len(address) <= most:
        raise ValueError(f"{name}: an address is ('10.0.0.1', 7070), got {shown(address)}")
    host, port, *rooms = address
    if not isinstance(host, str) or not host:
        raise ValueError(f"{name}: a host is a name or number as text, got {shown(host)}")
    check_int(f"{name}: a port", port, 1, 2**16)
    for room in rooms:
        check_int(f"{name}: max_bytes of a node", room, 1, 2**63)


def _contexts(
    certificate: AnyPath, key: AnyPath, authority: AnyPath
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts of the server and of the client, which show each other certificates."""
    import ssl

    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        try:
            context = ssl.create_default_context(purpose, cafile=authority)
            context.load_cert_chain(certificate, key)
        except OSError as error:
            names = ", ".join(os.fspath(one) for one in (certificate, key, authority))
            reason = error.strerror or str(error)
            raise ValueError(
                f"tls: a certificate of {names} cannot be used: {reason}"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    return contexts[0], contexts[1]
