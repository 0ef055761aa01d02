"""A plain loop in PyTorch: ragged text, a loss scale, a checkpoint with the place in the data.

    python examples/frameworks/torch_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code; its
samples are pairs of letters. They stand one after the other, without padding, as
`EmbeddingBag` takes them.
"""

import argparse
import inspect
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh

SIZE, SWEEPS = 4096, 4  # samples (pairs of letters) in a minibatch; passes over the corpus


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


class Model(nn.Module):
    """The mean of the pairs' vectors, and a logit."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(128 * 128, 16, include_last_offset=True)
        self.out = nn.Linear(16, 1)

    def forward(self, pairs: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Return a logit for every sequence."""
        return self.out(self.bag(pairs, offsets)).squeeze(-1)


class Run:
    """All that a step changes, and the losses so far."""

    def __init__(self, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = Model().to(device)
        self.opt = sh.LossScaleOptimizer(torch.optim.Adam(self.model.parameters(), 0.01))
        self.source = sh.MinibatchSource(read_lines(validation=False), randomization_seed=1)
        self.losses: list[float] = []
        self.parts = {
            "model": self.model,
            "optimizer": self.opt.inner_optimizer,
            "scale": self.opt,
            "source": self.source,
        }

    def loss(self, minibatch: sh.Minibatch) -> torch.Tensor:
        """Return the sum of the loss, divided by the sequences of all workers."""
        item = minibatch.torch(self.device)
        with torch.autocast(self.device, torch.float16):
            logits = self.model(item["pairs"], item["pairs_offsets"])
        loss_sum = nn.functional.binary_cross_entropy_with_logits(
            logits.float(), item["label"], reduction="sum"
        )
        return loss_sum / minibatch.global_num_sequences  # of labels: global_num_label_samples

    def train(self, stop_at: int | None = None) -> None:
        """Train what is left of all sweeps, or up to so many steps."""
        end = SWEEPS * self.source.num_samples_per_sweep
        while self.source.current_position < end:
            for minibatch in self.source.sweep(SIZE):
                loss = self.loss(minibatch)
                self.opt.zero_grad()
                self.opt.get_scaled_loss(loss).backward()
                self.opt.step()
                self.losses.append(loss.item())
                if len(self.losses) == stop_at:
                    return
            print(f"{self.source.current_position:7} samples: {self.validate():.3f}")

    @torch.no_grad()
    def validate(self) -> float:
        """Return the mean loss over the lines that are left out of training."""
        lines = sh.MinibatchSource(read_lines(validation=True), randomize=False)
        sums = [(self.loss(one).item(), one.num_sequences) for one in lines.sweep(SIZE)]
        return sum(loss * count for loss, count in sums) / sum(count for _, count in sums)

    def save(self, path: Path) -> None:
        """Write all that is needed to go on from here."""
        torch.save({name: part.state_dict() for name, part in self.parts.items()}, path)

    def load(self, path: Path) -> None:
        """Go on from what was written."""
        state = torch.load(path, weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    torch.set_num_threads(1)  # with more, sums may be made in another order
    whole, first, rest = Run(), Run(), Run()
    with tempfile.TemporaryDirectory() as folder:
        whole.train()
        first.train(stop_at=50)
        first.save(Path(folder, "checkpoint.pt"))
        rest.load(Path(folder, "checkpoint.pt"))
        rest.train()
    print(f"loss: {whole.losses[0]:.3f} at first, {whole.losses[-1]:.3f} at last")
    print(f"stopped and gone on is the whole: {first.losses + rest.losses == whole.losses}")
    assert first.losses + rest.losses == whole.losses


if __name__ == "__main__":
    main()
