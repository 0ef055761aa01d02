"""A Lightning loop over our source: its checkpoints hold the place, and resume exactly.

    python examples/lightning_loop.py

Needs: pip install lightning
"""

import argparse
import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

import sweephand as sh
import sweephand.torch

try:
    import lightning
except ModuleNotFoundError:
    raise SystemExit("this example needs Lightning: pip install lightning") from None

SIZE = 128  # samples in a minibatch


def make_source() -> sh.MinibatchSource:
    """Make points with labels, served for ever."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 4)).astype(np.float32)
    return sh.MinibatchSource(
        sh.ArrayDeserializer({"x": x, "labels": (x.prod(axis=1) > 0).astype(np.float32)})
    )


class Classifier(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
        self.losses: list[float] = []

    def training_step(self, item: dict[str, torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of a minibatch."""
        logits = self.net(item["x"]).squeeze(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, item["labels"])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), 0.01)


def fit(steps: int, path: Path, checkpoint: Path | None = None) -> list[float]:
    """Train up to so many steps, save, and return the losses."""
    torch.manual_seed(0)
    module = Classifier()
    loader = sh.torch.DataLoader(sh.torch.IterableDataset(make_source(), SIZE))
    trainer = lightning.Trainer(
        max_steps=steps, max_epochs=-1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    trainer.fit(module, loader, ckpt_path=checkpoint)
    trainer.save_checkpoint(path)
    return module.losses


def main() -> None:
    """Train, and train the second half again from the checkpoint of the first."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--steps", type=int, default=400)
    steps = arguments.parse_args().steps
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)  # with more, sums may be made in another order
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder, "half.ckpt")
        losses = fit(steps, Path(folder, "end.ckpt"))
        first = fit(steps // 2, half)
        second = fit(steps, Path(folder, "end.ckpt"), checkpoint=half)
    print(f"loss: {losses[0]:.3f} at first, {np.mean(losses[-20:]):.3f} at last")
    print(f"two halves are the whole: {first + second == losses}")
    assert first + second == losses


if __name__ == "__main__":
    main()
