"""Find wrong labels by their losses: a classifier that keeps a ledger, and what it tells.

    python examples/loss_ledger.py

One label in a hundred is wrong. A model that cannot learn them by heart leaves them with the
highest losses, whatever the step. Then:

    sweephand ledger top losses
    sweephand ledger show losses array__17
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import pyarrow  # noqa: F401 # the ledger's table
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[parquet]'")

import sweephand as sh

SEQUENCES = 2000
CLASSES = 3


def make_corpus(rng: np.random.Generator) -> tuple[sh.ArrayDeserializer, set[str]]:
    """Make series of 5 to 20 points of a class each, and the ids of those labelled wrongly."""
    lengths = rng.integers(5, 21, SEQUENCES)
    offsets = np.append(0, np.cumsum(lengths))
    kinds = rng.integers(0, CLASSES, SEQUENCES)
    angles = 2 * np.pi * np.repeat(kinds, lengths) / CLASSES
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points += rng.normal(0, 0.5, points.shape)
    wrong = rng.choice(SEQUENCES, SEQUENCES // 100, replace=False)
    kinds[wrong] = (kinds[wrong] + 1) % CLASSES
    streams = {"x": (points.astype(np.float32), offsets), "labels": kinds}
    return sh.ArrayDeserializer(streams), {f"array__{number}" for number in wrong}


def cross_entropy(model: dict, minibatch: sh.Minibatch) -> tuple[np.ndarray, list]:
    """Return the loss of each sequence, and the sums of the gradients."""
    x, labels = minibatch["x"], minibatch["labels"].values
    means = np.add.reduceat(x.values, x.offsets[:-1]) / x.lengths[:, None]
    logits = means @ model["w"] + model["b"]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(labels))
    losses = -np.log(p[places, labels])
    p[places, labels] -= 1
    return losses, [means.T @ p, p.sum(axis=0)]


def main() -> None:
    """Train, and look into the ledger."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    corpus, wrong = make_corpus(np.random.default_rng(0))
    model = {
        "w": np.zeros((2, CLASSES), np.float32),
        "b": np.zeros(CLASSES, np.float32),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.output or Path(temporary)) / "losses"
        with sh.LossLedger(folder, overwrite=True) as ledger:
            learner = sh.numpy.Adam(model, sh.learning_parameter_schedule(0.02))
            trainer = sh.Trainer(model, cross_entropy, learner, progress_writers=ledger)
            source = sh.MinibatchSource(corpus, max_sweeps=5)
            for minibatch in source.minibatches(500):
                trainer.train_minibatch(minibatch)
            table = ledger.table()
    last_sweep = 4 * source.num_samples_per_sweep
    rows = [row for row in table.to_pylist() if row["nominal_time"] >= last_sweep]
    highest = sorted(rows, key=lambda row: -row["loss"])
    found = {row["id"] for row in highest[: 2 * len(wrong)]} & wrong
    print(f"{table.num_rows} visits in {trainer.consumed.steps} steps")
    print(f"{len(found)} of {len(wrong)} wrong labels lie among the highest losses")


if __name__ == "__main__":
    main()
