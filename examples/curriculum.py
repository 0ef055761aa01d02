"""Short to long: lengths and padding of some orders by score, and a picture of them.

    python examples/curriculum.py --figure curriculum.png

Every order has each sequence once in a sweep. What differs is when long ones come, and how much
of a padded minibatch is padding.
"""

import argparse
from pathlib import Path

import numpy as np
from figure import draw

import sweephand as sh

LEVELS = [64, 128, 256]
ORDERS = {
    "shuffled": None,
    "sorted within windows": sh.ByScore("length", over="window"),
    "sorted in the first sweep": sh.ByScore("length", until_sweep=1),
    "less sorted in each sweep": sh.ByScore("length", noise=[0.1, 0.5, 1]),
    "short ones more likely first": sh.ByScore(
        "length", boundaries=LEVELS, weights=[8, 4, 2, 1]
    ),
}


def make_corpus(sequences: int) -> sh.ArrayDeserializer:
    """Make documents of log-normal lengths; what is in them does not matter here."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(4.5, 0.8, sequences).astype(np.int64) + 1, 2048)
    tokens = rng.integers(0, 256, lengths.sum()).astype(np.uint16)
    return sh.ArrayDeserializer(
        {"tokens": (tokens, np.append(0, np.cumsum(lengths)))}, chunk_size=100
    )


def main() -> None:
    """Plan two sweeps in each order, and tell of them."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sequences", type=int, default=20_000)
    arguments.add_argument("--size", type=int, default=8_192, help="samples of a minibatch")
    arguments.add_argument("--figure", type=Path, help="picture of lengths over time")
    options = arguments.parse_args()
    corpus = make_corpus(options.sequences)
    curves = {}
    print("The first of two sweeps, lengths in samples:")
    print(f"{'order':30}{'first tenth':>13}{'last tenth':>12}{'filled cells':>14}")
    for name, order in ORDERS.items():
        window = {"randomization_window_in_chunks": 50} if "windows" in name else {}
        with sh.MinibatchSource(
            corpus, order=order, layout=sh.Padded(), max_sweeps=2, **window
        ) as source:
            plans = list(source.plan(options.size))
            sweep = source.num_samples_per_sweep
        means = [float(plan.sizes.mean()) for plan in plans]
        curves[name] = ([plan.nominal_time for plan in plans], means)
        plans = [plan for plan in plans if plan.nominal_time < sweep]
        tenth = len(plans) // 10
        first, last = np.mean(means[:tenth]), np.mean(means[len(plans) - tenth : len(plans)])
        cells = sum(int(plan.sizes.max()) * len(plan.sizes) for plan in plans)
        fill = sum(plan.num_samples for plan in plans) / cells
        print(f"{name:30}{first:13.0f}{last:12.0f}{fill:14.0%}")
    if options.figure:
        panels = [(name, {name: curve}) for name, curve in curves.items()]
        title = "Mean length of the sequences of a minibatch, over two sweeps"
        draw(options.figure, title, panels, "nominal time in samples")


if __name__ == "__main__":
    main()
