"""A plain loop in PyTorch: autocast, a loss scale, and a checkpoint with the place in the data.

    python examples/torch_loop.py

The task: of every number of a sequence, tell whether the sum so far is positive. A GRU has to
remember it.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import sweephand as sh


def make_corpus(num_sequences: int) -> sh.ArrayDeserializer:
    """Make sequences of 2 to 20 numbers, with a label for each of them."""
    rng = np.random.default_rng(0)
    x = [
        rng.standard_normal((n, 1)).astype(np.float32)
        for n in rng.integers(2, 21, num_sequences)
    ]
    labels = [(np.cumsum(one) > 0).astype(np.float32) for one in x]
    return sh.ArrayDeserializer({"x": x, "labels": labels})


class Model(nn.Module):
    """One number in, one logit out, for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(1, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (sequences, longest)."""
        return self.out(self.gru(x)[0]).squeeze(-1)


class Run:
    """All that a step changes."""

    def __init__(self, corpus: sh.ArrayDeserializer) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.opt = sh.LossScaleOptimizer(torch.optim.AdamW(self.model.parameters(), lr=0.01))
        self.source = sh.MinibatchSource(corpus, randomization_seed=1)

    def step(self) -> float:
        """Train one minibatch and return its loss per sample."""
        minibatch = self.source.next_minibatch(256)
        x = torch.from_numpy(minibatch["x"].asarray())
        labels = torch.from_numpy(minibatch["labels"].asarray())
        is_there = torch.from_numpy(minibatch["labels"].mask) > 0
        self.opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            logits = self.model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits.float()[is_there], labels[is_there]
        )
        self.opt.get_scaled_loss(loss).backward()
        self.opt.unscale_()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        return loss.item()

    def save(self, path: Path) -> None:
        """Write all that is needed to go on from here."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.opt.inner_optimizer.state_dict(),
            "scale": self.opt.state_dict(),
            "source": self.source.state_dict(),
        }
        torch.save(state, path)

    def load(self, path: Path) -> None:
        """Go on from what was written."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.opt.inner_optimizer.load_state_dict(state["optimizer"])
        self.opt.load_state_dict(state["scale"])
        self.source.load_state_dict(state["source"])


def main() -> None:
    """Train, and train the second half again from where it was saved."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--sequences", type=int, default=5000)
    arguments.add_argument("--steps", type=int, default=400)
    options = arguments.parse_args()
    torch.set_num_threads(1)  # with more, sums may be made in another order
    corpus = make_corpus(options.sequences)
    run, again = Run(corpus), Run(corpus)
    half = options.steps // 2
    with tempfile.TemporaryDirectory() as folder:
        losses = [run.step() for _ in range(half)]
        run.save(Path(folder, "checkpoint.pt"))
        losses += [run.step() for _ in range(half)]
        again.load(Path(folder, "checkpoint.pt"))
        repeated = [again.step() for _ in range(half)]
    print(f"loss: {losses[0]:.3f} at first, {np.mean(losses[-20:]):.3f} at last")
    print(f"the second half again, from its checkpoint: {repeated == losses[half:]}")
    assert repeated == losses[half:]


if __name__ == "__main__":
    main()
