"""DeepSpeed over packed rows: a small language model under ZeRO, stopped and gone on exactly.

    python examples/frameworks/deepspeed_loop.py
    torchrun --nproc-per-node 2 examples/frameworks/deepspeed_loop.py

Every rank makes the same source, and takes its share of the rows of each step. The place is in
DeepSpeed's own checkpoint, as its client state.

Needs: pip install deepspeed
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import sweephand as sh

try:
    import deepspeed
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install deepspeed")

import sweephand.torch

SYMBOLS, ROW, ROWS, MICRO_ROWS, STEPS, STOP = 50, 32, 8, 2, 12, 7


def make_source():
    """Return packed rows of random walks over symbols, in micro-batches of two rows."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(2, ROW, 300)
    walks = [draw.integers(0, 3, length).cumsum() % SYMBOLS for length in lengths]
    corpus = sh.ArrayDeserializer({"tokens": walks})
    layout = sh.Packed(ROW, micro_batch_rows=MICRO_ROWS)
    return sh.MinibatchSource(corpus, layout=layout, randomization_seed=1)


def config(ranks):
    """Return settings; DeepSpeed's own words on sizes are of no use here, but must agree."""
    return {
        "train_batch_size": ROWS,
        "train_micro_batch_size_per_gpu": MICRO_ROWS,
        "gradient_accumulation_steps": ROWS // MICRO_ROWS // ranks,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": 1},
        "steps_per_print": 10**9,
    }


class Training:
    """An engine and its source."""

    def __init__(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(SYMBOLS, 32), nn.Linear(32, SYMBOLS))
        self.ranks, self.rank = sh.torch.distributed.coordinate()
        self.engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=config(self.ranks)
        )
        self.source = make_source()
        self.losses = []

    def step(self):
        """Take a step: micro-batches of one divisor, known before any of them is read."""
        minibatch = self.source.next_minibatch(
            ROWS * ROW, num_data_partitions=self.ranks, partition_index=self.rank
        )
        micro_batches = minibatch.micro_batches()
        # The engine averages over ranks and micro-batches, and this is a mean over labels.
        averaged = self.ranks * len(micro_batches)
        total = torch.zeros(())
        for micro in micro_batches:
            tokens = micro["tokens"]
            logits = self.engine(tokens.torch())
            loss_sum = nn.functional.cross_entropy(
                logits.flatten(0, 1),
                torch.from_numpy(tokens.labels(ignore_index=-100)).flatten(),
                ignore_index=-100,
                reduction="sum",
            )
            loss = loss_sum * averaged / minibatch.global_num_label_samples
            self.engine.backward(loss)
            self.engine.step()
            total += loss.detach() / averaged
        dist.all_reduce(total)
        self.losses.append(total.item())

    def save(self, folder):
        """Save model, optimizer and place."""
        self.engine.save_checkpoint(
            folder, tag="place", client_state={"source": self.source.state_dict()}
        )

    def load(self, folder):
        """Go on from there."""
        _, client_state = self.engine.load_checkpoint(folder, tag="place")
        self.source.load_state_dict(client_state["source"])


def main():
    """Train the whole; train, stop and go on; and compare."""
    torch.set_num_threads(1)
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    os.environ.update(alone | address if "RANK" not in os.environ else {})
    deepspeed.init_distributed(dist_backend="gloo" if not torch.cuda.is_available() else None)
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    whole, first, rest = Training(), Training(), Training()
    for _ in range(STEPS):
        whole.step()
    for _ in range(STOP):
        first.step()
    first.save(folder[0])
    rest.load(folder[0])
    for _ in range(STEPS - STOP):
        rest.step()
    both = first.losses + rest.losses
    if dist.get_rank() == 0:
        losses = " ".join(f"{loss:.6f}" for loss in (whole.losses[0], whole.losses[-1]))
        print(f"ranks: {whole.ranks}, loss from {losses}")
        print(f"stopped and gone on is the whole: {both == whole.losses}")
        print("place:", sorted(path.name for path in Path(folder[0], "place").iterdir()))


if __name__ == "__main__":
    main()
