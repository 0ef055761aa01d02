"""CNTK's text in a store: as on a disk, by few requests, with the URL in errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.read.http_store import CLIENTS, HttpStore, serve_to
from tests.read.test_ctf_deserializer import STREAMS, labels, write

import sweephand as sh
from sweephand.files import range_reader, remote

fsspec = pytest.importorskip("fsspec")

DAMAGED = (
    "0 |Q 1:1 |L 0 0\n1 |Q 1:x |L 1 0\n1 |L 1 1 1\n2 |Q 2:1 |L nine 0\n\n3 |Q 1:1\n4 |L 1 2"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote.time, "sleep", lambda _: None)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def store() -> Iterator[Any]:
    found = fsspec.filesystem("memory")
    found.mkdir("/ctf")
    yield found
    found.rm("/ctf", recursive=True)


def upload(store: Any, *paths: Path) -> None:
    for path in paths:
        store.pipe(f"/ctf/{path.name}", path.read_bytes())


def in_order(corpus: sh.Deserializer, **options: Any) -> list[Any]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, **options) as source:
        return labels(source)


@pytest.mark.parametrize("buffer", [40, 1000, 8 << 20])
def test_an_object_is_indexed_in_one_pass_whatever_is_fetched_at_a_time(
    store: Any, tmp_path: Path, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "_SCAN_BLOCK", buffer)
    path = write(tmp_path / "a.ctf", 50)
    upload(store, path)
    there = sh.CTFDeserializer("memory://ctf/a.ctf", STREAMS, chunk_size_in_bytes=200)
    assert in_order(there) == in_order(sh.CTFDeserializer(path, STREAMS))


def test_names_are_in_order_and_a_list_keeps_its_own(store: Any, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.ctf", 2) for name in "cab"]
    upload(store, *paths)
    urls = [f"memory://ctf/{path.name}" for path in paths]

    def files(given: str | Sequence[str | Path]) -> list[str]:
        found = in_order(sh.CTFDeserializer(given, STREAMS))
        return [name.partition(".")[0] for name, _ in found[::2]]

    assert files("memory://ctf/*.ctf") == ["a", "b", "c"]
    assert files(urls) == ["c", "a", "b"]
    assert files([urls[2], paths[0]]) == ["b", "c"]  # one of them lies here
    with pytest.raises(FileNotFoundError, match=r"memory:.*none\.ctf"):
        sh.CTFDeserializer("memory://ctf/none.ctf", STREAMS)


def test_damage_is_the_same_with_the_url_as_its_place(store: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.ctf"
    path.write_text(DAMAGED)
    upload(store, path)
    found = []
    for place in (str(path), "memory:///ctf/bad.ctf"):
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


def test_an_object_that_changed_stops_the_run(store: Any, tmp_path: Path) -> None:
    upload(store, write(tmp_path / "a.ctf", 50))
    corpus = sh.CTFDeserializer("memory://ctf/a.ctf", STREAMS, chunk_size_in_bytes=200)
    with sh.MinibatchSource(corpus, num_threads=0) as source:
        source.next_minibatch(1)
        store.pipe("/ctf/a.ctf", store.cat("/ctf/a.ctf"))
        with pytest.raises(sh.StaleError, match=r"memory:.*a\.ctf.*replaced") as caught:
            list(source.minibatches(10))
        assert caught.value.file == "memory:///ctf/a.ctf"


@pytest.fixture(params=CLIENTS)
def web(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HttpStore]:
    (tmp_path / "www").mkdir()
    write(tmp_path / "www" / "a.ctf", 300)
    with serve_to(request.param, tmp_path / "www") as server:
        yield server


def test_a_chunk_is_one_request_to_a_web_server(web: HttpStore) -> None:
    url = f"{web.url}/a.ctf"
    size = (web.folder / "a.ctf").stat().st_size
    corpus = sh.CTFDeserializer(url, STREAMS, chunk_size_in_bytes=1000)
    sh.MinibatchSource(corpus).close()
    assert web.fetched == [("a.ctf", 0, size)]  # the index
    web.fetched.clear()
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        assert web.fetched == []
        there = labels(source)
        num_chunks = len(source.chunk_sequences)
    assert there == in_order(sh.CTFDeserializer(web.folder / "a.ctf", STREAMS))
    assert sorted(web.fetched)[0][1] == 0
    assert web.bytes_of("a.ctf") == size
    assert len(web.fetched) == num_chunks > 10


def test_what_is_absent_or_denied_is_told_at_once(
    web: HttpStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote.time, "sleep", lambda _: pytest.fail("tried again"))
    with pytest.raises(FileNotFoundError, match=f"{web.url}/b.ctf"):
        sh.CTFDeserializer(f"{web.url}/b.ctf", STREAMS)
    web.is_closed = True
    with pytest.raises(PermissionError, match=f"{web.url}/a.ctf"):
        sh.CTFDeserializer(f"{web.url}/a.ctf", STREAMS)
