"""The local page: for this machine, for who has its address, and for reading alone."""

from __future__ import annotations

import html
import http.client
import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ext.view.pages import Read

import sweephand as sh
from sweephand.ext.view.command import ViewServer
from sweephand.ext.view.page import policy, prose, tag, text
from sweephand.ext.view.viewer import Question, Viewer
from sweephand.source.answers import twin_of


@pytest.fixture
def server() -> Iterator[ViewServer]:
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(50)}))
    viewer = Viewer(partial(twin_of, source.timeline), "x", Question(size=8))
    with ViewServer(viewer) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()
    viewer.close()


def ask(
    server: ViewServer, path: str | None = None, method: str = "GET", host: str | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    headers = {} if host is None else {"Host": host}
    connection.request(method, f"/{server.token}/" if path is None else path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def test_the_page_is_served_and_forbids_all_that_it_does_not_need(server: ViewServer) -> None:
    answer, body = ask(server)
    assert answer.status == 200
    assert body.startswith(b"<!doctype html>")
    assert answer.headers["Content-Security-Policy"] == f"{policy()}; frame-ancestors 'none'"
    assert "default-src 'none'" in policy()
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in answer.headers["Server"]
    assert int(answer.headers["Content-Length"]) == len(body)


def test_it_listens_on_loopback_alone(server: ViewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url.startswith("http://127.0.0.1:")
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    "path", ["/", "/x/", "//", "/../", "/%00/", "/TOKEN", "/TOKEN/x", "/TOKENx/"]
)
def test_without_the_token_there_is_nothing(server: ViewServer, path: str) -> None:
    for method in ("GET", "HEAD"):
        answer, body = ask(server, path.replace("TOKEN", server.token), method)
        assert answer.status == 404
        assert server.token.encode() not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", ""]
)
def test_another_name_that_leads_here_is_refused(server: ViewServer, host: str) -> None:
    answer, body = ask(server, host=host.replace("PORT", str(server.server_port)))
    assert answer.status == 403
    assert body == b"forbidden\n"
    assert ask(server, host=f"localhost:{server.server_port}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(server: ViewServer, method: str) -> None:
    answer, body = ask(server, method=method)
    assert answer.status == 501
    assert server.token.encode() not in body


# -- hTML of parts, in which all text is escaped --


ANY_TEXT = st.text(st.characters(codec=None, categories=None))


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_becomes_markup_and_all_can_be_encoded(child: str, value: str) -> None:
    found = tag("p", child, prose(child), title=value)
    found.encode()
    parsed = Read(found)
    assert [name for name, _ in parsed.elements] == ["p"]
    assert html.unescape(str(text(child))) in parsed.text


def test_line_ends_stay_in_prose_alone() -> None:
    assert prose("a\n\x1b<") == "a\n\\x1b&lt;"
    assert text("a\nb") == "a\\nb"
