"""Lanes: a sweep is read in equal parts side by side, each with a block of chunks open."""

import matplotlib.pyplot as plt
import numpy as np
from drawing import bare, color, piece
from matplotlib.figure import Figure

import sweephand as sh

CHUNKS, SEQUENCES, LANES = 16, 4, 4  # each sequence has two samples


def draw() -> Figure:
    """Draw chunks as they are stored, as lanes hold them, and as a sweep serves them."""
    x = np.zeros((CHUNKS * SEQUENCES * 2, 1), np.float32)
    offsets = np.arange(0, len(x) + 1, 2)
    corpus = sh.ArrayDeserializer({"x": (x, offsets)}, chunk_size=SEQUENCES)
    source = sh.MinibatchSource(
        corpus,
        randomization_seed=5,
        randomization_window_in_chunks=2 * LANES,
        num_lanes=LANES,
        max_sweeps=1,
    )
    total = CHUNKS * SEQUENCES
    figure, axis = plt.subplots(figsize=(11, 4.2), layout="constrained")

    for chunk in range(CHUNKS):
        piece(axis, 7, chunk * SEQUENCES, (chunk + 1) * SEQUENCES, color(chunk), str(chunk))
    # With as many workers as lanes, the share of a worker is a lane.
    lanes = [shares(source, LANES, lane) for lane in range(LANES)]
    lane_of = {number: lane for lane, numbers in enumerate(lanes) for number in numbers}
    for lane, numbers in enumerate(lanes):
        for place, number in enumerate(numbers):
            row, begin = 5.4 - 0.8 * lane, place * LANES
            piece(axis, row, begin, begin + LANES, color(number // SEQUENCES))
    order = shares(source, 1, 0)
    for place, number in enumerate(order):
        piece(axis, 1.6, place, place + 1, color(number // SEQUENCES))
        piece(axis, 0.8, place, place + 1, ("0.55", "0.85")[lane_of[number] % 2])
    half = total / 2
    axis.plot([half, half], [2.6, 5.8], color="0.2", linestyle=":", linewidth=1)
    axis.text(
        half, 2.35, "here each lane opens its next block of 2 chunks", ha="center", fontsize=8
    )

    rows = {7.0: "16 chunks, as stored"}
    rows |= {5.4 - 0.8 * lane: f"lane {lane}" for lane in range(LANES)}
    rows |= {1.6: "sweep, as served", 0.8: "worker 0 dark, 1 light"}
    bare(axis, rows)
    axis.set_xticks([])
    axis.set_xlim(0, total)
    return figure


def shares(source: sh.MinibatchSource, workers: int, rank: int) -> list[int]:
    """Return the sequences of a worker's share of the sweep, by number."""
    source.current_position = 0
    minibatches = source.minibatches(
        2 * LANES, num_data_partitions=workers, partition_index=rank
    )
    names = [name for minibatch in minibatches for name in minibatch.ids]
    return [int(name.rsplit("__", 1)[1]) for name in names]
