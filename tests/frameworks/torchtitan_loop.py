"""torchtitan's own Trainer over packed rows: a small Llama under FSDP2, on CPUs.

usage: torchtitan_loop.py FOLDER STEPS ROWS

It goes on from the last checkpoint in the folder, and ends after so many steps with one. Every
rank writes the rows of its steps, and the losses that torchtitan logs.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.frameworks import on_cpu

on_cpu.torchtitan()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.distributed.tensor import DTensor, distribute_tensor  # noqa: E402
from torchtitan.components.checkpoint import CheckpointManager  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.metrics import MetricsProcessor  # noqa: E402
from torchtitan.components.optimizer import (  # noqa: E402
    LRSchedulersContainer,
    default_adamw,
)
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.models.llama3 import model_registry  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

import sweephand as sh  # noqa: E402
import sweephand.torch  # noqa: E402

ROW, GLOBAL_ROWS, ALL_STEPS = 32, 8, 8


class Loader(sh.torch.torchtitan.DataLoader, BaseDataLoader):
    """What a user of torchtitan writes, and a note of what it hands out."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        seed: int = 1

    def __init__(self, config: Config, *, seq_len: int, **runtime: Any) -> None:
        draw = np.random.default_rng(0)
        walks = [draw.integers(0, 5, n).cumsum() % 2000 for n in draw.integers(2, 80, 300)]
        corpus = sh.ArrayDeserializer({"tokens": walks})
        layout = sh.Packed(seq_len, split_long="split")
        source = sh.MinibatchSource(corpus, layout=layout, randomization_seed=config.seed)
        super().__init__(source, seq_len=seq_len, **runtime)
        self.notes: list[list[int]] = []

    def __iter__(self) -> Iterator[Any]:
        for inputs, labels in super().__iter__():
            self.notes += inputs["input"].tolist()
            yield inputs, labels


class NoTokenizer(BaseTokenizer):
    """Stands for a tokenizer, which nobody asks here."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Config, **options: Any) -> None:
        self.eos_id = 0

    def encode(self, *args: Any, **options: Any) -> list[int]:
        raise NotImplementedError

    def decode(self, *args: Any, **options: Any) -> str:
        raise NotImplementedError

    def get_vocab_size(self) -> int:
        raise NotImplementedError


def same_weights(model: torch.nn.Module) -> None:
    """Draw the weights as one rank does: DTensor draws shards on a CPU by their rank."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            whole = torch.randn(weight.shape, generator=draw) * 0.02
            if weight.dim() == 1:
                whole += 1  # of a norm
            if isinstance(weight, DTensor):
                whole = distribute_tensor(whole, weight.device_mesh, weight.placements)
            weight.copy_(whole)


def main() -> None:
    folder, steps, rows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    losses: list[float] = []

    def note(self: Any, step: int, global_avg_loss: float, *rest: Any, **more: Any) -> None:
        losses.append(global_avg_loss)

    MetricsProcessor.log = note
    config = Trainer.Config(
        model_spec=model_registry("debugmodel", attn_backend="flex"),
        loss=CrossEntropyLoss.Config(global_vocab_size=2048),
        optimizer=default_adamw(lr=1e-3),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),
        training=TrainingConfig(
            local_batch_size=rows,
            global_batch_size=GLOBAL_ROWS,
            seq_len=ROW,
            steps=ALL_STEPS,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,
        ),
        parallelism=ParallelismConfig(spmd_backend="partial_dtensor"),
        dataloader=Loader.Config(),
        tokenizer=NoTokenizer.Config(),
        metrics=MetricsProcessor.Config(log_freq=1),
        checkpoint=CheckpointManager.Config(
            enable=True, interval=ALL_STEPS, last_save_model_only=False
        ),
        dump_folder=str(folder),
    )
    trainer = Trainer(config)
    same_weights(trainer.model_parts[0])
    config.training.steps = steps
    trainer.train()
    found = {"rows": trainer.dataloader.notes, "losses": losses}
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))
    trainer.close()


if __name__ == "__main__":
    main()
