"""Show minibatches as a model sees them, on a page with their timeline.

A local page goes forward and back, to a nominal time or an id, and shows each worker's share in
any layout. It is served to this machine alone, reads only, and ends with Ctrl-C. --html writes
the page of one minibatch to a file instead. SCRIPT.py:NAME may be a source, too.

for example:
  sweephand view tokens.npz --size 16384
  sweephand view tokens.npz --size 16384 --step 12 --decode train.py:tokenizer --html step.html
  sweephand view train.py:source --size 16384 --workers 8
"""

from __future__ import annotations

import argparse
import secrets
import webbrowser
from collections.abc import Callable
from contextlib import closing
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from urllib.parse import urlsplit

from sweephand import INFINITELY_REPEAT, Layout, MinibatchSource
from sweephand.ext.view.page import policy
from sweephand.ext.view.viewer import Question, Viewer
from sweephand.extend import (
    Answer,
    Cursor,
    Screen,
    WrongUsage,
    add_corpus,
    add_layout,
    add_order,
    add_size,
    count,
    flag,
    make_source,
    minibatch_size,
    object_of_script,
    open_either,
    option,
    twin_of,
    whole,
)

_ORDER = ("seed", "no_shuffle", "window_chunks", "window_samples", "lanes", "events")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    add_size(parser)
    place = parser.add_mutually_exclusive_group()
    option(place, "--step N", whole, "0 by default", 0)
    option(place, "--time T", whole, "the nominal time, in samples")
    option(place, "--id ID", str, "the step in which the sequence comes", "")
    add_order(parser)
    option(parser, "--workers K", count, default=1)
    option(parser, "--rank R", whole, "whose share", 0)
    add_layout(parser, "", "by default ragged, or the source's own")
    option(
        parser,
        "--length L",
        count,
        "of the layout: cells of a row (packed, truncatedbptt), the multiple of widths "
        "(padded), or the number of buckets",
    )
    option(
        parser,
        "--decode SCRIPT.py:NAME",
        str,
        "text of tokens: a function of a list of ids or of one, a tokenizer, texts by id, or a "
        "dict of such by stream",
    )
    option(parser, "--html FILE", Path, "write the page of one minibatch, and serve none")
    option(parser, "--port P", whole, "a free one by default", 0)
    flag(parser, "--no-browser", "only print the address of the page")


def run(arguments: argparse.Namespace, screen: Screen) -> Answer:
    """Run the command and return its facts."""
    if arguments.json and arguments.html is None:
        raise WrongUsage(
            "--json goes with --html: a page that is served has no answer", "sweephand view", ""
        )
    if arguments.rank >= arguments.workers:
        raise ValueError(f"--rank must be below --workers, got {arguments.rank}")
    decode = None if arguments.decode is None else object_of_script(arguments.decode)
    open_cursor = _opening(arguments)
    with closing(open_cursor(None)) as cursor:
        size = minibatch_size(arguments, cursor.plan)
    first = Question(
        size=size,
        step=arguments.step,
        time=arguments.time,
        search=arguments.id,
        workers=arguments.workers,
        rank=arguments.rank,
        layout=arguments.layout,
        length=arguments.length,
    )
    name = ", ".join(Path(path).name or path for path in arguments.paths)
    with closing(Viewer(open_cursor, name, first, decode)) as viewer:
        if arguments.html is not None:
            return _write(viewer, arguments.html, screen)
        return _serve(viewer, arguments, screen)


def _opening(arguments: argparse.Namespace) -> Callable[[Layout | None], Cursor]:
    """Return the function that opens the corpus, or the source, in a layout."""
    corpus = open_either(arguments)
    if isinstance(corpus, MinibatchSource):
        if given := [name for name in _ORDER if getattr(arguments, name)]:
            raise WrongUsage(
                f"--{given[0].replace('_', '-')} is for a corpus: {arguments.paths[0]} is a "
                "source, which has an order of its own",
                "sweephand view",
                "",
            )
        return partial(twin_of, corpus.timeline)

    def make(layout: Layout | None) -> Cursor:
        source = make_source(
            corpus,
            arguments,
            max_sweeps=INFINITELY_REPEAT,
            layout=layout,
            num_threads=0,
            num_map_workers=0,
        )
        return source.cursor

    return make


def _write(viewer: Viewer, path: Path, screen: Screen) -> Answer:
    page = viewer.page_alone(viewer.first)
    page.write(path)
    screen.lines([f"page: {path}"])
    return {"html": str(path), "title": page.title}


def _serve(viewer: Viewer, arguments: argparse.Namespace, screen: Screen) -> Answer:
    with ViewServer(viewer, arguments.port) as server, TemporaryDirectory() as folder:
        screen.lines([server.url, "Ctrl-C ends it."])
        if not arguments.no_browser:
            # Other users can see the arguments of a browser, but not the content of the folder.
            door = Path(folder) / "view.html"
            door.write_text(f'<meta http-equiv="refresh" content="0; url={server.url}">')
            # A browser in this terminal is waited for.
            Thread(target=webbrowser.open, args=(door.as_uri(),), daemon=True).start()
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            screen.text()
    return {}


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

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            is_text = name == "Content-Type" and not body.startswith(b"<")
            self.send_header(name, "text/plain; charset=utf-8" if is_text else value)
        self.send_header("Content-Security-Policy", f"{policy()}; frame-ancestors 'none'")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""
