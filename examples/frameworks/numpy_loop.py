"""A plain loop in NumPy: ragged text, a learner, and a checkpoint with the place in the data.

    python examples/frameworks/numpy_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code; its
samples are pairs of letters, and the model is a weight for each of the pairs.
"""

import argparse
import inspect
import json
import tarfile
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh

SIZE, SWEEPS = 4096, 4  # samples (pairs of letters) in a minibatch; passes over the corpus
NUM_PAIRS = 128 * 128


def read_lines(*, validation: bool) -> sh.ArrayDeserializer:
    """Return the lines of two modules as pairs of letters, every tenth for validation."""
    pairs, labels = [], []
    for label, module in enumerate((argparse, tarfile)):
        for number, line in enumerate(inspect.getsource(module).splitlines()):
            text = np.array([ord(letter) % 128 for letter in line.strip()])
            if len(text) > 1 and (number % 10 == 0) == validation:
                pairs.append(text[:-1] * 128 + text[1:])
                labels.append(np.float32(label))
    return sh.ArrayDeserializer({"pairs": pairs, "label": np.array(labels)})


class Run:
    """Weights with their learner, the place in the data, and the losses so far."""

    def __init__(self) -> None:
        self.weights = np.zeros(NUM_PAIRS, np.float32)
        self.learner = sh.numpy.Adam({"weights": self.weights}, 0.05)
        self.source = sh.MinibatchSource(read_lines(validation=False), randomization_seed=1)
        self.losses: list[float] = []

    def loss(self, minibatch: sh.Minibatch) -> tuple[float, np.ndarray]:
        """Return the sum of the loss over the sequences, and its gradient."""
        pairs, labels = minibatch["pairs"], minibatch["label"].values
        scores = np.add.reduceat(self.weights[pairs.values], pairs.offsets[:-1])
        guesses = 1 / (1 + np.exp(-scores))
        loss = -np.log(np.where(labels > 0, guesses, 1 - guesses) + 1e-7).sum()
        errors = np.repeat(guesses - labels, pairs.lengths)  # of every sample its sequence's
        return float(loss), np.bincount(pairs.values, errors, NUM_PAIRS).astype(np.float32)

    def train(self, stop_at: int | None = None) -> None:
        """Train what is left of all sweeps, or up to so many steps."""
        end = SWEEPS * self.source.num_samples_per_sweep
        while self.source.current_position < end:
            for minibatch in self.source.sweep(SIZE):
                loss, gradient = self.loss(minibatch)
                self.learner.update([gradient], minibatch.num_sequences)
                self.losses.append(loss / minibatch.num_sequences)
                if len(self.losses) == stop_at:
                    return
            print(f"{self.source.current_position:7} samples: {self.validate():.3f}")

    def validate(self) -> float:
        """Return the mean loss over the lines that are left out of training."""
        lines = sh.MinibatchSource(read_lines(validation=True), randomize=False)
        losses = [self.loss(minibatch)[0] for minibatch in lines.sweep(SIZE)]
        return sum(losses) / lines.num_sequences_per_sweep

    def save(self, path: Path) -> None:
        """Write all that is needed to go on from here."""
        arrays = {"weights": self.weights, "learner": self.learner.state_dict()}
        np.save(path / "model.npy", arrays, allow_pickle=True)
        (path / "source.json").write_text(json.dumps(self.source.state_dict()))

    def load(self, path: Path) -> None:
        """Go on from what was written."""
        arrays = np.load(path / "model.npy", allow_pickle=True).item()
        self.weights[:] = arrays["weights"]
        self.learner.load_state_dict(arrays["learner"])
        self.source.load_state_dict(json.loads((path / "source.json").read_text()))


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    whole, first, rest = Run(), Run(), Run()
    with tempfile.TemporaryDirectory() as folder:
        whole.train()
        first.train(stop_at=50)
        first.save(Path(folder))
        rest.load(Path(folder))
        rest.train()
    print(f"loss: {whole.losses[0]:.3f} at first, {whole.losses[-1]:.3f} at last")
    print(f"stopped and gone on is the whole: {first.losses + rest.losses == whole.losses}")
    assert first.losses + rest.losses == whole.losses
    assert np.array_equal(rest.weights, whole.weights)


if __name__ == "__main__":
    main()
