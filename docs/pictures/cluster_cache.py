"""The caches of three nodes as one: where what each node reads comes from."""

import tempfile
from contextlib import ExitStack

import fsspec
import matplotlib.pyplot as plt
import numpy as np
from drawing import WASTE, bare, color, piece
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import sweephand as sh
from sweephand.files.cluster.seat import free_port

NODES, CHUNKS, KEPT = 3, 36, 8  # chunks that fit on the disk of each node
CHUNK_BYTES, SAMPLES, HOST = 1024, 512, "127.0.0.1"
STORE = -1


def draw() -> Figure:
    """Draw two sweeps of three nodes whose disks hold two thirds of the corpus."""
    steps = [one for one in read() if any(one)]
    figure, axis = plt.subplots(figsize=(11, 2.9), layout="constrained")
    half = len(steps) // 2
    for at, step in enumerate(steps):
        for node, origins in enumerate(step):
            for i, origin in enumerate(origins):
                fill = WASTE if origin == STORE else color(2 * origin)
                begin, width = at + i / len(origins), 1 / len(origins)
                piece(axis, NODES - node, begin, begin + width, fill)
    axis.axvline(half, color="0.2", linestyle=":", linewidth=1)
    for sweep in (0, 1):
        place = (sweep + 0.5) * half
        axis.text(place, NODES + 0.6, f"sweep {sweep + 1}", ha="center", fontsize=8)
    bare(axis, {NODES - node: f"node {name} reads" for node, name in enumerate("abc")})
    axis.set_xticks([])
    axis.set_xlim(0, len(steps))
    sources = [Patch(color=WASTE, label="from the store")]
    sources += [
        Patch(color=color(2 * node), label=f"from the disk of {name}")
        for node, name in enumerate("abc")
    ]
    figure.legend(handles=sources, loc="outside lower center", ncols=4, frameon=False)
    return figure


def read() -> list[list[list[int]]]:
    """Return of each step and node the nodes, or the store, that its chunks came from."""
    tokens = np.arange(CHUNKS * CHUNK_BYTES // 2, dtype=np.uint16).tobytes()
    fsspec.filesystem("memory").pipe("/corpus/tokens.bin", tokens)
    corpus = sh.RawTokensDeserializer(
        "memory://corpus/tokens.bin", "uint16", 32, chunk_size_in_bytes=CHUNK_BYTES
    )
    peers = [(HOST, free_port(HOST)) for _ in range(NODES)]
    with ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in peers]
        sources = [
            stack.enter_context(
                sh.MinibatchSource(
                    corpus,
                    max_sweeps=2,
                    num_threads=0,
                    num_lanes=2 * NODES,
                    randomization_window_in_chunks=4 * NODES,
                    node_cache=sh.NodeCache(
                        folder,
                        max_bytes=KEPT * (CHUNK_BYTES + 100),
                        peers=peers,
                        address=address,
                        token="of the three",
                        peer_seconds=20,
                    ),
                )
            )
            for folder, address in zip(folders, peers, strict=True)
        ]
        return [
            [origins(sources, node) for node in range(NODES)]
            for _ in range(2 * CHUNKS // NODES)
        ]


def origins(sources: list[sh.MinibatchSource], node: int) -> list[int]:
    """Have a node read its share of a step; return where its chunks came from."""
    before = [source.stats() for source in sources]
    sources[node].next_minibatch(
        NODES * SAMPLES, num_data_partitions=NODES, partition_index=node
    )
    after = [source.stats() for source in sources]

    def grown(of: int, name: str, unit: int = 1) -> int:
        return round((after[of][name] - before[of][name]) / unit)

    found = [STORE] * grown(node, "cache_misses") + [node] * grown(node, "cache_hits")
    for other in range(NODES):
        found += [other] * grown(other, "cache_bytes_served", CHUNK_BYTES)
    return found
