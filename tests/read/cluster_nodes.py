"""Nodes of a cluster on one machine, each with a folder and an address of its own.

usage: python -m tests.read.cluster_nodes JOB

Ranks are forked from one process, as an import takes its time. What becomes of each is printed
as JSON.
"""

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.read.forked import fork
from tests.read.http_store import HttpStore
from tests.read.node_cache import CHUNK_BYTES, make_source, read_all
from tests.read.node_cache import run as run_apart

import sweephand as sh
from sweephand.files.cluster import calls, seat
from sweephand.files.node_cache import folder, reads
from sweephand.files.node_cache.entries import HEAD_BYTES

HOST = "127.0.0.1"
TOKEN = "of all nodes"
NUM_CHUNKS = 60
ENTRY_BYTES = CHUNK_BYTES + HEAD_BYTES


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has."""
    bound = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in bound]
    for one in bound:
        one.close()
    return ports


class Nodes:
    """Nodes in this process, each with a source that gets a share; they go in step."""

    def __init__(self, web: HttpStore, tmp_path: Path, rooms: Sequence[int]) -> None:
        ports = free_ports(len(rooms))
        self.web, self.tmp_path = web, tmp_path
        self.members: list[Any] = [
            (HOST, port, room * ENTRY_BYTES) for port, room in zip(ports, rooms, strict=True)
        ]

    def cache(self, node: int, **more: Any) -> sh.NodeCache:
        """Return the cache of a node."""
        host, port, room = self.members[node]
        options: dict[str, Any] = {
            "peers": self.members,
            "address": (host, port),
            "token": TOKEN,
            "peer_seconds": 20.0,
        } | more
        return sh.NodeCache(self.tmp_path / f"node{node}", room, **options)

    def read(
        self, caches: dict[int, sh.NodeCache] | None = None, **options: Any
    ) -> tuple[list[int], list[dict[str, float]], list[int]]:
        """Return checksums of shares, counts of nodes, and chunks from the store by sweep."""
        caches = caches or {node: self.cache(node) for node in range(len(self.members))}
        options = {"max_sweeps": 3, "num_threads": 0} | options
        count, contents, sweeps = len(caches), [0] * len(caches), [0]
        with ExitStack() as stack:
            sources = [
                stack.enter_context(make_source(self.web.url, cache, **options))
                for cache in caches.values()
            ]
            while True:
                shares = [
                    source.next_minibatch(512, num_data_partitions=count, partition_index=index)
                    for index, source in enumerate(sources)
                ]
                if not any(share.global_num_samples for share in shares):
                    break
                for index, share in enumerate(shares):
                    values = share["tokens"].values.tobytes()
                    contents[index] = zlib.crc32(values, contents[index])
                if shares[0].end_of_sweep:
                    sweeps.append(self.web.bytes_of("tokens") // CHUNK_BYTES)
            return contents, [source.stats() for source in sources], np.diff(sweeps).tolist()


def wanted(web: HttpStore, count: int, sweeps: int = 3) -> list[int]:
    """Return what each worker gets without a cache, which the store does not count."""
    before = list(web.fetched)
    found = []
    for index in range(count):
        with make_source(web.url, None, max_sweeps=sweeps) as plain:
            found.append(read_all(plain, count, index))
    web.fetched[:] = before
    return found


def make_job(
    url: str, base: Path, num_nodes: int, max_bytes: int, **more: Any
) -> dict[str, Any]:
    """Return a job of nodes, by default with a rank on each, all in step."""
    return {
        "url": url,
        "base": str(base),
        "max_bytes": max_bytes,
        "sweeps": 3,
        "ports": free_ports(num_nodes),
        # The node of each rank, how many workers there are, and which it is.
        "ranks": [(node, num_nodes, node) for node in range(num_nodes)],
    } | more


run = partial(run_apart, module="tests.read.cluster_nodes")


def cache_of(job: dict[str, Any], node: int, **more: Any) -> sh.NodeCache:
    """Return the cache of a node."""
    peers = [(HOST, port) for port in job["ports"]]
    options: dict[str, Any] = {
        "peers": peers,
        "address": peers[node],
        "token": TOKEN,
        "peer_seconds": job.get("seconds", 20.0),
    }
    return sh.NodeCache(f"{job['base']}/node{node}", job["max_bytes"], **options | more)


def _work(
    job: dict[str, Any], rank: tuple[int, int, int], behind_each: Callable[[], object]
) -> dict[str, Any]:
    # A rank that the machine holds up is waited for, unless that is what is tried.
    reads._PATIENCE = folder._TURN_SECONDS = job.get("patience", 60.0)
    calls._FIRST_REST = calls._MOST_REST = job.get("rest", 0.5)
    seat._LOOK_SECONDS = 0.05
    node, count, index = rank
    begin = time.monotonic()
    cache = _torch_cache(job, node, index) if "torch" in job else cache_of(job, node)
    options: dict[str, Any] = {"max_sweeps": job["sweeps"]} | job.get("options", {})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with make_source(job["url"], cache, **options) as source:
            content = read_all(source, count, index, behind_each)
            behind_each()  # nobody leaves before all have what they need
            stats = source.stats()
    warned = [str(one.message) for one in told]
    return {
        "content": content,
        "warnings": warned,
        "took": time.monotonic() - begin,
        **stats,
    }


def _torch_cache(job: dict[str, Any], node: int, rank: int) -> sh.NodeCache:
    """Return the cache of a node that finds the others through torch."""
    import torch.distributed as dist

    os.environ["MASTER_ADDR"] = HOST
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{HOST}:{job['torch']}",
        rank=rank,
        world_size=len(job["ranks"]),
    )
    return sh.NodeCache(f"{job['base']}/node{node}", job["max_bytes"], peers="torch")


def _main(job: dict[str, Any]) -> None:
    base, ranks = Path(job["base"]), job["ranks"]
    if "torch" in job:
        pass  # before forks, as it takes seconds
    outs = [base / f"told-{i}.json" for i in range(len(ranks))]
    step = multiprocessing.get_context("fork").Barrier(len(ranks), timeout=60)
    behind_each = step.wait if job.get("in_step", True) else lambda: None
    children = [
        fork(lambda rank=rank: _work(job, rank, behind_each), out)
        for rank, out in zip(ranks, outs, strict=True)
    ]
    for number, after in job.get("kills", []):
        time.sleep(after)
        os.kill(children[number], signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    found = [
        {"code": code, **(json.loads(out.read_text()) if code == 0 else {})}
        for out, code in zip(outs, codes, strict=True)
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
