"""What two ranks cost: the control reduction, the loader's share of a step, and scaling.

    OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 benchmarks/ranks.py [ROUNDS]

Each figure is the best and the median of interleaved rounds, the slower rank's. Waits are those
of the clock, and need two cores that are free; processor time is that of all threads of a rank,
which a machine that does other things changes less.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import sweephand as sh
import sweephand.torch
from sweephand.torch.distributed import Control

ROW, ROWS = 2048, 32  # of a global minibatch: 64 Ki tokens
STEP = 5e-3
CLOCK = time.process_time
FEW, STEPS = 50, 60  # reductions and steps in a round


def make_source(**options):
    lengths = np.random.default_rng(0).integers(50, 1500, 40_000)
    tokens = np.zeros(int(lengths.sum()), np.uint16)
    corpus = sh.ArrayDeserializer({"tokens": (tokens, np.cumsum([0, *lengths]))})
    return sh.MinibatchSource(corpus, layout=sh.Packed(ROW), randomization_seed=1, **options)


def timed(action, count, clock=time.perf_counter):
    """Return the seconds of one call, of the slower rank."""
    dist.barrier()
    begun = clock()
    for _ in range(count):
        action()
    seconds = torch.tensor((clock() - begun) / count)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


def busy():
    """Compute for the time of a step, on this rank's core."""
    end = time.perf_counter() + STEP
    while time.perf_counter() < end:
        pass


def reductions(control, rounds):
    """Return microseconds of gloo's own reduction, torch's, and the control's, by name."""
    numbers = torch.zeros(16, dtype=torch.int64)
    gloo = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = dist.AllreduceOptions()
    ways = {
        "gloo's own reduction": lambda: gloo.allreduce([numbers], options).wait(),
        "torch.distributed.all_reduce": lambda: dist.all_reduce(numbers),
        "Control.agree": lambda: control.agree([1, 2]),
    }
    found = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(timed(way, FEW) * 1e6)
    return found


def shares(control, rounds, rank):
    """Return per cent of a step of 5 ms that waiting for a minibatch takes, by kind of step."""
    source = make_source()
    gradients = torch.zeros(1000)
    with_control = control.minibatches(source, ROW * ROWS)
    other = make_source()
    size = (ROW * ROWS, None, None, 2, rank)
    ways = {
        "a device computes; plain loop": (lambda: other.next_minibatch(*size), time.sleep),
        "a device computes; Control": (lambda: next(with_control), time.sleep),
        "the core computes; plain loop": (lambda: other.next_minibatch(*size), busy),
        "the core computes; Control": (lambda: next(with_control), busy),
    }
    found = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (take, compute) in ways.items():
            waited = 0.0

            def step(take=take, compute=compute):
                nonlocal waited
                begun = time.perf_counter()
                take()["tokens"].asarray()
                waited += time.perf_counter() - begun
                compute(*([STEP] if compute is time.sleep else []))
                dist.all_reduce(gradients)  # as training does: ranks come together

            timed(step, STEPS)
            waits = torch.tensor(waited / STEPS)
            dist.all_reduce(waits, dist.ReduceOp.MAX)
            found[name].append(waits.item() / STEP * 100)
    alone = found.setdefault("processor time, all threads", [])
    for _ in range(rounds):
        spent = timed(lambda: other.next_minibatch(*size)["tokens"].asarray(), STEPS, CLOCK)
        alone.append(spent / STEP * 100)
    return found


def open_text(path, rank):
    """Return text that has to be parsed, some 100 chunks of it."""
    if rank == 0:
        draw = np.random.default_rng(0)
        with path.open("w") as lines:
            for number, length in enumerate(draw.integers(50, 1500, 2500)):
                tokens = draw.integers(60_000, size=length)
                lines.writelines(f"{number} |tokens {token}\n" for token in tokens)
    dist.barrier()
    streams = sh.StreamDefs(tokens=sh.StreamDef(shape=1))
    corpus = sh.CTFDeserializer(path, streams, chunk_size_in_bytes=path.stat().st_size // 100)
    return sh.MinibatchSource(
        corpus, num_threads=0, num_lanes=2, randomization_window_in_chunks=8
    )


def scaling(rounds, rank, folder):
    """Return the milliseconds of a processor for a sweep by one process, and by two."""
    source = open_text(folder / "text.ctf", rank)
    found = {"CTF, one process": [], "CTF, two processes": []}

    def sweep(count, index):
        source.current_position = 0
        for share in source.sweep(ROW * ROWS, num_data_partitions=count, partition_index=index):
            share["tokens"].asarray()

    for _ in range(rounds):
        for name, count in zip(found, (1, 2), strict=True):
            is_idle = count == 1 and rank == 1
            spent = timed(lambda: None if is_idle else sweep(count, rank), 1, CLOCK)  # noqa: B023
            found[name].append(spent * 1e3)
    return found


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    control = Control(limit=60.0)
    made = tempfile.mkdtemp() if rank == 0 else ""
    folder = Path(control.gather(made)[0])
    tables = {
        "a reduction, microseconds": reductions(control, rounds),
        "the wait for a minibatch, per cent of a step of 5 ms": shares(control, rounds, rank),
        "a sweep by one process or two, milliseconds of a processor": scaling(
            rounds, rank, folder
        ),
    }
    if rank == 0:
        for title, found in tables.items():
            print(title)
            for name, figures in found.items():
                median = statistics.median(figures)
                print(f"  {name:32} best {min(figures):8.2f}  median {median:8.2f}")
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
