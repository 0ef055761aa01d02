"""What the ranks do in test_distributed.py: each function runs in processes of its own."""

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import DataLoader

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control, coordinate, guard

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6] * 3
SIZE = 12


def make_source(**options: Any) -> sh.MinibatchSource:
    """Make a source of 2 numbers a sample, whose labels are linear in them."""
    offsets = np.cumsum([0, *LENGTHS])
    x = np.random.default_rng(5).normal(size=(int(offsets[-1]), 2)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0], np.float32)).astype(np.float32)
    corpus = sh.ArrayDeserializer(
        {"x": (x, offsets), "labels": (y, offsets)},
        sh.StreamDefs(x=sh.StreamDef(), labels=sh.StreamDef(defines_mb_size=True)),
    )
    return sh.MinibatchSource(corpus, num_threads=0, **options)


class Failing(sh.UserDeserializer):
    """Ten chunks of rows, of which one cannot be read."""

    def __init__(self, chunk: int | None, error: Exception | None = None) -> None:
        self._chunk, self._error = chunk, error

    def stream_infos(self) -> sh.StreamDefs:
        return sh.StreamDefs(x=sh.StreamDef(shape=(), dtype=np.int64))

    def num_chunks(self) -> int:
        return 10

    def chunk_infos(self) -> list[tuple[int, int]]:
        return [(8, 8)] * 10

    def sequence_lengths(self, chunk_id: int) -> NDArray[np.int64]:
        return np.ones(8, np.int64)

    def get_chunk(self, chunk_id: int) -> dict[str, NDArray[np.int64]]:
        if chunk_id == self._chunk and self._error is not None:
            raise self._error
        return {"x": np.arange(chunk_id * 8, chunk_id * 8 + 8)}


# The machine may hold a rank up for seconds, and then it is waited for. What is to be found at
# once must be there `IN_TIME`, and so before all this patience has run out.
PATIENT, IN_TIME = 100.0, 60.0


def begin(seconds: float = PATIENT + 20) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))


def hurry(control: Control, limit: float) -> None:
    """Wait no longer than this from now on; before, it is not a rank that would be late."""
    assert control._exchange is not None
    control._exchange.limit = timedelta(seconds=limit)


def raised(action: Callable[[], object]) -> list[str]:
    """Return type and message of what an action raises."""
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


# -- all goes well, or fails together --
def agree(rank: int, num_ranks: int, folder: Path) -> dict[str, Any]:
    """Go through what ranks agree on, and tell what each saw."""
    begin()
    control = Control(PATIENT)
    return {
        "coordinate": coordinate(),
        "differing": raised(lambda: guard(make_source(randomization_seed=rank), control)),
        "alike": raised(lambda: guard(make_source())),
        "shares": shares(control),
        "failure": failure(control, rank, FileNotFoundError(2, "no such chunk", "part-3")),
        "odd failure": failure(control, rank, OddError(1, 2)),
        "both fail": raised(lambda: control.agree(error=KeyError(f"k{rank}"))),
        "has no counts": raised(
            lambda: control.agree(error=KeyError("k1")) if rank else control.agree([1, 2])
        ),
        "parted": raised(lambda: control.next_minibatch(make_source(), SIZE + 9 * rank)),
        "stop": stop(control, rank),
        "sums": [
            control.sum([0.5, rank]),
            control.gather({"rank": rank, "long": "x" * 1000 * rank})
            == [{"rank": 0, "long": ""}, {"rank": 1, "long": "x" * 1000}],
        ],
    }


class OddError(Exception):
    """It has no text, and is made of two numbers."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)


def shares(control: Control) -> list[list[Any]]:
    source = make_source(max_sweeps=2, randomization_seed=3)
    return [
        [share.ids, share.global_num_samples, share.global_num_label_samples, share.num_samples]
        for share in control.minibatches(source, SIZE)
    ]


def failure(control: Control, rank: int, error: Exception) -> list[Any]:
    """Let chunk 3 fail on rank 1 alone, and tell what all raise and where they stand."""
    corpus = Failing(3 if rank == 1 else None, error)
    source = sh.MinibatchSource(corpus, randomize=False, num_threads=0)
    delivered = []

    def train() -> None:
        for share in control.minibatches(source, 8):
            delivered.append(share.nominal_time)  # noqa: PERF401 # it ends with an error

    return [raised(train), delivered, source.current_position]


def stop(control: Control, rank: int) -> list[Any]:
    """Let rank 1 be asked to stop in its third step."""
    source, steps = make_source(), 0
    for _ in control.minibatches(source, SIZE):
        steps += 1
        if rank == 1 and steps == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        if steps == 1:
            signal.signal(signal.SIGTERM, control.request_stop)
    return [steps, source.current_position, control.is_stopped]


# -- loaders --
ROWS = 25


def make_dataset(**options: Any) -> sh.torch.IterableDataset:
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(ROWS)}))
    return sh.torch.IterableDataset(source, 8, to_item=rows_of, **options)


def rows_of(minibatch: sh.Minibatch) -> list[int]:
    rows: list[int] = minibatch["x"].values.tolist()
    return rows


def iterate(rank: int, num_ranks: int, folder: Path) -> dict[str, list[list[int]]]:
    """Iterate in every way with a dataset that was made before there was a group."""
    dataset = make_dataset()
    begin()
    seen = {"plain": list(DataLoader(dataset, batch_size=None))}
    for start in ("fork", "spawn"):
        loader = sh.torch.DataLoader(dataset, num_workers=1, multiprocessing_context=start)
        seen[start] = list(loader)
    loader = sh.torch.DataLoader(dataset)
    first = next(iter(loader))
    dataset.source.load_state_dict(loader.state_dict())
    seen["resumed"] = [first, *loader]
    seen["dealt"] = [raised(lambda: dataset.set_epoch(0))]  # type: ignore[list-item]
    return seen


# -- a rank is lost --
def stalls_in_gather(rank: int, num_ranks: int, folder: Path) -> list[Any]:
    """Stop where the others gather what all have."""
    (folder / f"pid{rank}").write_text(str(os.getpid()))
    begin()
    control = Control(PATIENT)
    if rank == 1:
        while not (folder / "gathers").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGSTOP)
    (folder / "gathers").touch()
    hurry(control, 2.0)
    begun = time.monotonic()
    told = [*raised(lambda: control.gather({"rank": rank})), time.monotonic() - begun]
    os.kill(int((folder / "pid1").read_text()), signal.SIGKILL)
    return told
