"""CNTK's text in a store: as on a disk, by few requests, with the URL in errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.read.http_store import CLIENTS, HttpStore, serve_to
from tests.read.test_ctf_deserializer import STREAMS, labels, write
from tests.read.test_remote import store

import sweephand as sh

__all__ = ["store"]  # a fixture

DAMAGED = (
    "0 |Q 1:1 |L 0 0\n1 |Q 1:x |L 1 0\n1 |L 1 1 1\n2 |Q 2:1 |L nine 0\n\n3 |Q 1:1\n4 |L 1 2"
)


def in_order(corpus: sh.Deserializer, **options: Any) -> list[Any]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options) as source:
        return labels(source)


def test_damage_is_the_same_with_the_url_as_its_place(store: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.ctf"
    path.write_text(DAMAGED)
    store.pipe("/corpus/bad.ctf", path.read_bytes())
    found = []
    for place in (str(path), "memory:///corpus/bad.ctf"):
        with pytest.raises(sh.DataError, match="line 2") as caught:
            in_order(sh.CTFDeserializer(place, STREAMS))
        assert caught.value.file == place
        corpus = sh.CTFDeserializer(place, STREAMS, chunk_size_in_bytes=20)
        with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=9) as source:
            delivered = labels(source)
            assert {error.file for error in source.errors} == {place}
            found.append((delivered, [(e.reason, *e.args[2:]) for e in source.errors]))
    assert found[0] == found[1]
    assert len(found[0][1]) > 4


@pytest.fixture(params=CLIENTS)
def web(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HttpStore]:
    (tmp_path / "www").mkdir()
    write(tmp_path / "www" / "a.ctf", 300)
    with serve_to(request.param, tmp_path / "www") as server:
        yield server


def test_a_chunk_is_one_request_to_a_web_server(
    web: HttpStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    url = f"{web.url}/a.ctf"
    size = (web.folder / "a.ctf").stat().st_size
    corpus = sh.CTFDeserializer(url, STREAMS, chunk_size_in_bytes=1000)
    sh.MinibatchSource(corpus).close()
    assert web.fetched == [("a.ctf", 0, size)]  # the index
    web.fetched.clear()
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        assert web.fetched == []
        there = labels(source)
        num_chunks = len(source.timeline.corpus.chunk_sequences)
    assert there == in_order(sh.CTFDeserializer(web.folder / "a.ctf", STREAMS))
    assert sorted(web.fetched)[0][1] == 0
    assert web.bytes_of("a.ctf") == size
    assert len(web.fetched) == num_chunks > 10
