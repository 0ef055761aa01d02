"""A classifier in skorch over our source: ragged text, interrupted and gone on exactly.

    python examples/frameworks/skorch_loop.py

The task: of which module of Python's library is a line? A sequence is a line of code, its
samples are letters, padded to a multiple of 8.

Needs: pip install skorch
"""

import argparse
import inspect
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import sweephand as sh

try:
    import skorch
    import torch
    from skorch.callbacks import Callback
    from skorch.helper import predefined_split
    from torch import nn
except ModuleNotFoundError:
    raise SystemExit("this example needs skorch: pip install skorch") from None

import sweephand.torch

SIZE, SWEEPS = 4096, 4  # letters in a minibatch; passes over the corpus


def make_dataset(*, validation: bool) -> sh.torch.IterableDataset:
    """Serve the lines of two modules, every tenth for validation."""
    texts, labels = [], []
    for label, module in enumerate((argparse, tarfile)):
        for number, line in enumerate(inspect.getsource(module).splitlines()):
            if line.strip() and (number % 10 == 0) == validation:
                texts.append(np.array([ord(letter) % 128 for letter in line.strip()]))
                labels.append(np.float32(label))
    corpus = sh.ArrayDeserializer({"text": texts, "labels": np.array(labels)})
    layout = sh.Padded(multiple_of=8)
    source = sh.MinibatchSource(corpus, randomize=not validation, layout=layout)
    return sh.torch.IterableDataset(source, SIZE, to_item=to_item)


def to_item(minibatch: sh.Minibatch) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the arguments of the module with the weights of the labels, and the labels."""
    text, labels = minibatch["text"], torch.from_numpy(minibatch["labels"].values)
    mask = sh.torch.to_tensor(text.valid_mask(np.float32))
    weight = torch.full_like(labels, 1 / minibatch.global_num_label_samples)  # of all workers
    return {"text": text.torch(), "mask": mask, "weight": weight}, labels


def make_loader(dataset: sh.torch.IterableDataset, batch_size: int) -> sh.torch.DataLoader:
    """Return what is iterated over in an epoch; skorch's size counts nothing here."""
    return sh.torch.DataLoader(dataset)


class Module(nn.Module):
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


class Net(skorch.NeuralNetBinaryClassifier):
    """A classifier whose loss is a sum over labels, each with its weight."""

    def infer(self, x: Any, **more: Any) -> torch.Tensor:
        """Return the logits."""
        return super().infer({"text": x["text"], "mask": x["mask"]}, **more)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any, training: bool = False) -> Any:
        """Return the loss."""
        return (super().get_loss(y_pred, y_true, X, training) * X["weight"]).sum()


class Stop(Callback):
    """Interrupt training after so many steps, as Ctrl-C would."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_batch_end(self, net: Any, training: bool = False, **_: Any) -> None:
        """Count the steps."""
        self.steps -= training
        if not self.steps:
            raise KeyboardInterrupt


def make_net(callbacks: Any = None) -> Net:
    """Return a classifier whose minibatches are the source's."""
    torch.manual_seed(0)
    return Net(
        Module,
        criterion__reduction="none",
        optimizer=torch.optim.Adam,
        lr=0.01,
        iterator_train=make_loader,
        iterator_valid=make_loader,
        train_split=predefined_split(make_dataset(validation=True)),
        callbacks=callbacks,
    ).initialize()


def losses_of(net: Any) -> list[float]:
    """Return the loss of every step."""
    steps = [step for epoch in net.history for step in epoch["batches"]]
    return [step["train_loss"] for step in steps if "train_loss" in step]


def main() -> None:
    """Train, interrupt another run in the middle of a sweep, and go on from what it saved."""
    torch.set_num_threads(1)  # with more, sums may be made in another order
    whole = make_net().partial_fit(make_dataset(validation=False), epochs=SWEEPS)

    dataset = make_dataset(validation=False)
    first = make_net([Stop(steps=80)]).partial_fit(dataset, epochs=SWEEPS)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "net"))
        first.save_params(path + ".pt", path + "_optimizer.pt", f_history=path + ".json")
        Path(folder, "place.json").write_text(json.dumps(dataset.source.state_dict()))

        rest, dataset = make_net(), make_dataset(validation=False)
        rest.load_params(path + ".pt", path + "_optimizer.pt", f_history=path + ".json")
        dataset.source.load_state_dict(json.loads(Path(folder, "place.json").read_text()))
    sweeps_done = dataset.source.current_position // dataset.source.num_samples_per_sweep
    rest.partial_fit(dataset, epochs=SWEEPS - sweeps_done)
    print(f"loss: {losses_of(whole)[0]:.3f} at first, {losses_of(whole)[-1]:.3f} at last")
    print(f"interrupted and gone on is the whole: {losses_of(rest) == losses_of(whole)}")
    assert losses_of(rest) == losses_of(whole)


if __name__ == "__main__":
    main()
