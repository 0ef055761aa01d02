"""Prepared folders in a store: the same order, few requests, nothing read twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.ext.tfds.folders import NUMBERED, numbered, write_folder
from tests.read.http_store import CLIENTS, HttpStore, serve_to

import sweephand as sh
from sweephand.corpus import chunks
from sweephand.deserializers.tfrecord_files import PADDING
from sweephand.ext.tfds import ReadConfig
from sweephand.files import remote

fsspec = pytest.importorskip("fsspec")

SHARDS = (50, 7, 0, 33, 64, 21, 48, 5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote.time, "sleep", lambda _: None)
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "demo", {"s": numbered(*SHARDS)}, NUMBERED)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Name and size of all that is fetched from a store in memory."""
    requests: list[tuple[str, int]] = []
    store = fsspec.filesystem("memory")
    cat = type(store).cat_file

    def watched(self: Any, path: str, start: Any = None, end: Any = None, **more: Any) -> bytes:
        content: bytes = cat(self, path, start=start, end=end, **more)
        requests.append((path.rpartition("/")[2], len(content)))
        return content

    monkeypatch.setattr(type(store), "cat_file", watched)
    return requests


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    store = fsspec.filesystem("memory")
    for path in folder.iterdir():
        store.pipe(f"/demo/1.0.0/{path.name}", path.read_bytes())
    yield "memory://demo/1.0.0"
    store.rm("/demo", recursive=True)


def chunks_of(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", num_bytes)


def delivered(corpus: sh.Deserializer, size: int = 9, **options: Any) -> list[tuple[str, int]]:
    with sh.MinibatchSource(corpus, **{"max_sweeps": 2, **options}) as source:
        return [
            one
            for batch in source.minibatches(size)
            for one in zip(batch.ids, batch["x"].values.tolist(), strict=True)
        ]


def payload(requests: Sequence[tuple[str, int]]) -> int:
    return sum(size for name, size in requests if "tfrecord" in name)


@pytest.mark.parametrize("chunk_bytes", [200, 1 << 20])
@pytest.mark.parametrize("seed", [None, 7])
def test_the_order_is_that_of_a_local_folder(
    folder: Path, url: str, seed: int | None, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks_of(monkeypatch, chunk_bytes)
    config = ReadConfig(interleave_cycle_length=3, interleave_block_length=4, shuffle_seed=seed)
    found = {
        place: sh.tfds.load(place, "s[5:180]", seed is not None, config)
        for place in (str(folder), url)
    }
    here, there = found.values()
    assert there.ids(0, 9) == here.ids(0, 9)
    assert delivered(there, randomize=False) == delivered(here, randomize=False)
    window: Any = {"randomization_window_in_chunks": 6, "num_lanes": 3}
    assert delivered(there, **window) == delivered(here, **window)


@pytest.mark.parametrize("seed", [None, 7])
def test_a_pass_in_the_order_of_tfds_fetches_every_byte_once(
    url: str, seed: int | None, fetched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks_of(monkeypatch, 200)
    config = ReadConfig(interleave_cycle_length=3, interleave_block_length=4, shuffle_seed=seed)
    corpus = sh.tfds.load(url, "s", seed is not None, config)
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, num_threads=0)
    fetched.clear()
    held = 0.0
    with source:
        for _ in source.minibatches(9):
            held = max(held, source.stats()["bytes_held"])
        stats = source.stats()
    store = fsspec.filesystem("memory")
    size = sum(store.size(one) for one in store.glob("/demo/1.0.0/*tfrecord*"))
    assert size <= payload(fetched) <= size + PADDING * len(fetched)
    assert stats["chunks_loaded"] == len(source.timeline.corpus.chunk_sequences)
    most = source.timeline.corpus.chunk_sequences.max() * 8
    assert held <= most * (2 * 3 + 2 * math.ceil(9 / 4 + 1))


def test_an_index_reads_the_folder_once_and_a_start_with_it_nothing(
    url: str, fetched: list[Any]
) -> None:
    store = fsspec.filesystem("memory")
    size = sum(store.size(one) for one in store.glob("/demo/1.0.0/*tfrecord*"))
    sh.MinibatchSource(sh.tfds.load(url, "s")).close()
    assert payload(fetched) == size
    fetched.clear()
    source = sh.MinibatchSource(sh.tfds.load(url, "s"), randomize=False, num_threads=0)
    assert sorted(name for name, _ in fetched) == ["dataset_info.json", "features.json"]
    fetched.clear()
    assert source.next_minibatch(3).num_samples == 3
    assert len(fetched) == 7  # the chunk has a part of so many files


def test_what_is_absent_is_told_with_its_url(url: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"memory:.*/none/dataset_info\.json"):
        sh.tfds.load("memory://demo/none", "s")
    fsspec.filesystem("memory").rm("/demo/1.0.0/demo-s.tfrecord-00003-of-00008")
    with pytest.raises(FileNotFoundError, match=r"memory:.*demo-s\.tfrecord-00003-of-00008"):
        sh.MinibatchSource(sh.tfds.load(url, "s"))


def test_a_folder_here_and_one_in_a_store_are_one_data_set(folder: Path, url: str) -> None:
    both = sh.tfds.load([folder, url], "s")
    ids = {one for one, _ in delivered(both, randomize=False, max_sweeps=1)}
    assert len(ids) == 2 * sum(SHARDS)
    assert both.label_names


@pytest.fixture(params=CLIENTS)
def web(request: pytest.FixtureRequest, folder: Path) -> Iterator[HttpStore]:
    with serve_to(request.param, folder) as server:
        yield server


def test_a_web_server_without_listings_is_enough(web: HttpStore, folder: Path) -> None:
    corpus = sh.tfds.load(web.url, "s")
    here = delivered(sh.tfds.load(folder, "s"), randomize=False)
    size = sum(path.stat().st_size for path in folder.glob("demo-s*"))
    assert delivered(corpus, randomize=False, max_sweeps=1) == here[: sum(SHARDS)]
    assert web.bytes_of("tfrecord") == 2 * size  # the index, and a sweep
    web.fetched.clear()
    with sh.MinibatchSource(sh.tfds.load(web.url, "s"), num_threads=0) as source:
        assert {name for name, _, _ in web.fetched} == {"dataset_info.json", "features.json"}
        web.fetched.clear()
        source.next_minibatch(5)
    assert len(web.fetched) == 7
    with pytest.raises(FileNotFoundError, match=f"{web.url}/none/dataset_info.json"):
        sh.tfds.load(f"{web.url}/none", "s")


def test_a_list_of_the_folder_spares_a_question_for_every_shard(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(fsspec.filesystem("memory"))
    list_folder, look_up = kind.ls, kind.info
    asked: list[str] = []

    def ls(self: Any, path: str, **options: Any) -> list[dict[str, Any]]:
        return [{**one, "etag": "a"} for one in list_folder(self, path, **options)]

    def info(self: Any, path: str, **options: Any) -> dict[str, Any]:
        asked.append(path)
        return {**look_up(self, path, **options), "etag": "a"}

    monkeypatch.setattr(kind, "ls", ls)
    monkeypatch.setattr(kind, "info", info)
    sh.MinibatchSource(sh.tfds.load(url, "s")).close()
    asked.clear()
    with sh.MinibatchSource(sh.tfds.load(url, "s"), max_sweeps=1) as source:
        assert not [path for path in asked if "tfrecord" in path]
        assert sum(batch.num_samples for batch in source.minibatches(50)) == sum(SHARDS)
