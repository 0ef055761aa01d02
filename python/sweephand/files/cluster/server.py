"""The server of a node's entries, for the other nodes of its cluster."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np

from sweephand.files.cluster.flow import Flow, TooBusy
from sweephand.files.cluster.message import (
    PROTOCOL,
    VERSION_HEADER,
    WANTED_HEADER,
    EntryRequest,
    FoundEntry,
    PeerLimits,
)
from sweephand.files.cluster.shelf import Shelf
from sweephand.files.node_cache.entries import HEAD_BYTES, head_of

if TYPE_CHECKING:
    from aiohttp import web

    _Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FIRST_DELAY, _LAST_DELAY = 0.002, 0.05
_SLACK = 0.01


class EntryServer:
    """Server of a shelf, in the event loop of a thread.

    Parameters
    ----------
    token : str
        Requests without it are denied.
    threads : Executor
        Where files are read and written.
    count : callable
        Is given the bytes that were served.
    """

    def __init__(
        self,
        shelf: Shelf,
        token: str,
        limits: PeerLimits,
        threads: Executor,
        count: Callable[[int], None],
    ) -> None:
        self._shelf, self._limits, self._threads, self._count = shelf, limits, threads, count
        self._authorization = f"Bearer {token}".encode()
        self._flow = Flow(limits.max_bytes, limits.seconds / 2)
        self._runner: web.AppRunner | None = None

    async def start(self, bound: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve on a socket."""
        from aiohttp import web  # only here: few use it

        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app = web.Application(client_max_size=0, middlewares=[guard])
        app.router.add_get("/entries/{key}", self._get)
        app.router.add_put("/entries/{key}", self._put)
        app.router.add_get("/chunks/{corpus}", self._chunks)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=self._limits.seconds,
        )
        await self._runner.setup()
        await web.SockSite(self._runner, bound, ssl_context=tls).start()

    async def stop(self) -> None:
        """Stop, after answers that are under way."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._shelf.close()

    async def _guarded(self, request: web.Request, handle: _Handler) -> web.StreamResponse:
        """Deny requests without the token; end those that take too long."""
        from aiohttp import web

        given = request.headers.get("Authorization", "").encode(errors="replace")
        if not hmac.compare_digest(given, self._authorization):
            return _status(401)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await handle(request)
        except TooBusy:
            return _status(503)
        except TimeoutError:
            if request.transport is not None:  # a part may have been sent
                request.transport.abort()
            return _status(503)
        except ValueError:
            return _status(400)
        except web.HTTPException as answer:
            return _status(answer.status)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        asked = EntryRequest.of(request.match_info["key"], request.query)
        async with self._flow.reserved(asked.size):
            found = await self._find(asked)
            if found.content is None:
                return _status(404, {WANTED_HEADER: "1"} if found.is_wanted else {})
            answer = web.StreamResponse(headers={VERSION_HEADER: PROTOCOL})
            answer.content_length = HEAD_BYTES + asked.size
            await answer.prepare(request)
            await answer.write(head_of(asked.key, found.content))
            await answer.write(found.content.data)
            await answer.write_eof()
            self._count(asked.size)
            return answer

    async def _find(self, asked: EntryRequest) -> FoundEntry:
        """Find an entry, and wait for it while it is being fetched."""
        loop, delay = asyncio.get_running_loop(), _FIRST_DELAY
        end = loop.time() + min(asked.wait, self._limits.seconds)
        while True:
            found = await loop.run_in_executor(self._threads, self._shelf.find, asked)
            if found.is_wanted:
                loop.call_later(self._shelf.claim_seconds + _SLACK, self._shelf.release_old)
            if not found.is_coming or loop.time() > end:
                return found
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LAST_DELAY)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        given = EntryRequest.of(request.match_info["key"], request.query)
        if request.content_length != HEAD_BYTES + given.size:
            return _status(400)
        async with self._flow.reserved(given.size):
            body = await request.content.readexactly(HEAD_BYTES + given.size)
            content = np.frombuffer(body, np.uint8)[HEAD_BYTES:]
            is_whole = await asyncio.get_running_loop().run_in_executor(
                self._threads, self._shelf.put, given, body[:HEAD_BYTES], content
            )
            return _status(204 if is_whole else 400)

    async def _chunks(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        corpus = int(request.match_info["corpus"])
        loop = asyncio.get_running_loop()
        bits = await loop.run_in_executor(self._threads, self._shelf.chunks, corpus)
        return web.Response(body=bits, headers={VERSION_HEADER: PROTOCOL})


def _status(status: int, headers: dict[str, str] | None = None) -> web.StreamResponse:
    from aiohttp import web

    return web.Response(status=status, headers={VERSION_HEADER: PROTOCOL} | (headers or {}))
