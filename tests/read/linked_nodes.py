"""Nodes that train in step over links with rates, and what their loops wait.

usage: python -m tests.read.linked_nodes JOB

The store and every node are processes in namespaces of their own (`network.py`). A step is a
sleep, which stands for the work of an accelerator. What was found is printed as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from tests.read.forked import fork
from tests.read.http_store import serve
from tests.read.lru_folder import keep_the_latest
from tests.read.network import Network, network
from tests.read.node_cache import run as run_apart

import sweephand as sh
from sweephand.files.node_cache.entries import HEAD_BYTES
from sweephand.files.remote import describe_objects

PORT = 7070
TOKEN = "of all nodes"
CHUNK_BYTES, NUM_CHUNKS = 64 << 10, 96
ENTRY_BYTES = CHUNK_BYTES + HEAD_BYTES
NUM_LANES, NUM_STEPS, SWEEPS = 8, 32, 3
SEQUENCE = 512  # samples, of two bytes
SIZE = NUM_CHUNKS * CHUNK_BYTES // 2 // NUM_STEPS


@dataclass(frozen=True)
class Job:
    """A run of nodes.

    Attributes
    ----------
    nodes : int
    part : float
        Of the corpus that the disks of all nodes hold together.
    how : str
        ``"cluster"``, ``"alone"``: each node has a cache and no peers, or ``"lru"``: a cluster
        that keeps what was used last.
    sweep_seconds : float
        The steps of a sweep, if nobody waits.
    store_rate, link_rate : float
        Of the links of the store and of a node, as multiples of what all nodes together read
        in a second.
    kills : int
        How often a node is killed, which begins again. Then nodes do not go in step.
    """

    nodes: int
    part: float
    how: str = "cluster"
    sweep_seconds: float = 6.4
    store_rate: float = 4.0
    link_rate: float = 4.0
    kills: int = 0

    @property
    def room(self) -> int:
        """The chunks for which a node has room."""
        return round(self.part * NUM_CHUNKS / self.nodes)

    @property
    def demand(self) -> float:
        """The bytes that all nodes read in a second."""
        return NUM_CHUNKS * CHUNK_BYTES / self.sweep_seconds


def run(job: Job) -> dict[str, Any]:
    """Run a job in another process.

    Returns
    -------
    dict
        By sweep: ``store_chunks`` that the store answered, ``store_sent``, ``node_received``,
        ``node_sent``: what links carried with headers, in sizes of a chunk; ``waiting``: the
        part of the time that the loop waited for the slowest node, without the first step,
        which takes ``start_seconds``. In
        ``request_seconds`` the store answers a short request of each lane.
    """
    return run_apart(asdict(job), module="tests.read.linked_nodes")[0]


def _source(url: str, cache: sh.NodeCache | None) -> sh.MinibatchSource:
    tokens = sh.RawTokensDeserializer(
        f"{url}/tokens.bin", "uint16", SEQUENCE, chunk_size_in_bytes=CHUNK_BYTES
    )
    return sh.MinibatchSource(
        tokens,
        node_cache=cache,
        num_lanes=NUM_LANES,
        randomization_window_in_chunks=NUM_LANES,
        max_sweeps=SWEEPS,
    )


def _cache(net: Network, job: Job, node: int, base: Path) -> sh.NodeCache:
    path, room = base / f"node{node}", job.room * ENTRY_BYTES
    if job.how == "alone":
        return sh.NodeCache(path, room)
    peers = [(net.address(number), PORT) for number in range(job.nodes)]
    return sh.NodeCache(
        path,
        room,
        peers=peers,
        address=peers[node],
        token=TOKEN,
        peer_seconds=2.0 if job.kills else 30.0,
    )


def _serve(net: Network, job: Job, folder: Path, told: Connection) -> None:
    """Serve the store, and answer how many bytes were fetched."""
    net.enter(job.nodes)
    with serve(folder, net.address(job.nodes)) as web:
        told.send(web.url)
        with suppress(EOFError):
            while True:
                told.recv()
                told.send(web.bytes_of("tokens"))


def _work(
    net: Network, job: Job, node: int, base: Path, url: str, step: Callable[[], int]
) -> dict[str, Any]:
    net.enter(node)
    if job.how == "lru":
        keep_the_latest()
    seconds, content, waits = job.sweep_seconds / NUM_STEPS, 0, []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with _source(url, _cache(net, job, node, base)) as source:
            step()
            while True:
                begin = time.monotonic()
                minibatch = source.next_minibatch(SIZE, None, None, job.nodes, node)
                waits.append(time.monotonic() - begin)
                if not minibatch.global_num_samples:
                    break
                content = zlib.crc32(minibatch["tokens"].values.tobytes(), content)
                time.sleep(seconds)
                step()
            step()  # nobody leaves before all have what they need
            stats = source.stats()
    return {
        "content": content,
        "waits": waits[:-1],
        "warnings": [str(one.message) for one in told],
        **stats,
    }


def _build_index(net: Network, url: str) -> float:
    """Build the index, and return the seconds of a request for each lane, all at once."""
    net.enter(0)
    _source(url, None).close()
    seconds = []
    for _ in range(15):
        begin = time.monotonic()
        describe_objects([f"{url}/tokens.bin"] * NUM_LANES)
        seconds.append(time.monotonic() - begin)
    return float(np.quantile(seconds, 0.25))  # others may have the processors


def _main(job: Job, base: Path) -> dict[str, Any]:
    os.environ["SWEEPHAND_CACHE"] = str(base / "index")
    folder = base / "data"
    folder.mkdir()
    draw = np.random.default_rng(5)
    draw.integers(0, 2**16, NUM_CHUNKS * CHUNK_BYTES // 2, np.uint16).tofile(
        folder / "tokens.bin"
    )
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    with network(job.nodes + 1) as net:
        store = fork(lambda: _serve(net, job, folder, theirs))
        theirs.close()
        try:
            url = ours.recv()
            out = base / "request_seconds.json"
            if os.waitpid(fork(lambda: _build_index(net, url), out), 0)[1]:
                raise RuntimeError("the index could not be built")
            for node in range(job.nodes):
                net.limit(node, job.link_rate * job.demand)
            net.limit(job.nodes, job.store_rate * job.demand)
            outs = [base / f"{node}.json" for node in range(job.nodes)]
            ways = net, job, base, url, outs
            if job.kills:
                return _kill(*ways)
            look = partial(_look, net, ours)
            codes, seen = _go_in_step(*ways, look)
        finally:
            os.kill(store, signal.SIGKILL)
            os.waitpid(store, 0)
    found = _found(codes, seen, [json.loads(out.read_text()) for out in outs])
    request_seconds = json.loads((base / "request_seconds.json").read_text())
    return found | {"request_seconds": request_seconds}


def _look(net: Network, store: Connection) -> list[Any]:
    """Return the time, what was fetched, and what was carried, the store last."""
    store.send(None)
    links = [net.traffic(host) for host in range(net.num_hosts)]
    return [time.monotonic(), store.recv(), *links]


def _go_in_step(
    net: Network,
    job: Job,
    base: Path,
    url: str,
    outs: Sequence[Path],
    look: Callable[[], list[Any]],
) -> tuple[list[int], list[list[Any]]]:
    """Return the exit codes of all nodes, and what is seen at the borders of sweeps."""
    step = multiprocessing.get_context("fork").Barrier(job.nodes + 1, timeout=60)

    def work(node: int) -> dict[str, Any]:
        try:
            return _work(net, job, node, base, url, step.wait)
        except BaseException:
            step.abort()  # nobody waits for it
            raise

    children = [fork(partial(work, node), out) for node, out in enumerate(outs)]
    step.wait()
    seen = [look()]
    for _ in range(SWEEPS):
        for _ in range(NUM_STEPS):
            step.wait()
        seen.append(look())
    step.wait()
    return [os.waitpid(child, 0)[1] for child in children], seen


def _kill(net: Network, job: Job, base: Path, url: str, outs: Sequence[Path]) -> dict[str, Any]:
    """Kill nodes that begin again, and return what they get in the end, and leave."""
    draw = random.Random(3)
    works = [partial(_work, net, job, node, base, url, lambda: 0) for node in range(job.nodes)]
    children = [fork(work, out) for work, out in zip(works, outs, strict=True)]
    killed = 0
    while killed < job.kills:
        time.sleep(draw.uniform(0, 0.8))
        node = draw.randrange(job.nodes)
        with suppress(ProcessLookupError):
            os.kill(children[node], signal.SIGKILL)
        status = os.waitpid(children[node], 0)[1]
        if status not in (0, signal.SIGKILL):
            raise RuntimeError(f"node {node} has failed")
        killed += status == signal.SIGKILL
        children[node] = fork(works[node], outs[node])
    codes = [os.waitpid(child, 0)[1] for child in children]
    told = [json.loads(out.read_text()) for out in outs]
    left = [list((base / f"node{node}" / "entries").iterdir()) for node in range(job.nodes)]
    return {
        "codes": codes,
        "killed": killed,
        "content": [one["content"] for one in told],
        "peer_hits": sum(one["cache_peer_hits"] for one in told),
        "damaged": sum(one["cache_damaged"] for one in told),
        "kept_bytes": [sum(path.stat().st_size for path in paths) for paths in left],
    }


def _found(
    codes: Sequence[int], seen: Sequence[list[Any]], told: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    waits = np.array([one["waits"] for one in told]).max(0).reshape(SWEEPS, NUM_STEPS)
    links = np.diff(np.array([one[2:] for one in seen]), axis=0)
    took = np.diff([one[0] for one in seen])
    start = float(waits[0, 0])
    waits[0, 0], took[0] = 0.0, took[0] - start
    return {
        "codes": codes,
        "content": [one["content"] for one in told],
        "warnings": [text for one in told for text in one["warnings"]],
        "failures": sum(one.get("cache_peer_failures", 0) for one in told),
        "store_chunks": (np.diff([one[1] for one in seen]) / CHUNK_BYTES).tolist(),
        "store_sent": (links[:, -1, 1] / CHUNK_BYTES).tolist(),
        "node_received": (links[:, :-1, 0] / CHUNK_BYTES).tolist(),
        "node_sent": (links[:, :-1, 1] / CHUNK_BYTES).tolist(),
        "waiting": (waits.sum(1) / took).tolist(),
        "start_seconds": start,
    }


if __name__ == "__main__":
    chosen = Job(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as where:
        print(json.dumps([_main(chosen, Path(where))]))
