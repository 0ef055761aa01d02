"""A local page: served to this machine alone, to who knows its address, and read-only."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import urlsplit

from sweephand.ext.view.page import policy
from sweephand.ext.view.viewer import Viewer

_HOST = "127.0.0.1"
_SECONDS = 30  # that a client may take to send a line
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ViewServer(ThreadingHTTPServer):
    """Serves the pages of a viewer on this machine; port 0 takes a free one.

    Its address has a secret token.
    """

    daemon_threads = True

    def __init__(self, viewer: Viewer, port: int = 0) -> None:
        super().__init__((_HOST, port), _Handler)
        self.viewer = viewer
        self.lock = Lock()
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{_HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    server_version = "sweephand"
    sys_version = ""
    timeout = _SECONDS

    def _refuse_method(self) -> None:
        """Refuse: nothing can be changed here."""
        if self._is_allowed():
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"read-only\n", allow="GET, HEAD")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = (
        _refuse_method
    )

    def _answer(self) -> None:
        """Answer with a page, of which HEAD gets the headers."""
        if not self._is_allowed():
            return
        viewer = self.server.viewer
        try:
            question = viewer.first.asked(urlsplit(self.path).query)
        except ValueError as error:
            status, page = HTTPStatus.BAD_REQUEST, viewer.page_of_error(error)
        else:
            with self.server.lock:
                status, page = HTTPStatus.OK, viewer.page(question)
        self._send(status, page.html.encode("utf-8", "replace"))

    do_GET = do_HEAD = _answer

    def _is_allowed(self) -> bool:
        """Refuse a request by another name of this machine, or without the token."""
        port = self.server.server_port
        # Another name that leads here is how a foreign page would get at it.
        if self.headers.get("Host") not in (f"{_HOST}:{port}", f"localhost:{port}"):
            self._send(HTTPStatus.FORBIDDEN, b"forbidden\n")
            return False
        path = urlsplit(self.path).path.encode("utf-8", "surrogateescape")
        if not secrets.compare_digest(path, f"/{self.server.token}/".encode()):
            self._send(HTTPStatus.NOT_FOUND, b"not found\n")
            return False
        return True

    def _send(self, status: HTTPStatus, body: bytes, *, allow: str = "") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            is_text = name == "Content-Type" and not body.startswith(b"<")
            self.send_header(name, "text/plain; charset=utf-8" if is_text else value)
        self.send_header("Content-Security-Policy", f"{policy()}; frame-ancestors 'none'")
        self.send_header("Content-Length", str(len(body)))
        if allow:
            self.send_header("Allow", allow)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""
