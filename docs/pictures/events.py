"""Events: what was delivered of three corpora, with a ban, a skip and other weights."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import sweephand as sh

NAMES = ["web", "code", "books"]
SIZE = 2_000
BAN, SKIP, WEIGHTS, LEAVES = 20_000, (44_000, 56_000), 70_000, 100_000
END = 120_000


def draw() -> Figure:
    """Draw the shares of every minibatch, by corpus, and of what is banned."""
    rng = np.random.default_rng(0)
    sizes = {name: rng.integers(1, 40, 4000) for name in NAMES}
    corpora = {name: {"x": [np.zeros(n, np.uint8) for n in own]} for name, own in sizes.items()}
    mixture = sh.Mixture(corpora, dict(zip(NAMES, (3, 2, 1), strict=True)))
    source = sh.MinibatchSource(mixture, max_samples=END)
    source.events.ban([f"web/array__{n}" for n in range(0, 4000, 3)], at=BAN)
    source.events.skip(*SKIP)
    source.events.weights(dict(zip(NAMES, (1, 2, 3), strict=True)), at=WEIGHTS)
    source.events.weights(dict(zip(NAMES, (1, 0, 3), strict=True)), at=LEAVES)
    times, widths, shares, left_out = [], [], [], []
    for minibatch in source.minibatches(SIZE):
        planned = minibatch.global_num_samples
        times.append(minibatch.nominal_time)
        widths.append(planned)
        by = minibatch.num_samples_by()
        shares.append([by.get(name, 0) / planned for name in NAMES])
        left_out.append(1 - minibatch.num_samples / planned)
    figure, axis = plt.subplots(figsize=(11, 3.2), layout="constrained")
    below = np.zeros(len(times))
    for number, name in enumerate(NAMES):
        heights = np.array(shares)[:, number]
        axis.bar(times, heights, widths, below, align="edge", color=f"C{number}", label=name)
        below += heights
    axis.bar(times, left_out, widths, below, align="edge", color="0.85", label="banned")
    names = {BAN: "ban", SKIP[0]: "skip", WEIGHTS: "weights", LEAVES: "code leaves"}
    for time, name in names.items():
        axis.axvline(time, color="black", linewidth=0.8)
        axis.annotate(f" {name}", (time, 1.02))
    axis.set_ylim(0, 1.12)
    axis.set_xlabel("nominal time, in samples")
    axis.set_ylabel("share of a minibatch")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.legend(loc="lower left", framealpha=1)
    return figure
