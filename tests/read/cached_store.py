"""A store of tokens over HTTP that caches of nodes are tried on, and their fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.read.http_store import HttpStore, serve
from tests.read.node_cache import write_tokens

from sweephand.files import node_cache


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has what is shared may be held up by the machine, and is waited for."""
    monkeypatch.setattr(node_cache, "_FETCH_SECONDS", 60.0)
    monkeypatch.setattr(node_cache, "_TURN_SECONDS", 60.0)


@pytest.fixture(name="web")
def tokens(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HttpStore]:
    """A store with tokens of as many chunks as the module says."""
    with serve_tokens(tmp_path, monkeypatch, request.module.NUM_CHUNKS) as found:
        yield found


@contextmanager
def serve_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_chunks: int
) -> Iterator[HttpStore]:
    """Serve tokens of some chunks; their index has a place of its own."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "index"))
    with serve(write_tokens(tmp_path / "data", num_chunks)) as found:
        yield found
