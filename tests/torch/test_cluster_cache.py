"""The nodes of a job find each other's caches in the store of its process group."""

from pathlib import Path

import pytest
import torch.distributed as dist
from tests.read.cluster_nodes import ENTRY_BYTES, NUM_CHUNKS, free_ports, make_job, run, wanted
from tests.read.http_store import serve
from tests.read.node_cache import CHUNK_BYTES, make_source, write_tokens

import sweephand as sh
import sweephand.torch
from sweephand.torch.meeting import meet


@pytest.mark.exhaustive  # processes import torch
def test_ranks_of_two_nodes_read_each_byte_from_the_store_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "index"))
    with serve(write_tokens(tmp_path / "data", NUM_CHUNKS)) as web:
        make_source(web.url, None).close()
        web.fetched.clear()
        ranks = [(0, 3, 0), (1, 3, 1), (0, 3, 2)]
        job = make_job(web.url, tmp_path, 2, NUM_CHUNKS // 2 * ENTRY_BYTES, ranks=ranks)
        found = run(job | {"torch": free_ports(1)[0]})
        assert [one["code"] for one in found] == [0, 0, 0]
        assert [one["content"] for one in found] == wanted(web, 3)
        assert not any(one["warnings"] for one in found)
        assert web.bytes_of("tokens") <= 1.05 * NUM_CHUNKS * CHUNK_BYTES
        assert sum(one["cache_peer_hits"] for one in found) > NUM_CHUNKS // 2


def test_a_rank_alone_is_a_node_at_the_address_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"MASTER_ADDR, which is not set; give address="):
            meet(tmp_path / "node", 100, None, None)
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        members, own, token = meet(tmp_path / "node", 100, None, None)
        assert members == [own]
        assert (own.host, own.max_bytes) == ("127.0.0.1", 100)
        assert len(token) == 64
        assert meet(tmp_path / "node", 100, None, None) == (members, own, token)
        other, _, _ = meet(tmp_path / "more", 7, ("127.0.0.1", 7070), "shared")
        assert (other[0].port, other[0].max_bytes) == (7070, 7)
    finally:
        dist.destroy_process_group()


def test_without_a_process_group_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "index"))
    with serve(write_tokens(tmp_path / "data", 4)) as web:
        cache = sh.NodeCache(tmp_path / "node", 1 << 20, peers="torch")
        with pytest.raises(RuntimeError, match="peers='torch' needs the process group"):
            make_source(web.url, cache)
