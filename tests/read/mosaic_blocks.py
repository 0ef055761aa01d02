"""What nodes with MosaicML Streaming's shuffle ``py1e`` download, simulated.

Shards belong to nodes for a whole run; those of a node come in another order in each epoch, and
the samples of each are spread over a block. A node whose disk is full removes the shard that it
used longest ago.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from sweephand.cli.cluster_hits import ChunkRead

_SAMPLES = 16  # of a shard, in place of all


def downloads(
    nodes: int, shards: int, room: int, sweeps: int, block: float, seed: int
) -> Iterator[ChunkRead]:
    """Yield the downloads of a run, in the order of their times, and the hits.

    Parameters
    ----------
    nodes, shards : int
    room : int
        Shards that fit on the disk of a node.
    sweeps : int
    block : float
        Shards over which the samples of one are spread.
    seed : int
    """
    of_node = [shards // nodes * node + np.arange(shards // nodes) for node in range(nodes)]
    disks: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(nodes)]
    for sweep in range(sweeps):
        draw = np.random.default_rng(seed + sweep)
        touches: list[tuple[float, int, int]] = []
        for node, own in enumerate(of_node):
            order = draw.permutation(own)
            middle = np.repeat(np.arange(len(own)) + 0.5, _SAMPLES)
            spread = max(1.0, block)
            times = middle + draw.uniform(-spread / 2, spread / 2, len(middle))
            shards_of_times = np.repeat(order, _SAMPLES).tolist()
            touches += [
                (time, shard, node)
                for time, shard in zip(times.tolist(), shards_of_times, strict=True)
            ]
        first: set[int] = set()
        for _, shard, node in sorted(touches):
            disk, is_held = disks[node], shard in disks[node]
            disk[shard] = None
            disk.move_to_end(shard)
            if len(disk) > room:
                disk.popitem(last=False)
            if not is_held or shard not in first:
                first.add(shard)
                yield ChunkRead(sweep, node, node, is_held, True)
