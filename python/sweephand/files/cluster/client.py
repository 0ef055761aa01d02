"""Requests of a node to the other nodes of its cluster."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.files.cluster.flow import Flow, TooBusy
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import (
    PROTOCOL,
    VERSION_HEADER,
    WANTED_HEADER,
    EntryRequest,
    FoundEntry,
    PeerLimits,
)
from sweephand.files.node_cache.entries import HEAD_BYTES, head_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_RETRY_DELAY = 0.05  # of a member that may not have begun
_MOST_CONNECTIONS = 16  # to each

T = TypeVar("T")


class PeerError(Exception):
    """A member of the cluster did not answer as it should.

    Attributes
    ----------
    is_gone : bool
        Nothing answers there; it may have ended, or begin again.
    """

    def __init__(self, reason: str, *, is_gone: bool = False) -> None:
        super().__init__(reason)
        self.is_gone = is_gone


def checked(asked: EntryRequest, content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the content of an answer, with the zeros after it.

    Raises
    ------
    PeerError
        If it is damaged, or another.
    """
    head, body = content[:HEAD_BYTES], content[HEAD_BYTES:]
    if head.tobytes() != head_of(asked.key, body[: asked.size]):
        raise PeerError("it sent bytes with a wrong checksum")
    return body


class PeerClient:
    """Requests to members, in the event loop of a thread.

    Parameters
    ----------
    tls : SSLContext, optional
        Where members have certificates.
    """

    def __init__(self, token: str, tls: ssl.SSLContext | None, limits: PeerLimits) -> None:
        self._headers = {"Authorization": f"Bearer {token}"}
        self._tls, self._limits = tls, limits
        self._flow = Flow(limits.max_bytes, limits.seconds)
        self._session: ClientSession | None = None
        self._met: set[str] = set()  # members that have answered, or were waited for

    async def get(self, member: Member, asked: EntryRequest, padding: int) -> FoundEntry:
        """Ask a member for an entry: head and content, not checked, and zeros after it.

        Raises
        ------
        PeerError
            If it does not answer in time, or not as it should.
        """

        async def read(response: ClientResponse) -> FoundEntry:
            if response.status == 404:
                return FoundEntry(is_wanted=WANTED_HEADER in response.headers)
            size = HEAD_BYTES + asked.size
            if response.content_length != size:
                raise PeerError(f"it sent {response.content_length} bytes in place of {size}")
            content = _core.read.empty_bytes(size + padding)
            content[size:] = 0
            at = 0
            async for part in response.content.iter_any():
                content[at : at + len(part)] = np.frombuffer(part, np.uint8)
                at += len(part)
            return FoundEntry(content)

        try:
            async with self._flow.reserved(asked.size):
                return await self._ask(member, asked.path, read) or FoundEntry()
        except TooBusy:
            return FoundEntry()

    async def put(self, member: Member, given: EntryRequest, content: bytes) -> bool:
        """Give an entry to a member; return False where too much else is under way.

        Raises
        ------
        PeerError
        """

        async def read(_: ClientResponse) -> bool:
            return True

        try:
            async with self._flow.reserved(given.size):
                return bool(await self._ask(member, given.path, read, content))
        except TooBusy:
            return False

    async def chunks(self, member: Member, corpus: int, count: int) -> bytes:
        """Return a bit for each of `count` chunks: that a member holds something of it.

        Raises
        ------
        PeerError
        """

        async def read(response: ClientResponse) -> bytes:
            size = -(-count // 8)
            if response.content_length != size:
                raise PeerError(f"it sent {response.content_length} bytes in place of {size}")
            return await response.content.readexactly(size)

        return await self._ask(member, f"/chunks/{corpus}", read) or b""

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(
        self,
        member: Member,
        path: str,
        read: Callable[[ClientResponse], Awaitable[T]],
        given: bytes | None = None,
    ) -> T | None:
        """Return the content of an answer; None if the member has too much to do."""
        from aiohttp import ClientConnectionError, ClientError  # only here: few use it

        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._ask_until_met(member, path, read, given)
        except TimeoutError:
            reason = f"it did not answer within {self._limits.seconds:g} seconds"
            is_gone = member.name not in self._met
            self._met.add(member.name)
            raise PeerError(reason, is_gone=is_gone) from None
        except ssl.SSLError as error:
            raise PeerError(f"{type(error).__name__}: {error}") from None
        except ClientConnectionError as error:
            raise PeerError(f"{type(error).__name__}: {error}", is_gone=True) from None
        except (ClientError, EOFError, OSError, ValueError) as error:
            raise PeerError(f"{type(error).__name__}: {error}") from None

    async def _ask_until_met(
        self,
        member: Member,
        path: str,
        read: Callable[[ClientResponse], Awaitable[T]],
        given: bytes | None,
    ) -> T | None:
        """Send a request; a member that has never answered may not have started yet."""
        from aiohttp import ClientConnectorError, ClientSSLError

        url = f"http{'s' if self._tls else ''}://{_in_url(member.host)}:{member.port}{path}"
        method, tls = ("GET" if given is None else "PUT"), self._tls or True
        session = self._opened()
        while True:
            try:
                async with session.request(
                    method, url, data=given, ssl=tls, allow_redirects=False
                ) as response:
                    _check(response)
                    self._met.add(member.name)
                    return None if response.status == 503 else await read(response)
            except ClientConnectorError as error:
                if isinstance(error, ClientSSLError) or member.name in self._met:
                    raise
            await asyncio.sleep(_RETRY_DELAY)

    def _opened(self) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=0, limit_per_host=_MOST_CONNECTIONS),
                headers=self._headers,
                timeout=ClientTimeout(total=None),  # there is a limit around each request
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


def _check(response: ClientResponse) -> None:
    """Raise PeerError if it is no answer of a member with our token and version."""
    version = response.headers.get(VERSION_HEADER)
    if version != PROTOCOL:
        other = f"version {version}" if version else "another program"
        raise PeerError(f"{other} answers, and this is version {PROTOCOL}")
    if response.status == 401:
        raise PeerError("it has another token")
    if response.status not in (200, 204, 404, 503):
        raise PeerError(f"it answers {response.status}")


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
