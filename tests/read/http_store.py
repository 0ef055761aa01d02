"""A web server in this process that serves a folder by ranges, and says what it was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweephand.files import remote


@dataclass
class HttpStore:
    """What is served, where, and what was fetched so far.

    Attributes
    ----------
    fetched : list of (name, begin, end)
        The ranges of all answers with content.
    asked : list of (method, path)
        All requests.
    is_closed, is_broken : bool
        Everything is denied, or fails.
    needs : str
        The query or authorization without which everything is denied.
    has_ranges : bool
        If not, every answer is the whole file.
    """

    folder: Path
    url: str
    fetched: list[tuple[str, int, int]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    is_closed: bool = False
    is_broken: bool = False
    needs: str = ""
    has_ranges: bool = True

    def bytes_of(self, suffix: str) -> int:
        """Return how many bytes were fetched of files whose names contain something."""
        return sum(end - begin for name, begin, end in self.fetched if suffix in name)


CLIENTS = ("obstore", "aiohttp")
"""The packages that can read from a web server."""


@contextmanager
def serve_to(client: str, folder: Path) -> Iterator[HttpStore]:
    """Serve a folder to one of these packages; without it the test is skipped."""
    pytest.importorskip(client)
    with pytest.MonkeyPatch.context() as patch, serve(folder) as store:
        if client == "aiohttp":
            patch.setattr(remote, "_OBSTORE", set())
        yield store


@contextmanager
def serve(folder: Path, host: str = "127.0.0.1") -> Iterator[HttpStore]:
    """Serve a folder on a free port of this machine; there are no listings."""
    store = HttpStore(folder, "")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an answer in two parts waits for nothing

        def do_HEAD(self) -> None:
            self._answer(with_content=False)

        def do_GET(self) -> None:
            self._answer(with_content=True)

        def do_PROPFIND(self) -> None:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

        def _answer(self, with_content: bool) -> None:
            store.asked.append((self.command, self.path))
            name, _, query = self.path.partition("?")
            path = folder / re.sub(";[^/]*", "", name).strip("/")
            if store.is_broken:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
                return
            if store.is_closed or store.needs not in (
                "",
                query,
                self.headers.get("Authorization"),
            ):
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            if not path.is_file():
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            content = path.read_bytes()
            wanted = self.headers.get("Range", "") if store.has_ranges else ""
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
            begin, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, len(content))
            part = content[begin:end]
            self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
            if asked:
                last = begin + len(part) - 1
                self.send_header("Content-Range", f"bytes {begin}-{last}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            self.send_header("Last-Modified", "Fri, 20 Nov 2026 16:00:00 GMT")
            self.end_headers()
            if with_content:
                store.fetched.append((path.name, begin, begin + len(part)))
                self.wfile.write(part)

        def log_message(self, *_: Any) -> None:
            """Tell nobody."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        store.url = f"http://{host}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
