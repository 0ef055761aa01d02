"""What a step costs beside torch's own, and what training costs beside a loop by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import sweephand as sh

from .contest import Found, Row
from .corpora import scaled
from .limits import Array
from .turn import Clock, Steps, again

if TYPE_CHECKING:
    import torch

THREADS = 2
SIZE = 16  # samples of a minibatch
RATE = 1e-3


# -- under a loss scale --
def make_parameters(count: int) -> list[torch.nn.Parameter]:
    """Return 200 parameters with gradients, of so many elements in all."""
    import torch

    torch.set_num_threads(THREADS)
    parameters = [torch.nn.Parameter(torch.zeros(count // 200)) for _ in range(200)]
    for parameter in parameters:
        parameter.grad = torch.ones(count // 200)
    return parameters


def loss_scale(count: int, *, only_unscale: bool) -> Steps:
    import torch

    inner = torch.optim.SGD(make_parameters(count), 1e-6)
    opt = sh.LossScaleOptimizer(inner, False, 1.0, num_threads=THREADS)
    loss = torch.zeros(())
    return steps_of(
        lambda: opt.get_scaled_loss(loss), opt.unscale_, opt.step, only_unscale, count
    )


def grad_scaler(count: int, *, only_unscale: bool) -> Steps:
    import torch

    inner = torch.optim.SGD(make_parameters(count), 1e-6)
    scaler = torch.amp.GradScaler("cpu", 1.0, growth_interval=10**9)
    loss = torch.zeros(())

    def step() -> None:
        scaler.step(inner)
        scaler.update()

    return steps_of(
        lambda: scaler.scale(loss), lambda: scaler.unscale_(inner), step, only_unscale, count
    )


def steps_of(
    scale: Callable[[], object],
    unscale: Callable[[], object],
    step: Callable[[], object],
    only_unscale: bool,
    count: int,
) -> Steps:
    yield 0
    while True:
        whole, unscaling = Clock(), Clock()
        with whole.running():
            scale()
            with unscaling.running():
                unscale()
            step()
        yield unscaling.turn(8 * count) if only_unscale else whole.turn()


LARGE, SMALL = 20_000_000, 20_000  # elements


class Unscale(Row):
    """`unscale_` of 200 float32 gradients, 20 M elements, on two threads: read and written."""

    contenders = {
        "sweephand": lambda: loss_scale(scaled(LARGE), only_unscale=True),
        "torch GradScaler, no norm": lambda: grad_scaler(scaled(LARGE), only_unscale=True),
    }
    unit, per = "GB/s", 1e9

    def setup_cache(self) -> Found:
        return self.compete()


class SmallStep(Row):
    """Steps of SGD under a loss scale, 200 tensors of 100 elements: mostly their own cost."""

    contenders = {
        "sweephand": lambda: loss_scale(SMALL, only_unscale=False),
        "torch GradScaler, no norm": lambda: grad_scaler(SMALL, only_unscale=False),
    }
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


# -- updates --
TEN_MILLION = scaled(10_000_000)


def make_update(count: int = TEN_MILLION) -> tuple[Array, Array]:
    """Return weights and a gradient."""
    gradient = np.random.default_rng(0).integers(1, 100, count, np.uint8)
    return np.ones(len(gradient), np.float32), gradient.astype(np.float32)


def adam(num_threads: int) -> Steps:
    weights, gradient = make_update()
    learner = sh.numpy.Adam([weights], RATE, num_threads=num_threads)
    return again(lambda: learner.update([gradient], 1), 1)


def torch_adam(num_threads: int) -> Steps:
    import torch

    torch.set_num_threads(num_threads)
    weights, gradient = make_update()
    parameter = torch.nn.Parameter(torch.from_numpy(weights))
    parameter.grad = torch.from_numpy(gradient)
    return again(torch.optim.Adam([parameter], RATE, fused=True).step, 1)


def adam_by_hand() -> Steps:
    weights, gradient = make_update()
    mean, square = np.zeros((2, len(weights)), np.float32)

    def step() -> None:
        nonlocal mean, square, weights
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient * gradient
        weights = weights - RATE * mean / (np.sqrt(square) + 1e-8)

    return again(step, 1)


class Adam(Row):
    """Steps of Adam on ten million float32 parameters."""

    contenders = {
        "sweephand, two threads": lambda: adam(2),
        "torch fused, two threads": lambda: torch_adam(2),
        "sweephand, one thread": lambda: adam(1),
        "torch fused, one thread": lambda: torch_adam(1),
        "NumPy by hand": adam_by_hand,
    }
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


# -- whole steps: check, norm, clip, Adam --
def guarded_step(count: int, *, bfloat16: bool) -> Steps:
    import ml_dtypes

    weights, gradient = (
        array.astype(ml_dtypes.bfloat16) if bfloat16 else array for array in make_update(count)
    )
    learner = sh.numpy.AdamW([weights], RATE, weight_decay=0.01)
    guard = sh.StepGuard(learner, clip_norm=1.0)
    return again(lambda: guard.update([gradient], 1), 1)


def scaler_step(count: int, *, bfloat16: bool) -> Steps:
    """Steps of float32 weights; those of bfloat16 are copies of theirs."""
    import torch

    torch.set_num_threads(1)
    weights, gradient = map(torch.from_numpy, make_update(count))
    parameter = torch.nn.Parameter(weights)
    optimizer = torch.optim.AdamW([parameter], RATE, fused=True)
    scaler = torch.amp.GradScaler("cpu", 1.0, growth_interval=10**9)
    loss = torch.zeros(())
    parameter.grad = gradient
    narrow, narrow_gradient = weights.bfloat16(), gradient.bfloat16()

    def step() -> None:
        if bfloat16:
            gradient.copy_(narrow_gradient)
        scaler.scale(loss)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        scaler.step(optimizer)
        scaler.update()
        if bfloat16:
            narrow.copy_(weights)

    return again(step, 1)


def copy_floats(count: int) -> Steps:
    source, target = np.ones((2, count), np.float32)
    return again(lambda: np.copyto(target, source), 1)


class GuardedStep(Row):
    """Steps with check, norm, clip and AdamW of ten million parameters, one thread.

    They move 32 bytes a parameter of float32 and 28 of bfloat16; a copy of float32 moves 8.
    """

    contenders = {
        f"{name}, {kind}": partial(steps, TEN_MILLION, bfloat16=kind == "bfloat16")
        for kind in ("float32", "bfloat16")
        for name, steps in (
            ("sweephand StepGuard", guarded_step),
            ("torch GradScaler, clip_grad_norm_, fused", scaler_step),
        )
    } | {"a copy of float32": lambda: copy_floats(TEN_MILLION)}
    unit, per = "ms", 1e-3

    def setup_cache(self) -> Found:
        return self.compete()


# -- training --
def make_source() -> sh.MinibatchSource:
    x = np.random.default_rng(0).standard_normal((4096, 4)).astype(np.float32)
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": x, "labels": x.sum(axis=1)}))


def make_model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    import torch

    torch.set_num_threads(1)  # for four weights two wait for each other
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), RATE)


def squared_error(model: torch.nn.Module, minibatch: sh.Minibatch) -> torch.Tensor:
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


def make_trainer(*writers: sh.train.ProgressWriter) -> sh.Trainer:
    model, optimizer = make_model()
    learner = sh.torch.Learner(optimizer, sh.learning_parameter_schedule(RATE))
    return sh.Trainer(model, squared_error, learner, writers)


def train_by_hand() -> Steps:
    model = ByHand()
    for minibatch in make_source().minibatches(SIZE):
        model.train_minibatch(minibatch)
        yield 1


def train() -> Steps:
    trainer = make_trainer()
    for minibatch in make_source().minibatches(SIZE):
        trainer.train_minibatch(minibatch)
        yield 1


def train_in_session() -> Steps:
    """A session of 2,000 steps with two writers."""
    yield 0
    while True:
        with TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            writers = [
                sh.ProgressPrinter(freq=100, log_to_file=log),
                sh.JSONLProgressWriter(log.with_suffix(".jsonl"), freq=100),
            ]
            trainer = make_trainer(*writers)
            steps = scaled(2000)
            sh.training_session(trainer, make_source(), SIZE, max_samples=SIZE * steps).train()
        yield steps


class Step(Row):
    """Steps of a linear model of four weights, with its source."""

    contenders = {
        "Trainer": train,
        "training_session with two writers": train_in_session,
        "a loop by hand": train_by_hand,
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()


def checkpoint(*, whole: bool) -> Steps:
    """Save 250 MB where TMPDIR says: what the loop waits for, or until it is durable."""
    part = scaled(250_000_000) // 40
    arrays = {str(i): np.ones(part, np.float32) for i in range(10)}
    trainer = sh.Trainer(arrays, squared_error, sh.numpy.SGD(arrays, RATE))
    yield 0
    with TemporaryDirectory() as folder:
        while True:
            clock = Clock()
            with clock.running():
                if whole:
                    trainer.save_checkpoint(Path(folder) / "saved")
                else:
                    trainer.capture()
            yield clock.turn()


class Save(Row):
    """A checkpoint of 250 MB."""

    contenders = {
        "the loop waits": lambda: checkpoint(whole=False),
        "the whole": lambda: checkpoint(whole=True),
    }
    unit, fresh = "s", True

    def setup_cache(self) -> Found:
        return self.compete()


# -- a ledger of losses --
def minibatch_and_losses(size: int, layout: sh.Layout | None) -> tuple[sh.Minibatch, Array]:
    """Return documents of 50 to 500 tokens, and a loss for each token or, alone, for each."""
    lengths = np.random.default_rng(0).integers(50, 500, 4096) if layout else np.ones(4096, int)
    offsets = np.append(0, np.cumsum(lengths))
    corpus = sh.ArrayDeserializer({"tokens": (np.zeros(offsets[-1], np.uint16), offsets)})
    minibatch = sh.MinibatchSource(corpus, layout=layout).next_minibatch(size)
    is_token = minibatch["tokens"].mask > 0
    losses = is_token if layout else np.ones(minibatch.num_sequences)
    return minibatch, losses.astype(np.float32)


def record(size: int, layout: sh.Layout | None = None) -> Steps:
    minibatch, losses = minibatch_and_losses(size, layout)
    with TemporaryDirectory() as folder, sh.LossLedger(Path(folder) / "losses") as ledger:
        yield 0
        while True:
            for _ in range(50):
                ledger.record(minibatch, losses)
            yield 50


def record_by_hand(size: int) -> Steps:
    """Write a line of text for each sequence, as one does without a ledger."""
    minibatch, losses = minibatch_and_losses(size, None)
    with TemporaryDirectory() as folder, (Path(folder) / "losses.csv").open("w") as file:
        yield 0
        while True:
            for step in range(50):
                for name, loss in zip(minibatch.ids, losses.tolist(), strict=True):
                    file.write(f"{name},{step},{minibatch.nominal_time},{loss}\n")
            yield 50


def give_receipts(
    size: int, layout: sh.Layout | None = None, *, content: bool = False
) -> Steps:
    minibatch, _ = minibatch_and_losses(size, layout)
    with (
        TemporaryDirectory() as folder,
        sh.train.Receipts(Path(folder) / "receipts", content=content) as receipts,
    ):
        yield 0
        while True:
            for _ in range(50):
                receipts.record(minibatch)
            yield 50


class Receipts(Row):
    """What a step costs in receipts."""

    contenders = {
        "64 sequences": lambda: give_receipts(64),
        "64 sequences, with content": lambda: give_receipts(64, content=True),
        "16,384 tokens in packed rows": lambda: give_receipts(16_384, sh.Packed(2048)),
        "16,384 tokens in packed rows, with content": lambda: give_receipts(
            16_384, sh.Packed(2048), content=True
        ),
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()


class Ledger(Row):
    """What a step costs in a ledger of losses."""

    contenders = {
        "64 sequences": lambda: record(64),
        "64 sequences, as text by hand": lambda: record_by_hand(64),
        "16,384 tokens in packed rows": lambda: record(16_384, sh.Packed(2048)),
    }
    unit, per = "µs", 1e-6

    def setup_cache(self) -> Found:
        return self.compete()
