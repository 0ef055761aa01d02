"""Mixtures: shares as weights say and as they were delivered, and where each corpus stands."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import sweephand as sh

NAMES = {"web": (40_000, 40), "code": (5_000, 200), "books": (1_000, 600)}  # sequences, longest
STEP = 40_000


def draw() -> Figure:
    """Draw the shares of three corpora, and how many sweeps of each have passed."""
    rng = np.random.default_rng(0)
    corpora = {
        name: {"x": [np.zeros(n, np.uint8) for n in rng.integers(1, longest, count)]}
        for name, (count, longest) in NAMES.items()
    }
    at_first = dict(zip(NAMES, (7, 2, 1), strict=True))
    at_last = dict(zip(NAMES, (1, 4, 5), strict=True))
    mixture = sh.Mixture(corpora, [(600_000, at_first), (1_000_000, at_last)])
    source = sh.MinibatchSource(mixture)
    times = range(0, 1_600_001, STEP)
    places = [source.corpus_positions(time) for time in times]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
    for number, name in enumerate(NAMES):
        color = f"C{number}"
        own = np.array([place[name] for place in places])
        left.plot(times, [mixture.weights_at(t)[name] for t in times], color=color, label=name)
        middle = np.array(times[1:]) - STEP / 2
        left.plot(middle, np.diff(own) / STEP, ".", color=color, markersize=4)
        samples = sum(map(len, corpora[name]["x"]))
        right.plot(times, own / samples, color=color, label=name)
    left.set_ylabel("share: weight, and delivered (dots)")
    right.set_ylabel("sweeps of the corpus")
    for axis in (left, right):
        axis.set_xlabel("nominal time, in samples")
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    return figure
