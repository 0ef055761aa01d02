"""A language model in Lightning: packed rows, and checkpoints that hold the place in the data.

    python examples/frameworks/lightning_loop.py

The task: what is the next letter of a paragraph of Python's code? Whole paragraphs share rows
of 128 letters; a mask keeps them apart.

Needs: pip install lightning
"""

import argparse
import inspect
import logging
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np

import sweephand as sh

try:
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch import nn
except ModuleNotFoundError:
    raise SystemExit("this example needs Lightning: pip install lightning") from None

import sweephand.torch

ROW, ROWS, SWEEPS = 128, 16, 3  # letters in a row, rows in a minibatch, passes over the corpus


def make_loader(*, validation: bool = False) -> sh.torch.DataLoader:
    """Serve the paragraphs of a module in packed rows, every tenth for validation."""
    tokens = [
        np.array([ord(letter) % 128 for letter in paragraph])
        for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.getsource(argparse)))
        if (number % 10 == 0) == validation
    ]
    source = sh.MinibatchSource(
        sh.ArrayDeserializer({"tokens": tokens}),
        randomize=not validation,
        layout=sh.Packed(ROW, split_long="split"),
    )
    dataset = sh.torch.IterableDataset(source, ROWS * ROW, to_item=to_item)
    # How many rows a sweep has is not known beforehand, so Lightning reads one item ahead.
    return sh.torch.DataLoader(dataset, read_ahead=1)


def to_item(minibatch: sh.Minibatch) -> dict[str, torch.Tensor]:
    """Return what the model takes: (rows, row length), and the mask of every row."""
    return {
        "tokens": minibatch["tokens"].torch(),
        "positions": sh.torch.to_tensor(minibatch.position_ids),
        "mask": sh.torch.attention_mask(minibatch).squeeze(1),
        "labels": sh.torch.to_tensor(minibatch["tokens"].labels()),
        "num_labels": torch.tensor(minibatch.global_num_label_samples),  # of all ranks
    }


class Paragraphs(lightning.LightningDataModule):
    """The loaders; what `state_dict` returns is in every checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.train, self.validation = make_loader(), make_loader(validation=True)

    def train_dataloader(self) -> sh.torch.DataLoader:
        """Return what is trained on."""
        return self.train

    def val_dataloader(self) -> sh.torch.DataLoader:
        """Return what is left out of training."""
        return self.validation

    def state_dict(self) -> dict[str, object]:
        """Return the place in the data."""
        return self.train.state_dict()

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from a place in the data."""
        self.train.load_state_dict(state)


class Model(lightning.LightningModule):
    """A transformer of one layer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens = nn.Embedding(128, width)
        self.positions = nn.Embedding(ROW, width)
        self.layer = nn.TransformerEncoderLayer(width, 1, 4 * width, 0.0, batch_first=True)
        self.out = nn.Linear(width, 128)
        self.losses: list[float] = []

    def loss(self, item: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the sum over this rank's letters, divided by the letters of all ranks."""
        x = self.tokens(item["tokens"]) + self.positions(item["positions"])
        logits = self.out(self.layer(x, src_mask=~item["mask"]))
        loss_sum = nn.functional.cross_entropy(
            logits.flatten(0, 1), item["labels"].flatten(), reduction="sum"
        )
        # DDP averages over ranks, so that this is the mean over all labels of the step.
        return loss_sum * self.trainer.world_size / item["num_labels"]

    def training_step(self, item: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of a minibatch."""
        loss = self.loss(item)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, item: dict[str, torch.Tensor], index: int) -> None:
        """Log the loss of a minibatch, weighted by its letters."""
        letters = int(item["num_labels"])
        self.log("validation", self.loss(item), batch_size=letters, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), 3e-3)


def train(folder: Path, resume: Path | None = None) -> list[float]:
    """Train all sweeps, or what is left of them at a checkpoint; return the losses."""
    torch.manual_seed(0)
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=SWEEPS,
        num_sanity_val_steps=0,  # it would take two items of the first validation
        callbacks=[
            ModelCheckpoint(folder, "{epoch}", save_top_k=-1),
            ModelCheckpoint(folder, "{step}", save_top_k=-1, every_n_train_steps=70),
        ],
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, datamodule=Paragraphs(), ckpt_path=resume)
    print(f"{trainer.global_step} steps: {trainer.callback_metrics['validation']:.3f}")
    return model.losses


def main() -> None:
    """Train, stop in the middle of a sweep, and go on from the checkpoint."""
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)  # with more, sums may be made in another order
    with tempfile.TemporaryDirectory() as folder:
        whole = train(Path(folder))
        print(sorted(path.name for path in Path(folder).iterdir()))
        for name in ("step=70.ckpt", "epoch=1.ckpt"):
            rest = train(Path(folder, "again"), Path(folder, name))
            print(f"from {name} on all is the same: {rest == whole[-len(rest) :]}")
            assert rest == whole[-len(rest) :]
    print(f"loss: {whole[0]:.3f} at first, {whole[-1]:.3f} at last")


if __name__ == "__main__":
    main()
