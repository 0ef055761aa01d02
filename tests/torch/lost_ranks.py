"""What four ranks do in test_lost_ranks.py: one of them is lost, and the others name it."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.torch.ranks import PATIENT, SIZE, begin, hurry, make_source, raised

from sweephand.torch.distributed import Control


def lose(rank: int, lost: int, folder: Path, number: int) -> list[Any]:
    """Train until a rank is killed or stopped in a step; return what the others raise."""
    (folder / f"pid{rank}").write_text(str(os.getpid()))
    begin()
    told: list[Any] = []
    try:
        with Control(PATIENT) as control:
            for step, share in enumerate(control.minibatches(make_source(), SIZE)):
                dist.all_reduce(torch.ones(3) * share.num_samples)
                if step == 3:
                    hurry(control, 3.0)
                    if rank == lost:
                        os.kill(os.getpid(), number)
    except Exception as error:
        told = [type(error).__name__, str(error), list(getattr(error, "ranks", []))]
    (folder / f"told{lost}-{number}-{rank}").touch()
    while number == signal.SIGSTOP and len(list(folder.glob(f"told{lost}-{number}-*"))) < 3:
        time.sleep(0.01)  # connections end with its process
    with suppress(ProcessLookupError):
        os.kill(int((folder / f"pid{lost}").read_text()), signal.SIGKILL)
    return told


def killed_0(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    return lose(rank, 0, folder, signal.SIGKILL)


def killed_2(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    return lose(rank, 2, folder, signal.SIGKILL)


def stopped_0(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    return lose(rank, 0, folder, signal.SIGSTOP)


def stopped_2(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    return lose(rank, 2, folder, signal.SIGSTOP)


def raises_0(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    """Raise on the rank that has the store, whose process ends then."""
    begin()
    return raised(lambda: _raise_on_0(rank))


def _raise_on_0(rank: int) -> None:
    with Control(PATIENT) as control:
        for step, _ in enumerate(control.minibatches(make_source(), SIZE)):
            if rank == 0 and step == 3:
                raise ValueError("a shape is wrong")
