"""What a store sent is kept on a node's disk: as much as fits, and of that what is needed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import extent
from tests.read import format_corpora
from tests.read.cached_store import patient, tokens
from tests.read.http_store import HttpStore
from tests.read.node_cache import CHUNK_BYTES, make_source, read_all, run, write_tokens
from tests.read.test_remote import OPEN, store, upload

import sweephand as sh
from sweephand.files.node_cache import HEAD_BYTES, CacheFolder, key_of

__all__ = ["patient", "store", "tokens"]  # fixtures

NUM_CHUNKS = 60  # lanes begin with chunks, so that nothing is read twice
ENTRY_BYTES = CHUNK_BYTES + HEAD_BYTES


class Needs:
    """The future of one reader, who needs a chunk at each time."""

    timeline = 2

    def __init__(self, needs: list[int]) -> None:
        self.needs = needs

    def next(self, chunks: Any, time: int, readers: Any, *, skips_one: bool) -> Any:
        begin = time + skips_one
        found = [[*self.needs[begin:], chunk].index(chunk) + begin for chunk in chunks]
        return np.array(found, np.uint64)


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=60),
    st.integers(1, 6),
)
def test_what_is_kept_is_what_a_search_through_the_future_would_keep(
    needs: list[int], room: int
) -> None:
    def next_need(item: int, after: int) -> int:
        return [*needs[after + 1 :], item].index(item) + after + 1

    content = np.arange(9, dtype=np.uint8)
    model = set[int]()
    with tempfile.TemporaryDirectory() as base:
        folder = CacheFolder(Path(base) / "node", room * (9 + HEAD_BYTES), Needs(needs))
        for j, item in enumerate(needs):
            folder.publish(j, 1, 0)
            found = folder.read(key_of(item), 9, 0)
            assert (found is not None) == (item in model)
            if found is not None:
                folder.note_use(key_of(item), 9, item)
            else:
                folder.store(key_of(item), content, item)
            kept = {one for one in range(8) if folder.read(key_of(one), 9, 0) is not None}
            left = (model | {item}) - kept
            assert len(left) == max(0, len(model | {item}) - room)
            farthest = max(next_need(one, j) for one in model | {item})
            assert all(next_need(one, j) == farthest for one in left)
            model = kept
        folder.close()


@pytest.mark.parametrize("num_threads", [0, 1])
@pytest.mark.parametrize("part", [0.25, 0.5, 1.0] if extent.exhaustive else [0.5])
def test_of_every_later_sweep_as_much_comes_from_the_disk_as_fits(
    part: float, num_threads: int, web: HttpStore, tmp_path: Path
) -> None:
    num_kept = int(part * NUM_CHUNKS)
    cache = sh.NodeCache(tmp_path / "node", num_kept * ENTRY_BYTES)
    with make_source(web.url, cache, max_sweeps=5, num_threads=num_threads) as source:
        ends = []
        for minibatch in source.minibatches(256):
            if minibatch.end_of_sweep:
                ends.append(source.stats())
            assert bytes_kept(tmp_path) <= cache.max_bytes
        stats = source.stats()
    misses = [int(one["cache_misses"]) for one in ends]
    assert misses[0] == NUM_CHUNKS
    assert np.diff(misses).tolist() == [NUM_CHUNKS - num_kept] * 4
    if num_threads == 0:  # else what is loaded ahead counts to the sweep before
        assert np.diff([one["cache_hits"] for one in ends]).tolist() == [num_kept] * 4
    assert len(web.fetched) == stats["cache_misses"]  # no other requests
    assert web.bytes_of("tokens") == stats["cache_bytes_fetched"]


# Labels of an MLF lie in the index, and zarr asks stores by itself.
READ_BY_US = [make for make in OPEN if make not in (format_corpora.mlf, format_corpora.zarr)]


@pytest.mark.parametrize("make", READ_BY_US, ids=lambda make: make.__name__)
def test_every_format_is_read_through_it(make: Any, store: Any, tmp_path: Path) -> None:
    corpus = OPEN[make](upload(store, make, tmp_path / "data"))
    cache = sh.NodeCache(tmp_path / "node", 1 << 24)
    found = []
    for chosen in (None, cache, cache):
        with sh.MinibatchSource(corpus, max_sweeps=2, node_cache=chosen) as source:
            found.append([one for m in source.minibatches(20) for one in told(m)])
            stats = source.stats()
    assert found[0] == found[1] == found[2]
    assert stats["cache_bytes_fetched"] == 0 < stats["cache_bytes_read"]


def told(minibatch: sh.Minibatch) -> list[Any]:
    """Return ids and all values of a minibatch."""
    arrays = [one.reshape(-1).tolist() for one in minibatch["tokens"].as_sequences()]
    return [minibatch.ids, arrays]


def entries(tmp_path: Path) -> list[Path]:
    """Return the files of what is kept, without those that are being written."""
    return list((tmp_path / "node" / "entries").glob("[0-9a-f]" * 32))


def bytes_kept(tmp_path: Path) -> int:
    """Return how large they are, though some may go away meanwhile."""
    found = 0
    for path in entries(tmp_path):
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


@pytest.mark.parametrize("mixed", [False, True])
def test_what_maps_are_made_of_is_read_through_it(
    mixed: bool, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.pipe("/corpus/a.bin", np.arange(400, dtype=np.uint16).tobytes())
    monkeypatch.setattr("sweephand.corpus.chunks.CHUNK_BYTES", 80)
    stored = sh.RawTokensDeserializer("memory://corpus/a.bin", "uint16", 4)
    corpus = stored.map(lambda one: {"tokens": one["tokens"] + 1}, name="more")
    if mixed:
        corpus = sh.Mixture({"all": corpus}, {"all": 1}, at_end="stop")
    cache = sh.NodeCache(tmp_path / "node", 1 << 20)
    options: dict[str, Any] = {"num_lanes": 2, "randomization_window_in_chunks": 4}
    with sh.MinibatchSource(corpus, max_sweeps=3, node_cache=cache, **options) as source:
        found = [one for m in source.minibatches(16) for one in m["tokens"].values.tolist()]
        assert source.stats()["cache_bytes_fetched"] == 800
        assert source.stats()["cache_hits"] >= 20
    assert sorted(found) == sorted(3 * list(range(1, 401)))


def test_another_corpus_is_not_taken_for_this_one(store: Any, tmp_path: Path) -> None:
    cache = sh.NodeCache(tmp_path / "node", 1 << 20)
    for value in (1, 2):  # another object of the same name and size
        store.pipe("/corpus/a.bin", np.full(400, value, np.uint16).tobytes())
        corpus = sh.RawTokensDeserializer("memory://corpus/a.bin", "uint16", 4)
        with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache) as source:
            assert all((m["tokens"].values == value).all() for m in source.minibatches(40))


def test_an_object_that_is_replaced_while_it_is_read_is_not_kept(
    store: Any, tmp_path: Path
) -> None:
    store.pipe("/corpus/a.bin", np.ones(400, np.uint16).tobytes())
    corpus = sh.RawTokensDeserializer("memory://corpus/a.bin", "uint16", 4)
    cache = sh.NodeCache(tmp_path / "node", 1 << 20)
    with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache, num_threads=0) as source:
        store.pipe("/corpus/a.bin", np.zeros(400, np.uint16).tobytes())
        with pytest.raises(sh.StaleError, match="replaced"):
            source.next_minibatch(8)
    assert entries(tmp_path) == []


def test_local_files_are_read_where_they_are(tmp_path: Path) -> None:
    write_tokens(tmp_path / "data", 4)
    corpus = sh.RawTokensDeserializer(tmp_path / "data" / "tokens.bin", "uint16", 32)
    cache = sh.NodeCache(tmp_path / "node", 1 << 20)
    with sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache) as source:
        read_all(source)
        assert "cache_hits" not in source.stats()
    assert not (tmp_path / "node").exists()


# -- several processes --


@pytest.mark.parametrize(
    ("mixed", "ranks"),
    [
        (False, [(3, 0), (3, 1), (3, 2)]),
        (True, [(2, 0), (2, 1), (2, 0), (2, 1)]),
        pytest.param(False, [(1, 0)] * 3, marks=pytest.mark.exhaustive),
        pytest.param(True, [(3, 0), (3, 1), (3, 2)], marks=pytest.mark.exhaustive),
    ],
)
def test_ranks_of_a_node_fetch_every_byte_once(
    mixed: bool, ranks: list[tuple[int, int]], web: HttpStore, tmp_path: Path
) -> None:
    num_chunks = {"tokens": NUM_CHUNKS} | ({"more": NUM_CHUNKS // 3} if mixed else {})
    job = {
        "url": web.url,
        "folder": str(tmp_path / "node"),
        "max_bytes": sum(num_chunks.values()) * ENTRY_BYTES,
        "sweeps": 2,
        "ranks": ranks,
        "mixed": mixed,
    }
    found = run(job)
    assert [one["code"] for one in found] == [0] * len(ranks)
    assert sorted((name, begin) for name, begin, _ in web.fetched) == sorted(
        (f"{name}.bin", begin)
        for name, count in num_chunks.items()
        for begin in range(0, count * CHUNK_BYTES, CHUNK_BYTES)
    )
    for one, rank in zip(found, ranks, strict=True):
        with make_source(web.url, None, max_sweeps=2, mixed=mixed) as plain:
            assert one["content"] == read_all(plain, *rank)


def test_a_forked_child_has_a_place_of_its_own(store: Any, tmp_path: Path) -> None:
    store.pipe("/corpus/tokens.bin", np.arange(4096, dtype=np.uint16).tobytes())
    cache = sh.NodeCache(tmp_path / "node", NUM_CHUNKS * ENTRY_BYTES)
    with make_source("memory://corpus", cache, max_sweeps=1, num_threads=0) as source:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                source.next_minibatch(512)
                code = 0 if source.stats()["cache_misses"] else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        source.next_minibatch(512)
        assert source.stats()["cache_hits"] > 0
