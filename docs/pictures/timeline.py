"""The timeline: sweeps laid on nominal time, and minibatches of two sizes cut from it."""

import matplotlib.pyplot as plt
import numpy as np
from drawing import bare, color, piece
from matplotlib.figure import Figure

import sweephand as sh

LENGTHS = [3, 1, 4, 2, 5, 1]  # samples of each sequence: a sweep has 16
SWEEPS = 3


def draw() -> Figure:
    """Draw a corpus of six sequences and three sweeps of it."""
    corpus = sh.ArrayDeserializer({"x": [np.zeros(n) for n in LENGTHS]})
    source = sh.MinibatchSource(corpus, randomization_seed=3, max_sweeps=SWEEPS)
    total = SWEEPS * sum(LENGTHS)
    figure, axis = plt.subplots(figsize=(11, 3.4), layout="constrained")

    begin = 0
    for number, length in enumerate(LENGTHS):
        piece(axis, 4, begin, begin + length, color(number), str(number))
        begin += length
    for sweep in range(SWEEPS):
        piece(
            axis, 3, sweep * sum(LENGTHS), (sweep + 1) * sum(LENGTHS), "0.9", f"sweep {sweep}"
        )
    begin = 0
    for name in source.sequence_ids(0, total):
        number = int(name.rsplit("__", 1)[1])
        piece(axis, 2, begin, begin + LENGTHS[number], color(number), str(number))
        begin += LENGTHS[number]
    for row, size in ((1, 6), (0, 12)):
        source.current_position = 0
        for minibatch in source.minibatches(size):
            time = minibatch.nominal_time
            text = f"{minibatch.num_samples}"
            piece(axis, row, time, time + minibatch.num_samples, "lightsteelblue", text)

    rows = {4: "corpus", 3: "sweeps", 2: "order", 1: "minibatches of 6", 0: "of 12"}
    bare(axis, rows)
    axis.set_xticks(range(0, total + 1, 4))
    axis.set_xlabel("nominal time: samples served since the start")
    return figure
