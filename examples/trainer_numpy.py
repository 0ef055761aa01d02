"""A session with NumPy learners: validation, learning-rate control, checkpoints, progress.

    python examples/trainer_numpy.py

Stop it by Ctrl-C or by a signal and start it again with the same --output: it goes on.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh


class Classifier:
    """A network with one hidden layer: 2 numbers in, 3 classes out."""

    def __init__(self, hidden: int = 32) -> None:
        rng = np.random.default_rng(0)
        self.parameters = {
            "w1": rng.standard_normal((2, hidden)).astype(np.float32),
            "b1": np.zeros(hidden, np.float32),
            "w2": (rng.standard_normal((hidden, 3)) / hidden**0.5).astype(np.float32),
            "b2": np.zeros(3, np.float32),
        }


def cross_entropy(model: Classifier, minibatch: sh.Minibatch) -> tuple[float, float, list]:
    """Return the sums of loss and errors over the minibatch, and those of the gradients."""
    x, labels = minibatch["x"].values, minibatch["labels"].values
    w1, b1, w2, b2 = model.parameters.values()
    hidden = np.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    places = np.arange(len(x))
    loss = -np.log(p[places, labels]).sum()
    errors = (p.argmax(axis=1) != labels).sum()
    p[places, labels] -= 1
    back = (p @ w2.T) * (1 - hidden**2)
    return float(loss), float(errors), [x.T @ back, back.sum(0), hidden.T @ p, p.sum(0)]


def make_source(num_samples: int, seed: int, **limits: int) -> sh.MinibatchSource:
    """Make points of three spirals."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, num_samples)
    radius = rng.uniform(0.1, 1, num_samples)
    angle = 4 * radius + labels * (2 * np.pi / 3) + rng.normal(0, 0.15, num_samples)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
    corpus = sh.ArrayDeserializer({"x": x, "labels": labels})
    return sh.MinibatchSource(corpus, **limits)


def main() -> None:
    """Train, or go on with what was saved."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--samples", type=int, default=400_000, help="to train on")
    arguments.add_argument("--output", type=Path, help="folder; a temporary one by default")
    options = arguments.parse_args()
    model = Classifier()
    with tempfile.TemporaryDirectory() as temporary:
        learner = sh.numpy.Nesterov(
            model.parameters, sh.learning_parameter_schedule(0.1, minibatch_size=32), 0.9
        )
        trainer = sh.Trainer(model, cross_entropy, learner, sh.ProgressPrinter())
        sh.training_session(
            trainer,
            make_source(20_000, seed=0),
            mb_size="32*2 + 128",  # for two epochs 32 samples, then 128
            max_samples=options.samples,
            epoch_size=20_000,
            cv_config=sh.CrossValidationConfig(
                make_source(5_000, seed=1, max_sweeps=1), frequency=20_000, minibatch_size=1000
            ),
            lr_control=sh.LearningRateControl(reduce_if_improve_less_than=0.01),
            checkpoint_config=sh.CheckpointConfig(
                (options.output or Path(temporary)) / "checkpoints", frequency=50_000
            ),
        ).train()
    print(f"{trainer.total_number_of_samples_seen} samples seen")


if __name__ == "__main__":
    main()
