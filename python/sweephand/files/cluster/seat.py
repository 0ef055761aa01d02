"""The seat of a node's server: one process has it, and another takes it over when that ends."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import warnings
from collections.abc import Callable

from sweephand.files.cluster.members import Member
from sweephand.files.cluster.server import EntryServer
from sweephand.files.node_cache.folder import CacheFolder
from sweephand.files.node_cache.marker import MARK
from sweephand.run.locks import ByteLocks

_SERVER = (1 << 20) + 1  # the byte that the process locks that serves
_LAST_SECONDS = 0.01
_LOOK_SECONDS = 0.25  # between looks if another process has ended


class ServerSeat:
    """The right of a process to serve its node's entries, or the wait for it.

    Parameters
    ----------
    own : Member
        Its address is bound, and no other.
    make_server : callable
        Returns a server of the folder's entries.
    """

    def __init__(
        self,
        folder: CacheFolder,
        own: Member,
        make_server: Callable[[], EntryServer],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._own, self._make_server, self._tls = own, make_server, tls
        self._lock = ByteLocks(folder.path / MARK)
        self._socket: socket.socket | None = None
        self._server: EntryServer | None = None

    async def serve(self) -> None:
        """Wait for the seat, and serve from then on."""
        is_told = False
        while self._server is None:
            if self._lock.lock(_SERVER):
                try:
                    self._socket = _bind(self._own)
                except OSError as error:
                    self._lock.unlock(_SERVER)
                    if not is_told:
                        is_told = True
                        warnings.warn(
                            f"nobody serves this node's part of the cluster's cache: "
                            f"{self._own} cannot be bound: {error.strerror}",
                            RuntimeWarning,
                            stacklevel=2,
                        )
                else:
                    self._server = self._make_server()
                    await self._server.start(self._socket, self._tls)
                    return
            await asyncio.sleep(_LOOK_SECONDS)

    async def leave(self) -> None:
        """Stop serving; another process may."""
        if self._socket is not None:
            # Connections that were just accepted would be lost in a server that is closed.
            asyncio.get_running_loop().remove_reader(self._socket)
            await asyncio.sleep(_LAST_SECONDS)
        if self._server is not None:
            await self._server.stop()
        if self._socket is not None:
            self._socket.close()
            self._lock.unlock(_SERVER)
        self._lock.close()

    def forget(self) -> None:
        """Release, in a forked child, the socket that its parent serves."""
        self._lock.close()
        if self._socket is not None:
            os.close(self._socket.detach())


def check_address(own: Member) -> None:
    """Raise OSError if an address does not belong to this machine."""
    try:
        _bind(own._replace(port=0)).close()
    except OSError as error:
        raise OSError(
            error.errno,
            f"the address {own} of this node cannot be bound, {error.strerror}; name one that "
            "is its own",
        ) from None


def free_port(host: str) -> int:
    """Return a port that is not bound."""
    with _bind(Member(host, 0, 1, "")) as bound:
        port: int = bound.getsockname()[1]
        return port


def _bind(own: Member) -> socket.socket:
    family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
    return socket.create_server((own.host, own.port), family=family)
