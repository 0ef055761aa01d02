"""Train replicas on many processes by hand, stop, and go on exactly.

    torchrun --nproc-per-node 2 examples/torch_ddp.py

Sequences of different lengths, one label a sample. Every rank takes its share of the same
minibatches, and divides by the label samples of all. A run that was stopped in the middle and
gone on with ends with the parameters of the whole one, to the bit. Without torchrun one process
trains on the same minibatches.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control, coordinate, guard

SIZE = 256  # samples of a minibatch, over all ranks


def make_source() -> sh.MinibatchSource:
    """Return sequences of 8 numbers a sample; a label is 1 where the first is the largest."""
    draw = np.random.default_rng(0)
    offsets = np.cumsum([0, *draw.integers(1, 40, 500)])
    x = draw.normal(size=(int(offsets[-1]), 8)).astype(np.float32)
    labels = (x.argmax(axis=1) == 0).astype(np.float32)
    streams = sh.StreamDefs(x=sh.StreamDef(), labels=sh.StreamDef(defines_mb_size=True))
    corpus = sh.ArrayDeserializer({"x": (x, offsets), "labels": (labels, offsets)}, streams)
    return sh.MinibatchSource(corpus, randomization_seed=1, max_sweeps=2)


class Training:
    """A model with its optimizer and source, at some place of the data."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
        self.device, self.workers = device, coordinate()[0]
        self.model = DistributedDataParallel(module) if self.workers > 1 else module
        self.opt = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.source = make_source()
        self.parts = {"model": self.model, "opt": self.opt, "source": self.source}

    def train(self, control: Control, stop_at: int | None = None) -> None:
        """Train what is left of the data, or up to a step at which one rank asks to stop."""
        for step, share in enumerate(control.minibatches(self.source, SIZE), 1):
            data = share.torch(self.device)
            logits = self.model(data["x"]).squeeze(-1)
            lost = nn.functional.binary_cross_entropy_with_logits(
                logits, data["labels"], reduction="sum"
            )
            # DDP averages over ranks, so that this is the mean over all labels of the step.
            loss = lost * self.workers / share.global_num_label_samples
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if step == stop_at and control.rank == 0:
                control.request_stop()  # as a handler of SIGTERM would

    def save(self, path: Path) -> None:
        """Save on one rank: the state of the source is the same on all."""
        if coordinate()[1] == 0:
            torch.save({name: part.state_dict() for name, part in self.parts.items()}, path)

    def load(self, path: Path) -> None:
        """Go on from there, with as many ranks or others."""
        for name, state in torch.load(path, map_location=self.device).items():
            self.parts[name].load_state_dict(state)


def main() -> None:
    """Train the whole, train and stop and go on, and compare."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    path = arguments.parse_args().folder / "torch_ddp.pt"
    device = torch.device("cpu")
    if "RANK" in os.environ:
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    whole, first, rest = (Training(device) for _ in range(3))
    guard(whole.source)
    with Control(limit=60.0) as control:
        whole.train(control)
    with Control(limit=60.0) as control:
        first.train(control, stop_at=10)
        first.save(path)
        control.sum([0])  # all wait for what one saves
    rest.load(path)
    with Control(limit=60.0) as control:
        rest.train(control)
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)
    if coordinate()[1] == 0:
        print(f"ranks: {whole.workers}; stopped and gone on is the whole")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
