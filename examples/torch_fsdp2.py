"""Train a sharded model (FSDP2) on `Trainer`, save its shards, stop, and go on exactly.

    torchrun --nproc-per-node 2 examples/torch_fsdp2.py

Packed rows of tokens; every rank has a part of each layer, and its share of the rows. The
checkpoint is that of ``torch.distributed.checkpoint``: each rank writes its shards, and another
number of ranks may go on from them.
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
    import torch.distributed.checkpoint as dcp
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install 'sweephand[torch]'")


import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import coordinate, guard

ROW, ROWS, SYMBOLS = 64, 8, 50


def make_source() -> sh.MinibatchSource:
    """Return random walks over symbols, in packed rows."""
    draw = np.random.default_rng(0)
    walks = [
        (draw.integers(SYMBOLS) + draw.integers(0, 3, draw.integers(4, ROW)).cumsum()) % SYMBOLS
        for _ in range(600)
    ]
    corpus = sh.ArrayDeserializer({"tokens": walks})
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW), randomization_seed=1)


class NextToken(nn.Module):
    """Predicts a token from the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, 32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, SYMBOLS))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits, (tokens, symbols)."""
        return self.layers(self.embedding(tokens.flatten()))


def cross_entropy(model: nn.Module, share: sh.Minibatch) -> torch.Tensor:
    """Return the sum of the loss over this rank's labels."""
    tokens = share["tokens"]
    labels = torch.from_numpy(tokens.labels(ignore_index=-100))
    return nn.functional.cross_entropy(
        model(tokens.torch()), labels.flatten(), ignore_index=-100, reduction="sum"
    )


class Training:
    """A sharded model in its trainer, and the source."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        model = NextToken()
        mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
        fully_shard(model.layers, mesh=mesh)
        fully_shard(model, mesh=mesh)
        learner = sh.torch.Learner(torch.optim.AdamW(model.parameters()), 1e-2)
        self.model = model
        self.trainer = sh.Trainer(model, cross_entropy, learner)
        self.source = make_source()
        self.share = coordinate(mesh)
        self.parts = {"trainer": self.trainer, "source": self.source}

    def train(self, steps: int) -> None:
        """Take steps; the trainer divides by the next tokens of all ranks."""
        for _ in range(steps):
            share = self.source.next_minibatch(ROWS * ROW, None, None, *self.share)
            self.trainer.train_minibatch(share, share.global_num_label_samples)


def main() -> None:
    """Train the whole, train and stop and go on, and compare."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    folder = arguments.parse_args().folder / "torch_fsdp2"
    if "RANK" not in os.environ:
        sys.exit("ranks are started by torchrun --nproc-per-node 2 examples/torch_fsdp2.py")
    dist.init_process_group("gloo")
    # Saves go on while others train, so they meet in a group of their own.
    saving = dist.new_group(backend="gloo")
    whole, first, rest = Training(), Training(), Training()
    guard(whole.source)
    whole.train(20)
    first.train(12)
    saved = dcp.async_save(first.parts, checkpoint_id=folder, process_group=saving)
    first.train(3)  # nobody waits for the disk, and these are not saved
    saved.result()
    dcp.load(rest.parts, checkpoint_id=folder)
    rest.train(8)
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one.to_local(), other.to_local())
    if dist.get_rank() == 0:
        loss = rest.trainer.previous_minibatch_loss_average
        print(f"ranks: {dist.get_world_size()}, loss {loss:.2f}; gone on is the whole")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
