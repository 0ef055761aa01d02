"""A plain loop in NumPy: float16 under a loss scale, saved in the middle and gone on exactly.

    python examples/numpy_loop.py

The task: of every number of a sequence, tell whether the sum so far is positive.
"""

import argparse
import copy
from itertools import pairwise

import numpy as np

import sweephand as sh


def make_corpus(num_sequences: int) -> sh.ArrayDeserializer:
    """Make sequences of 2 to 20 numbers, each sample with the sum so far, and labels."""
    rng = np.random.default_rng(0)
    offsets = np.cumsum([0, *rng.integers(2, 21, num_sequences)])
    x = rng.standard_normal((offsets[-1], 2)).astype(np.float32)
    for begin, end in pairwise(offsets):
        x[begin:end, 1] = np.cumsum(x[begin:end, 0])
    labels = (x[:, 1] > 0).astype(np.float32)
    return sh.ArrayDeserializer({"x": (x, offsets), "labels": (labels, offsets)})


class Run:
    """All that a step changes: weights with their optimizer, and the place in the data."""

    def __init__(self, corpus: sh.ArrayDeserializer) -> None:
        self.w = np.zeros(2, np.float16)  # float32 weights stand behind it
        schedule = sh.learning_parameter_schedule(
            [0.05, 0.01], minibatch_size=64, epoch_size=20_000
        )
        self.opt = sh.LossScaleOptimizer(sh.numpy.Adam({"w": self.w}, schedule))
        self.source = sh.MinibatchSource(corpus, randomization_seed=1)

    def step(self) -> float:
        """Train one minibatch and return its loss per sample."""
        minibatch = self.source.next_minibatch(64)
        x, labels = minibatch["x"].values.astype(np.float16), minibatch["labels"].values
        p = 1 / (1 + np.exp(-(x @ self.w).astype(np.float32)))
        loss = -np.log(np.where(labels > 0, p, 1 - p) + 1e-7).sum()
        scale = self.opt.get_scaled_loss(1.0)  # what is differentiated is the scaled loss
        error = (p - labels) * scale
        with np.errstate(over="ignore"):  # it is found, and the step is skipped
            gradients = error[:, None].astype(np.float16) * x
        gradient = gradients.sum(axis=0, dtype=np.float32)
        self.opt.update([gradient], minibatch.num_samples, minibatch.sweeps_ended)
        return float(loss) / minibatch.num_samples

    def state(self) -> dict[str, object]:
        """Return all that is needed to go on from here."""
        return {
            "w": self.w.copy(),
            "learner": copy.deepcopy(self.opt.inner_optimizer.state_dict()),
            "scale": self.opt.state_dict(),
            "source": self.source.state_dict(),
        }

    def restore(self, state: dict[str, object]) -> None:
        """Go on from a state."""
        self.w[:] = state["w"]
        self.opt.inner_optimizer.load_state_dict(state["learner"])
        self.opt.load_state_dict(state["scale"])
        self.source.load_state_dict(state["source"])


def main() -> None:
    """Train, and train the second half again from where it was saved."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sequences", type=int, default=5000)
    arguments.add_argument("--steps", type=int, default=1000)
    options = arguments.parse_args()
    corpus = make_corpus(options.sequences)
    run = Run(corpus)
    half = options.steps // 2
    losses = [run.step() for _ in range(half)]
    state = run.state()
    losses += [run.step() for _ in range(half)]
    again = Run(corpus)
    again.restore(state)
    repeated = [again.step() for _ in range(half)]
    print(f"loss: {losses[0]:.3f} at first, {np.mean(losses[-20:]):.3f} at last")
    print(f"scale: {run.opt.loss_scale:g}")
    print(f"the second half again, from its saved state: {repeated == losses[half:]}")
    assert repeated == losses[half:]
    assert np.array_equal(run.w, again.w)


if __name__ == "__main__":
    main()
