"""A loop in Accelerate: padded text, and a checkpoint that holds the place in the data.

    python examples/frameworks/accelerate_loop.py
    accelerate launch --num_processes 2 examples/frameworks/accelerate_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code, its
samples are letters, padded to a multiple of 8.

Needs: pip install accelerate
"""

import argparse
import inspect
import tarfile
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh

try:
    import torch
    from accelerate import Accelerator
    from accelerate.utils import broadcast_object_list, send_to_device
    from torch import nn
except ModuleNotFoundError:
    raise SystemExit("this example needs Accelerate: pip install accelerate") from None

import sweephand.torch

SIZE, SWEEPS = 4096, 4  # letters in a minibatch, over all processes; passes over the corpus


def make_loader(*, validation: bool) -> sh.torch.DataLoader:
    """Serve the lines of two modules, every tenth for validation."""
    texts, labels = [], []
    for label, module in enumerate((argparse, tarfile)):
        for number, line in enumerate(inspect.getsource(module).splitlines()):
            if line.strip() and (number % 10 == 0) == validation:
                texts.append(np.array([ord(letter) % 128 for letter in line.strip()]))
                labels.append(np.float32(label))
    corpus = sh.ArrayDeserializer({"text": texts, "label": np.array(labels)})
    layout = sh.Padded(multiple_of=8)
    source = sh.MinibatchSource(corpus, randomize=not validation, layout=layout)
    return sh.torch.DataLoader(sh.torch.IterableDataset(source, SIZE, to_item=to_item))


def to_item(minibatch: sh.Minibatch) -> dict[str, torch.Tensor]:
    """Return this process' share; `samples` are those of all processes."""
    text = minibatch["text"]
    return {
        "text": text.torch(),
        "mask": sh.torch.to_tensor(text.valid_mask(np.float32)),
        "label": torch.from_numpy(minibatch["label"].values),
        "samples": torch.tensor(minibatch.global_num_samples),
    }


class Model(nn.Module):
    """Letters and their neighbours, the mean over a line, and a logit."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(128, width)
        self.pairs = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, 1)

    def forward(self, text: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return a logit for every sequence."""
        x = self.letters(text) * mask[..., None]
        x = self.pairs(x.transpose(1, 2)).relu() * mask[:, None]
        return self.out(x.sum(2) / mask.sum(1, keepdim=True)).squeeze(1)


class Run:
    """What Accelerate prepares, saves and restores, and the losses so far."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.accelerator = Accelerator()
        model, loader = Model(), make_loader(validation=False)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            model, optimizer, loader
        )
        self.source = loader.dataset.source
        self.losses: list[float] = []

    def loss(self, item: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return this process' part of the loss per letter of a line, over all processes."""
        item = send_to_device(item, self.accelerator.device)  # a no-op on a CPU
        logits = self.model(item["text"], item["mask"])
        letters = item["mask"].sum(1)  # a line counts as many times as it has letters
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, item["label"], letters, reduction="sum"
        )
        return losses / item["samples"]

    def train(self, stop_at: int | None = None) -> None:
        """Train what is left of all sweeps, or up to so many steps."""
        end = SWEEPS * self.source.num_samples_per_sweep
        while self.source.current_position < end:
            for item in self.loader:
                share = self.loss(item)
                self.optimizer.zero_grad()
                # Gradients are averaged over processes, and these are parts of a sum.
                self.accelerator.backward(share * self.accelerator.num_processes)
                self.optimizer.step()
                self.losses.append(self.accelerator.reduce(share.detach(), "sum").item())
                if len(self.losses) == stop_at:
                    return
            self.accelerator.print(
                f"{self.source.current_position:7} samples: {self.validate():.3f}"
            )

    @torch.no_grad()
    def validate(self) -> float:
        """Return the loss per letter over the lines that are left out of training."""
        loss = letters = 0.0
        for item in make_loader(validation=True):
            share = self.accelerator.reduce(self.loss(item), "sum").item()
            loss += share * item["samples"].item()
            letters += item["samples"].item()
        return loss / letters


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    torch.set_num_threads(1)  # with more, sums may be made in another order
    whole, first, rest = Run(), Run(), Run()
    with tempfile.TemporaryDirectory() as folder:
        [folder] = broadcast_object_list([folder])  # that of process 0 for all
        whole.train()
        first.train(stop_at=50)
        first.accelerator.save_state(str(Path(folder, "checkpoint")))
        rest.accelerator.load_state(str(Path(folder, "checkpoint")))
        rest.train()
    same = first.losses + rest.losses == whole.losses
    whole.accelerator.print(
        f"loss: {whole.losses[0]:.3f} at first, {whole.losses[-1]:.3f} at last"
    )
    whole.accelerator.print(f"stopped and gone on is the whole: {same}")
    assert same
    whole.accelerator.end_training()


if __name__ == "__main__":
    main()
