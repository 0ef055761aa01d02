"""Nodes that lie, are slow, end or come: never a wrong byte, and no wait beyond the limit."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read import bad_peer
from tests.read.cached_store import indexed_tokens, patient
from tests.read.cluster_nodes import (
    ENTRY_BYTES,
    HOST,
    NUM_CHUNKS,
    Nodes,
    free_ports,
    make_job,
    run,
    wanted,
)
from tests.read.http_store import HttpStore
from tests.read.node_cache import make_source, read_all

import sweephand as sh
from sweephand.files.cluster import calls, seat
from sweephand.files.cluster.cluster_node import ClusterNode, ClusterPlan
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import WANTED_HEADER, EntryRequest, PeerLimits
from sweephand.files.cluster.roster import Roster
from sweephand.files.node_cache import folder
from sweephand.files.node_cache.fetch_lock import FetchLock
from sweephand.files.node_cache.marker import MARK

__all__ = ["indexed_tokens", "patient"]  # fixtures

LIMIT = 0.3  # seconds


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process of a node sees soon that it is to serve."""
    monkeypatch.setattr(seat, "_LOOK_SECONDS", 0.02)


@pytest.mark.parametrize("behave", bad_peer.WRONG + bad_peer.SLOW, ids=lambda one: one.__name__)
def test_a_node_that_answers_wrongly_or_late_costs_one_wait(
    behave: bad_peer.Behaviour, web: HttpStore, tmp_path: Path
) -> None:
    nodes = Nodes(web, tmp_path, [NUM_CHUNKS, NUM_CHUNKS])
    host, port, _ = nodes.members[1]
    cache = nodes.cache(0, peer_seconds=LIMIT)
    options: dict[str, Any] = {"max_sweeps": 2, "num_threads": 0}
    with (
        bad_peer.serving(behave, host, port) as asked,
        make_source(web.url, cache, **options) as source,
    ):
        begin = time.monotonic()
        with pytest.warns(RuntimeWarning, match=f"the node {host}:{port} is left alone"):
            content = read_all(source)
        seconds = time.monotonic() - begin
        stats = source.stats()
    assert content == wanted(web, 1, sweeps=2)[0]
    assert 1 <= stats["cache_peer_failures"] <= 2  # what it holds, an entry, and never again
    assert 1 <= len(asked) <= 2
    assert stats["cache_misses"] == NUM_CHUNKS
    assert seconds < LIMIT + 2.0


def test_a_node_that_is_not_there_is_waited_for_once(
    web: HttpStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_FIRST_REST", 1e-6)  # it is asked again and again
    nodes = Nodes(web, tmp_path, [NUM_CHUNKS, NUM_CHUNKS])
    cache = nodes.cache(0, peer_seconds=LIMIT)
    with make_source(web.url, cache, max_sweeps=3, num_threads=0) as source:
        begin = time.monotonic()
        with pytest.warns(RuntimeWarning, match="is left alone for a while, and its part"):
            content = read_all(source)
        seconds = time.monotonic() - begin
    assert content == wanted(web, 1)[0]
    assert seconds < LIMIT + 2.0


def test_another_token_is_refused_and_told(web: HttpStore, tmp_path: Path) -> None:
    nodes = Nodes(web, tmp_path, [30, 30])
    caches = {0: nodes.cache(0), 1: nodes.cache(1, token="of others")}
    with pytest.warns(RuntimeWarning, match="it has another token"):
        contents, stats, _ = nodes.read(caches)
    assert contents == wanted(web, 2)
    assert all(one["cache_peer_hits"] == one["cache_bytes_served"] == 0 for one in stats)


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[str, str, str]:
    """Return a certificate of this machine, its key, and the authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    base = tmp_path / "tls"
    base.mkdir()
    (base / "names").write_text(f"subjectAltName=IP:{HOST}")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for command in (
        ["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours"],
        ["req", *key, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node"],
        [
            *("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-extfile", "names", "-out", "node.pem"),
        ],
    ):
        subprocess.run(["openssl", *command], cwd=base, check=True, capture_output=True)
    return str(base / "node.pem"), str(base / "node.key"), str(base / "ca.pem")


def test_nodes_with_certificates_hear_each_other_and_nobody_else(
    certificates: tuple[str, str, str], web: HttpStore, tmp_path: Path
) -> None:
    nodes = Nodes(web, tmp_path, [30, 30])
    caches = {node: nodes.cache(node, tls=certificates) for node in (0, 1)}
    contents, stats, fetched = nodes.read(caches)
    assert contents == wanted(web, 2)
    assert sum(fetched) <= NUM_CHUNKS + 3
    assert all(one["cache_peer_hits"] for one in stats)
    nodes = Nodes(web, tmp_path / "other", [30, 30])
    caches = {0: nodes.cache(0, tls=certificates), 1: nodes.cache(1, peer_seconds=LIMIT)}
    with pytest.warns(RuntimeWarning, match="is left alone"):
        contents, stats, _ = nodes.read(caches)
    assert contents == wanted(web, 2)
    assert not any(one["cache_peer_hits"] for one in stats)


def test_options_that_cannot_be_are_told(web: HttpStore, tmp_path: Path) -> None:
    pem = tmp_path / "no.pem"
    pem.write_text("no certificate")
    for options, words in (
        ({"peers": "mpi"}, "peers must be 'torch', addresses"),
        ({"peers": [("a",)]}, r"peers: an address is \('10\.0\.0\.1', 7070\)"),
        ({"peers": [(7, 8)]}, "a host is a name or number as text, got 7"),
        ({"peers": [("a", 0)]}, r"peers: a port must be in \[1, 65536\)"),
        ({"token": None}, "peers need the address of this node"),
        ({"address": None}, "peers need the address of this node"),
        ({"peer_seconds": 0}, r"peer_seconds must be in \(0, 60\]"),
        ({"peer_bytes": 0}, "peer_bytes must be"),
        ({"tls": ("a", "b")}, "tls must name three files"),
    ):
        with pytest.raises(ValueError, match=words):
            Nodes(web, tmp_path, [30]).cache(0, **options)
    cache = Nodes(web, tmp_path, [30]).cache(0, tls=(pem, pem, pem))
    with pytest.raises((ValueError, OSError), match=r"no\.pem"):
        make_source(web.url, cache)
    cache = Nodes(web, tmp_path, [30]).cache(0, address=("192.0.2.1", 7070))
    with pytest.raises(OSError, match=r"192\.0\.2\.1:7070 of this node cannot be bound"):
        make_source(web.url, cache)
    assert "token" not in repr(Nodes(web, tmp_path, [30]).cache(0, token="secret"))


def test_nothing_stays_when_sources_are_closed(web: HttpStore, tmp_path: Path) -> None:
    nodes = Nodes(web, tmp_path, [30, 30])
    nodes.read(max_sweeps=1)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("sweephand-cluster")]
    for host, port, _ in nodes.members:
        socket.create_server((host, port)).close()
    for node in (0, 1):
        path = tmp_path / f"node{node}" / "entries"
        assert not list(path.glob("unfinished*"))


def test_a_source_that_is_forgotten_lets_go_of_the_address(
    web: HttpStore, tmp_path: Path
) -> None:
    nodes = Nodes(web, tmp_path, [30, 30])
    source = make_source(web.url, nodes.cache(0))
    _wait_for(nodes.members[0])
    del source
    gc.collect()
    socket.create_server((HOST, nodes.members[0][1])).close()


def test_only_the_named_address_is_bound(web: HttpStore, tmp_path: Path) -> None:
    nodes = Nodes(web, tmp_path, [30, 30])
    port = nodes.members[0][1]
    with make_source(web.url, nodes.cache(0)):
        _wait_for(nodes.members[0])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 1)


def _wait_for(address: tuple[Any, ...]) -> None:
    """Wait until somebody serves at an address."""
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(tuple(address[:2]), 1).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)


class _Nothing:
    """The future of no corpus."""

    corpus, timeline, sweep = 1, 2, 100
    chunk_samples = np.ones(4, np.uint64)

    def next(self, chunks: Any, time: int, readers: Any, *, skips_one: bool) -> Any:
        return np.full(len(chunks), time + 100, np.uint64)


def _serve_alone(path: Path, port: int, seconds: float = 2.0) -> ClusterNode:
    """Serve a folder, with no source."""
    own = Member(HOST, port, 1 << 20, "own")
    plan = ClusterPlan(lambda: [own], own, "token", limits=PeerLimits(seconds))
    uses = _Nothing()
    cache_folder = folder.CacheFolder(path, 1 << 20, uses)
    return ClusterNode(
        plan, Roster(plan.members, own, uses), cache_folder, lambda name, more: None
    )


def _fork(action: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def test_another_process_of_the_node_takes_over(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (port,) = free_ports(1)

    def serve() -> None:
        _serve_alone(tmp_path / "node", port)
        time.sleep(60)

    first = _fork(serve)
    _wait_for((HOST, port))
    second = _serve_alone(tmp_path / "node", port)
    os.kill(first, 9)
    os.waitpid(first, 0)
    _wait_for((HOST, port))
    second.close()


def test_a_forked_child_does_not_hold_the_address(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (port,) = free_ports(1)
    node = _serve_alone(tmp_path / "node", port)
    _wait_for((HOST, port))
    child = _fork(lambda: time.sleep(60))
    node.close()
    socket.create_server((HOST, port)).close()
    again = _serve_alone(tmp_path / "node", port)
    _wait_for((HOST, port))
    again.close()
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_a_node_that_asks_and_is_killed_holds_up_nobody(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (port,) = free_ports(1)
    node = _serve_alone(tmp_path / "node", port, LIMIT)
    _wait_for((HOST, port))
    key = bytes(range(16))
    asked = EntryRequest(key, 64, 1, 2, chunk=3, time=0, wait=1.0)
    request = urllib.request.Request(
        f"http://{HOST}:{port}{asked.path}", headers={"Authorization": "Bearer token"}
    )
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request)
    told.value.close()
    assert told.value.headers[WANTED_HEADER] == "1"  # and so it never comes
    lock = FetchLock(tmp_path / "node" / MARK, key)
    lock.take()
    assert not lock.is_mine
    end = time.monotonic() + 10
    while not lock.is_mine:
        assert time.monotonic() < end
        time.sleep(0.01)
        lock.take()
    lock.close()
    node.close()


def test_nobody_waits_at_a_node_for_an_entry_that_it_is_not_given(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    mine, port = free_ports(2)
    own, stray = Member(HOST, mine, 1 << 20, "own"), Member(HOST, port, 1 << 20, "stray")
    holder = _serve_alone(tmp_path / "stray", port)
    _wait_for((HOST, port))
    uses = _Nothing()
    uses.chunk_samples = np.ones(8, np.uint64)
    roster = Roster(lambda: [own, stray], own, uses)
    chunk = next(chunk for chunk in range(8) if roster.owns(b"", chunk))
    roster.note_held({"stray": b"\xff"})  # and has lost it since
    plan = ClusterPlan(lambda: [own, stray], own, "token")
    cache = folder.CacheFolder(tmp_path / "own", 1 << 20, uses, roster.owns)
    node = ClusterNode(plan, roster, cache, lambda name, more: None)
    key = bytes(range(16))
    for _ in range(2):
        begin = time.monotonic()
        answer = node.ask(key, chunk, 64, 0)
        assert answer.content is answer.wanted_by is None
        assert time.monotonic() - begin < plan.limits.seconds / 2
    lock = FetchLock(tmp_path / "stray" / MARK, key)
    lock.take()
    assert lock.is_mine
    lock.close()
    node.close()
    holder.close()


def test_nothing_is_fetched_ahead_until_the_members_have_said_what_they_hold() -> None:
    own, other = (
        Member(HOST, port, 1 << 20, name) for port, name in ((1, "own"), (2, "other"))
    )
    uses = _Nothing()
    uses.chunk_samples = np.ones(8, np.uint64)
    now = [own]
    roster = Roster(lambda: now, own, uses)
    roster.note_held({})
    assert roster.to_fetch().all()
    now = [own, other]
    assert roster.look()
    assert not roster.to_fetch().any()
    mine = np.array([roster.owns(b"", chunk) for chunk in range(8)])
    held = mine & (np.cumsum(mine) <= 1)  # one of them, by the other
    roster.note_held({"other": np.packbits(held).tobytes()})
    np.testing.assert_array_equal(roster.to_fetch(), mine & ~held)
    assert roster.to_fetch().any()


def test_nodes_may_come_and_go_at_any_step(web: HttpStore, tmp_path: Path) -> None:
    nodes = Nodes(web, tmp_path, [60, 60, 60])
    now = nodes.members[:2]
    caches = {node: nodes.cache(node, peers=lambda: list(now)) for node in range(3)}
    with (
        make_source(web.url, caches[0], max_sweeps=4, num_threads=0) as a,
        make_source(web.url, caches[1], max_sweeps=4, num_threads=0) as b,
        make_source(web.url, caches[2], max_sweeps=4, num_threads=0) as c,
    ):
        sources, fetched, found = [a, b], [], []
        while True:
            shares = [
                source.next_minibatch(
                    512, num_data_partitions=len(sources), partition_index=index
                )
                for index, source in enumerate(sources)
            ]
            if not shares[0].global_num_samples:
                break
            found.append(sorted(id for share in shares for id in share.ids))
            if shares[0].end_of_sweep:
                fetched.append(web.bytes_of("tokens") // 1024)
                # A node comes with an empty disk; then the first of all leaves.
                now[:] = nodes.members if len(fetched) == 1 else nodes.members[1:]
                sources = [a, b, c] if len(fetched) == 1 else [b, c]
                for source in sources:
                    source.current_position = shares[0].nominal_time + 512
    with make_source(web.url, None, max_sweeps=4) as plain:
        assert found == [sorted(one.ids) for one in plain.minibatches(512)]
    assert fetched[0] <= NUM_CHUNKS + 2
    # Who came got its part from those that held it.
    assert fetched[1] - fetched[0] <= 2


LATER = [pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 50)]


@pytest.mark.parametrize("seed", [0, *LATER])
def test_nodes_that_are_killed_cost_their_part(
    seed: int, web: HttpStore, tmp_path: Path
) -> None:
    draw = np.random.default_rng(seed)
    ranks = [(0, 3, 0), (1, 3, 1), (2, 3, 2), (1, 3, 1)]
    kills = [(number, draw.uniform(0, 0.2)) for number in (draw.permutation(4)[:2]).tolist()]
    job = make_job(web.url, tmp_path, 3, NUM_CHUNKS // 3 * ENTRY_BYTES, ranks=ranks)
    found = run(job | {"in_step": False, "kills": kills, "seconds": LIMIT})
    contents = wanted(web, 3)
    killed = {number for number, _ in kills}
    for number, (one, rank) in enumerate(zip(found, ranks, strict=True)):
        if number not in killed:
            assert one["code"] == 0
            assert one["took"] < 30  # of waits for a second at most
        if one["code"] == 0:
            assert one["content"] == contents[rank[2]]
            assert not one["cache_damaged"]
    for node in range(3):  # what was killed is used again, and nothing stays
        cache = sh.NodeCache(tmp_path / f"node{node}", NUM_CHUNKS * ENTRY_BYTES)
        with make_source(web.url, cache, max_sweeps=1) as source:
            read_all(source)
            assert not source.stats()["cache_damaged"]
        assert not list((tmp_path / f"node{node}" / "entries").glob("unfinished*"))
