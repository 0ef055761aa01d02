"""An Accelerate loop over our source: the place in the data is part of its checkpoint.

    python examples/accelerate_loop.py
    accelerate launch --num_processes 2 examples/accelerate_loop.py

Needs: pip install accelerate
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import sweephand as sh

try:
    from accelerate import Accelerator
    from accelerate.utils import broadcast_object_list
except ModuleNotFoundError:
    raise SystemExit("this example needs Accelerate: pip install accelerate") from None

SIZE = 128  # samples in a minibatch, over all processes


def make_source() -> sh.MinibatchSource:
    """Make points with labels, served for ever."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 4)).astype(np.float32)
    return sh.MinibatchSource(
        sh.ArrayDeserializer({"x": x, "labels": (x.prod(axis=1) > 0).astype(np.float32)})
    )


class Run:
    """Model, optimizer and source of this process."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        # The source shares minibatches out by itself, so it is not prepared as a loader is.
        self.accelerator = Accelerator()
        net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        self.net, self.optimizer = self.accelerator.prepare(net, optimizer)
        self.source = make_source()
        self.accelerator.register_for_checkpointing(self.source)

    def step(self) -> float:
        """Train one minibatch, and return its loss per sample over all processes."""
        accelerator = self.accelerator
        processes = accelerator.num_processes
        minibatch = self.source.next_minibatch(
            SIZE, None, None, processes, accelerator.process_index
        )
        x, labels = (minibatch[name].torch(accelerator.device) for name in ("x", "labels"))
        loss = nn.functional.binary_cross_entropy_with_logits(
            self.net(x).squeeze(-1), labels, reduction="sum"
        )
        # Gradients are averaged over processes: the sum of the loss is divided by the samples
        # of all of them, which every process knows.
        share = loss / minibatch.global_num_samples
        self.optimizer.zero_grad()
        accelerator.backward(share * processes)
        self.optimizer.step()
        return accelerator.reduce(share.detach(), "sum").item()


def main() -> None:
    """Train, and train the second half again from the checkpoint of the first."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--steps", type=int, default=400)
    half = arguments.parse_args().steps // 2
    torch.set_num_threads(1)  # with more, sums may be made in another order
    run = Run()
    with tempfile.TemporaryDirectory() as folder:
        [folder] = broadcast_object_list([folder])  # that of process 0 for all
        losses = [run.step() for _ in range(half)]
        run.accelerator.save_state(str(Path(folder, "half")))
        losses += [run.step() for _ in range(half)]
        run.accelerator.load_state(str(Path(folder, "half")))
        repeated = [run.step() for _ in range(half)]
    run.accelerator.print(
        f"loss: {losses[0]:.3f} at first, {np.mean(losses[-20:]):.3f} at last"
    )
    run.accelerator.print(f"the second half again: {repeated == losses[half:]}")
    assert repeated == losses[half:]


if __name__ == "__main__":
    main()
