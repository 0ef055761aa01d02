"""What a worker of Ray Train does in test_ray.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.torch.ranks import SIZE, make_source

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control, guard

STEPS = 5  # between two reports


def train(config: dict[str, Any]) -> None:
    """Train from the last checkpoint on, until there were two workers, one, and two again."""
    journal = Path(config["journal"])
    source = make_source(randomization_seed=5)
    weights = torch.zeros(1)
    has_begun = sh.ray.restore(source, lambda at: weights.copy_(torch.load(at / "weights")))
    count, rank = sh.ray.coordinate()
    if rank == 0:
        with (journal / "lives").open("a") as lives:
            lives.write(json.dumps([count, source.current_position]) + "\n")
    guard(source)

    def save(folder: Path) -> None:
        if rank == 0:
            torch.save(weights, folder / "weights")

    was_alone = (journal / "alone").exists()
    with Control(20.0) as control:
        for step, share in enumerate(control.minibatches(source, SIZE), 1):
            total = torch.tensor([float(share.num_samples)])
            dist.all_reduce(total)
            weights += total
            told = [share.nominal_time, count, share.ids]
            name = f"{share.nominal_time}-{rank}-of-{count}.json"
            (journal / name).write_text(json.dumps(told))
            if step % STEPS:
                continue
            metrics = {"weights": weights.item(), "position": source.current_position}
            sh.ray.report(source, metrics, save)
            if count == 1:
                (journal / "alone").touch()
            (journal / "reported").touch()
            if was_alone and count == 2 and has_begun:
                break
