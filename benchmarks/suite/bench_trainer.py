"""What training costs beside training: a step of Trainer, a session with progress, a save.

Run as a program it prints the figures of docs/performance.md:

    python benchmarks/suite/bench_trainer.py [FOLDER]

The folder is where checkpoints of 1 GB are written; a temporary one by default.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import sweephand as sh
import sweephand.torch

SIZE = 16  # samples of a minibatch
RATE = 1e-3


def make_source() -> sh.MinibatchSource:
    x = np.random.default_rng(0).standard_normal((4096, 4)).astype(np.float32)
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": x, "labels": x.sum(axis=1)}))


def make_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), RATE)


def squared_error(model: nn.Module, minibatch: sh.Minibatch) -> Tensor:
    error = model(minibatch["x"].torch()).squeeze(-1) - minibatch["labels"].torch()
    return error.square().sum()


class ByHand:
    """The loop that one writes without a trainer: a mean over the samples, and a rate."""

    def __init__(self) -> None:
        self.model, self.optimizer = make_model()
        self.losses = 0.0

    def train_minibatch(self, minibatch: sh.Minibatch) -> None:
        self.optimizer.zero_grad()
        loss = squared_error(self.model, minibatch)
        (loss / minibatch.num_samples).backward()
        self.optimizer.step()
        self.losses += loss.item()


def make_trainer(*writers: sh.ProgressWriter) -> sh.Trainer:
    model, optimizer = make_model()
    learner = sh.torch.Learner(optimizer, sh.learning_parameter_schedule(RATE))
    return sh.Trainer(model, squared_error, learner, writers)


class Step:
    """One step with a tiny model; minibatches are ready."""

    def setup(self) -> None:
        source = make_source()
        self.minibatches = cycle([source.next_minibatch(SIZE) for _ in range(8)])
        self.by_hand = ByHand()
        self.trainer = make_trainer()

    def time_by_hand(self) -> None:
        self.by_hand.train_minibatch(next(self.minibatches))

    def time_trainer(self) -> None:
        self.trainer.train_minibatch(next(self.minibatches))


class Session:
    """Steps in a session, with writers and checks, beside the loop by hand over the source."""

    num_steps = 1000

    def setup(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.by_hand = ByHand()

    def teardown(self) -> None:
        self.folder.cleanup()

    def time_by_hand(self) -> None:
        source = make_source()
        for _ in range(self.num_steps):
            self.by_hand.train_minibatch(source.next_minibatch(SIZE))

    def time_session(self) -> None:
        folder = Path(self.folder.name)
        writers = [
            sh.ProgressPrinter(freq=100, log_to_file=folder / "log"),
            sh.JSONLProgressWriter(folder / "log.jsonl", freq=100),
        ]
        sh.training_session(
            make_trainer(*writers), make_source(), SIZE, max_samples=SIZE * self.num_steps
        ).train()


class Save:
    """A checkpoint of 1 GB: what the loop waits for, and the whole until it is durable."""

    params = (["numpy", "torch"],)
    param_names = ("kind",)
    num_bytes = 10**9

    def setup(self, kind: str, folder: Path | None = None) -> None:
        self.temporary = tempfile.TemporaryDirectory(dir=folder)
        self.folder = Path(self.temporary.name)
        count = self.num_bytes // 4
        if kind == "numpy":
            arrays = {str(i): np.ones(count // 10, np.float32) for i in range(10)}
            self.trainer = sh.Trainer(arrays, squared_error, sh.numpy.SGD(arrays, RATE))
        else:
            model = nn.ParameterList([torch.ones(count // 10) for _ in range(10)])
            learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), RATE), RATE)
            self.trainer = sh.Trainer(model, squared_error, learner)

    def teardown(self, kind: str) -> None:
        self.temporary.cleanup()

    def time_loop_waits(self, kind: str) -> None:
        self.trainer.capture()

    def time_whole(self, kind: str) -> None:
        self.trainer.save_checkpoint(self.folder)


def best(times: Iterator[float]) -> tuple[float, float]:
    found = sorted(times)
    return found[0], statistics.median(found)


def seconds(action: Callable[[], object], clock: Callable[[], float]) -> float:
    begin = clock()
    action()
    return clock() - begin


def compare(
    name: str, one: Callable[[], object], other: Callable[[], object], per: int
) -> None:
    """Let two actions take turns, and print what the second costs more, in microseconds.

    That is time on the processor, which other programs do not lengthen as much.
    """
    clock = time.thread_time
    times = [(seconds(one, clock), seconds(other, clock)) for _ in range(15)]
    (a, a_median), (b, b_median) = (best(iter(column)) for column in zip(*times, strict=True))
    per_us = 1e6 / per
    print(
        f"{name}: by hand {a * per_us:.1f} us, ours {b * per_us:.1f} us: "
        f"{(b - a) * per_us:+.1f} us (medians {(b_median - a_median) * per_us:+.1f})"
    )


def main() -> None:
    step = Step()
    step.setup()

    def repeated(action: Callable[[], None], count: int = 500) -> Callable[[], None]:
        return lambda: [action() for _ in range(count)] and None

    compare("a step", repeated(step.time_by_hand), repeated(step.time_trainer), 500)
    session = Session()
    session.setup()
    compare(
        "a step of a session", session.time_by_hand, session.time_session, session.num_steps
    )
    session.teardown()
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for kind in Save.params[0]:
        save = Save()
        save.setup(kind, folder)
        clock = time.perf_counter
        waits, _ = best(seconds(partial(save.time_loop_waits, kind), clock) for _ in range(3))
        whole, _ = best(seconds(partial(save.time_whole, kind), clock) for _ in range(3))
        save.teardown(kind)
        print(f"1 GB, {kind}: loop waits {waits:.2f} s of {whole:.2f} s: {waits / whole:.0%}")


if __name__ == "__main__":
    main()
