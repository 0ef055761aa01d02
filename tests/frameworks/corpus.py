"""What the clients train on, and what each rank writes down of it."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sweephand as sh

SIZE = 8
LENGTHS = {"rows": [1] * 25, "sequences": [3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 8, 7, 3, 2]}
STEPS_BEFORE_STOP = 6  # in the middle of the second sweep
NUM_SWEEPS = 3


def make_loader(kind: str, num_workers: int, **options: Any) -> sh.torch.DataLoader:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS[kind])])
    values = np.arange(offsets[-1])
    x = values.astype(np.float32)[:, None] / len(values)
    corpus = sh.ArrayDeserializer({"x": (x, offsets), "row": (values, offsets)})
    source = sh.MinibatchSource(corpus, randomization_seed=1)
    dataset = sh.torch.IterableDataset(source, SIZE)
    return sh.torch.DataLoader(dataset, num_workers=num_workers, **options)


class Model(nn.Module):
    """A model whose loss does not mind an empty share."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, **rest: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.net(x) - x).square().sum()}


class Notes:
    """The rows that this rank has trained, step by step."""

    def __init__(self, path: Path) -> None:
        self.path = path / f"rank{os.environ['RANK']}.json"
        self.steps: list[list[int]] = []

    def add(self, item: dict[str, torch.Tensor]) -> None:
        self.steps.append(item["row"].tolist())

    def write(self) -> None:
        self.path.write_text(json.dumps(self.steps))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=LENGTHS, default="rows")
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--stop", action="store_true", help="save in the middle, and end")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--torchs", action="store_true", help="take torch's own loader")
    return parser.parse_args()
