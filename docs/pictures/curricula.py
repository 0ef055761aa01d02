"""Orders by score: the length of sequences over two sweeps of a corpus."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import sweephand as sh

ORDERS = {
    "shuffled": None,
    'ByScore("length", until_sweep=1)': sh.ByScore("length", until_sweep=1),
    'ByScore("length", noise=0.3)': sh.ByScore("length", noise=0.3),
    "4 levels, weights=[8, 4, 2, 1]": sh.ByScore(
        "length", boundaries=[32, 64, 128], weights=[8, 4, 2, 1]
    ),
}


def draw() -> Figure:
    """Draw every sequence as a dot, and the mean length of some that follow each other."""
    lengths = np.random.default_rng(1).lognormal(4, 0.7, 1500).astype(int) + 1
    corpus = sh.ArrayDeserializer({"x": [np.zeros(n, np.uint8) for n in lengths]})
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True, layout="constrained")
    for axis, (title, order) in zip(axes, ORDERS.items(), strict=True):
        with sh.MinibatchSource(corpus, order=order, max_sweeps=2) as source:
            plans = list(source.plan(4096))
        sizes = np.concatenate([plan.sizes for plan in plans])
        times = (np.cumsum(sizes) - sizes) / lengths.sum()
        axis.scatter(times, sizes, s=1, color="lightsteelblue")
        means = [plan.sizes.mean() for plan in plans]
        begins = [plan.nominal_time / lengths.sum() for plan in plans]
        axis.plot(begins, means, color="tab:blue")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("sweeps")
        axis.set_yscale("log")
    axes[0].set_ylabel("samples of a sequence")
    return figure
