"""What two ranks do in test_faults.py: what is wrong on one is the same error on both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.torch.ranks import PATIENT, SIZE, begin, make_source, raised
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control, coordinate, guard

FILES, ROWS = 4, 64


def alike(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Compare sources that are balanced by what attention costs, and meshes."""
    begin()
    control = Control(PATIENT)

    def compared(balance: object) -> list[str]:
        return raised(lambda: guard(make_source(balance=balance), control))

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    other = init_device_mesh("cpu", (2,), mesh_dim_names=("rows",))
    return {
        "equal": compared(sh.Attention(24_000)),
        "apart": compared(sh.Attention(24_000 + rank)),
        "by name": compared("attention" if rank else sh.Attention()),
        "coordinates": raised(lambda: Control(PATIENT, mesh, "dp" if rank else ())),
        "names": raised(lambda: coordinate(other)),
        "no group": raised(lambda: coordinate("dp")),  # type: ignore[arg-type]
    }


# -- files that one rank lacks --
def files_of(rank: int, folder: Path) -> sh.ParquetDeserializer:
    """Write a rank's own copy of the corpus, and open it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = folder / f"disk{rank}"
    own.mkdir(exist_ok=True)
    paths = [own / f"part-{number}.parquet" for number in range(FILES)]
    for number, path in enumerate(paths):
        values = np.arange(number * ROWS, number * ROWS + ROWS)
        pq.write_table(pa.table({"x": values}), path, row_group_size=16)
    return sh.ParquetDeserializer([str(path) for path in paths], ["x"])


def cannot_open(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Lack a file on rank 1 before the source is opened there; rank 0 waits in its guard."""
    begin()
    begun = time.monotonic()

    def train() -> None:
        with Control(PATIENT) as control:
            corpus = files_of(rank, folder)
            if rank == 1:
                corpus = sh.ParquetDeserializer(str(folder / "none.parquet"), ["x"])
            source = sh.MinibatchSource(corpus, randomize=False)
            guard(source, control)
            for _ in control.minibatches(source, 32):
                return

    if rank == 1:
        train()
    return {"told": raised(train), "seconds": time.monotonic() - begun}


# -- checkpoints --
def torn(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Lose what rank 1 wrote of a checkpoint, and load it; then load one that is whole."""
    from tests.torch.trained import Run, parts_of

    begin()
    run = Run("fsdp")
    run.steps(0, 1)
    for name in ("whole", "torn"):
        dcp.save(parts_of(run), checkpoint_id=folder / name)
    dist.barrier()
    if rank == 0:
        (lost,) = (folder / "torn").glob("__1_*.distcp")
        lost.unlink()
    dist.barrier()
    stood, other = run.source.state_dict(), Run("fsdp")
    told: list[Any] = []
    try:
        dcp.load(parts_of(other), checkpoint_id=folder / "torn")
    except CheckpointException as error:  # no Exception, but a BaseException
        told = [str(error).splitlines()[-1], sorted(error.failures)]
    untouched = other.source.current_position
    dcp.load(parts_of(other), checkpoint_id=folder / "whole")
    return {
        "told": told,
        "untouched": untouched,
        "gone on": other.source.state_dict() == stood,
        "next": sorted(other.source.next_minibatch(SIZE).ids),
    }
