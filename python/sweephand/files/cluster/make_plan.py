"""Part of a node in a cluster, as users describe it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from sweephand.checks import check_int, check_number
from sweephand.dataclass import dataclass, field
from sweephand.errors import shown
from sweephand.files.cluster.cluster_node import ClusterPlan
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import MOST_SECONDS, PeerLimits
from sweephand.files.cluster.seat import check_address

Address: TypeAlias = tuple[str, int] | tuple[str, int, int]
"""Host, port, and the room of the node where it is another than that of this one."""

AddressesOf: TypeAlias = Callable[[], Sequence[Address]]
PeersArgument: TypeAlias = Sequence[Address] | AddressesOf | Literal["torch"]
AnyPath: TypeAlias = str | os.PathLike[str]
TLSFiles: TypeAlias = tuple[AnyPath, AnyPath, AnyPath]


@dataclass(frozen=True)
class ClusterOptions:
    """Options of a node's cache that concern other nodes; see `NodeCache`."""

    peers: PeersArgument
    address: tuple[str, int] | None
    token: str | None = field(repr=False)
    tls: TLSFiles | None
    seconds: float
    max_bytes: int

    def __post_init__(self) -> None:
        if not 0 < check_number("peer_seconds", self.seconds) <= MOST_SECONDS:
            raise ValueError(
                f"peer_seconds must be in (0, {MOST_SECONDS:g}], got {shown(self.seconds)}"
            )
        check_int("peer_bytes", self.max_bytes, 1, 2**63)
        if self.address is not None:
            _check_address("address", self.address, 2)
        if self.tls is not None and len(self.tls) != 3:
            raise ValueError("tls must name three files: certificate, key and authority")
        if self.peers == "torch":
            return
        given: object = self.peers
        if isinstance(given, str) or not (callable(given) or isinstance(given, Sequence)):
            raise ValueError(
                "peers must be 'torch', addresses such as [('10.0.0.1', 7070), ...] or a "
                f"function that returns them, got {shown(self.peers)}"
            )
        if self.address is None or not self.token:
            raise ValueError(
                "peers need the address of this node, such as address=('10.0.0.1', 7070), and "
                "a token that all nodes share, such as token=secrets.token_hex() of one of them"
            )
        if not self.token.isprintable():
            raise ValueError("token must be of printable characters")
        if not callable(self.peers):
            for peer in self.peers:
                _check_address("peers", peer, 3)

    def plan(self, folder: Path, room: int) -> ClusterPlan:
        """Return the part of a node whose folder has some room.

        Raises
        ------
        OSError
            If its address is not one of this machine.
        ValueError
            If certificates cannot be read or used.
        ImportError
            If aiohttp is not installed.
        """
        if find_spec("aiohttp") is None:
            raise ImportError("peers need aiohttp: pip install 'sweephand[remote]'")
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
        limits = PeerLimits(self.seconds, self.max_bytes)
        return ClusterPlan(members, own, token, server_tls, client_tls, limits)


class _Listed:
    """The members of a list, or of a function that returns one."""

    def __init__(
        self, peers: Sequence[Address] | Callable[[], Sequence[Address]], room: int
    ) -> None:
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
    certificate: str | os.PathLike[str],
    key: str | os.PathLike[str],
    authority: str | os.PathLike[str],
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts of the server and of the client, which show each other certificates."""
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
