"""A web server in a process of its own that serves ranges of files, each answer 50 ms late."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

LATENCY = 0.05  # seconds


class Store:
    """The files of the working directory at `url`."""

    def __enter__(self) -> Store:
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def fetched(self) -> int:
        """Return the bytes that were sent so far."""
        with urlopen(f"{self.url}/?fetched") as answer:
            return int(answer.read())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fetched = 0

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def _answer(self, *, with_content: bool) -> None:
        if self.path == "/?fetched":
            self._send(HTTPStatus.OK, str(_Handler.fetched).encode(), {})
            return
        time.sleep(LATENCY)
        path = Path(self.path.strip("/"))
        if not path.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(asked[1]), min(int(asked[2]) + 1, size)) if asked else (0, size)
        headers = {"Accept-Ranges": "bytes", "ETag": f'"{path.stat().st_mtime_ns}"'}
        if not with_content:
            self._send(HTTPStatus.OK, None, headers | {"Content-Length": str(end - begin)})
            return
        if asked:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read(end - begin)
        _Handler.fetched += len(content)
        self._send(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK, content, headers)

    def _send(self, status: HTTPStatus, content: bytes | None, headers: dict[str, str]) -> None:
        self.send_response(status)
        if content is not None:
            headers = headers | {"Content-Length": str(len(content))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if content is not None:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Tell nobody."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
