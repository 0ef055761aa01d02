"""What a step costs beside NumPy and torch, and what training costs beside training."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import sweephand as sh
import sweephand.torch
from sweephand.train.learners.finite_check import check_gradients

from .corpora import scaled

SCALE = 1.0  # the values stay what they are, however often a pass is repeated
SIZE = 16  # samples of a minibatch
RATE = 1e-3
timeout = 300
repeat = (2, 5, 3.0)


@cache
def make_gradient(dtype: str, count: int) -> NDArray[np.generic]:
    return np.random.default_rng(0).integers(1, 100, scaled(count), np.uint8).astype(dtype)


class Unscale:
    """Divide by the scale, check and take the norm: one pass over all gradients."""

    params = (
        ["sweephand", "mul_", "torch fused, without the norm", "NumPy"],
        ["float32", "float16"],
        [1, 200],
    )
    param_names = ("contender", "dtype", "tensors")
    elements = 100_000_000

    def setup(self, contender: str, dtype: str, tensors: int) -> None:
        torch.set_num_threads(1)
        gradients = np.array_split(make_gradient(dtype, self.elements), tensors)
        names = [str(i) for i in range(tensors)]
        on_torch = [torch.from_numpy(gradient) for gradient in gradients]
        found, inverse = torch.zeros(()), torch.full((), 1 / SCALE)
        fused = torch._amp_foreach_non_finite_check_and_unscale_

        def numpy() -> None:
            for gradient in gradients:
                np.multiply(gradient, gradient.dtype.type(1 / SCALE), out=gradient)
                np.isfinite(gradient).all()
                np.linalg.norm(gradient)

        self.work: Callable[[], object] = {
            "sweephand": lambda: check_gradients(names, gradients, SCALE, in_place=True),
            "mul_": lambda: [gradient.mul_(SCALE) for gradient in on_torch],
            "torch fused, without the norm": lambda: fused(on_torch, found, inverse),
            "NumPy": numpy,
        }[contender]

    def time_pass(self, contender: str, dtype: str, tensors: int) -> None:
        self.work()

    def track_bytes(self, contender: str, dtype: str, tensors: int) -> int:
        """Read and written."""
        return 2 * scaled(self.elements) * np.dtype(dtype).itemsize


class Adam:
    """One step of Adam on 10^7 float32 parameters."""

    params = (["sweephand", "torch fused", "NumPy"], [1, 2])
    param_names = ("contender", "threads")

    def setup(self, contender: str, threads: int) -> None:
        torch.set_num_threads(threads)
        gradient = make_gradient("float32", 10_000_000)
        weights = np.ones_like(gradient)
        learner = sh.numpy.Adam([weights.copy()], 1e-3, num_threads=threads)
        parameter = nn.Parameter(torch.from_numpy(weights.copy()))
        parameter.grad = torch.from_numpy(gradient)
        fused = torch.optim.Adam([parameter], fused=True)
        mean, square = np.zeros_like(weights), np.zeros_like(weights)

        def numpy() -> None:
            first = 0.9 * mean + 0.1 * gradient
            second = 0.999 * square + 0.001 * gradient * gradient
            _ = weights - 1e-3 * first / (np.sqrt(second) + 1e-8)

        self.work: Callable[[], object] = {
            "sweephand": lambda: learner.update([gradient], 1),
            "torch fused": fused.step,
            "NumPy": numpy,
        }[contender]

    def time_step(self, contender: str, threads: int) -> None:
        self.work()


class SmallStep:
    """Whole steps under a loss scale with 200 small torch tensors: mostly their own cost."""

    steps = 20

    def setup(self) -> None:
        torch.set_num_threads(1)
        parameters = [nn.Parameter(torch.zeros(100)) for _ in range(200)]
        for parameter in parameters:
            parameter.grad = torch.ones(100)
        self.opt = sh.LossScaleOptimizer(torch.optim.SGD(parameters, 1e-6), False, 1.0)
        self.inner = torch.optim.SGD(parameters, 1e-6)
        self.scaler = torch.amp.GradScaler("cpu", 1.0, growth_interval=10**9)
        self.loss = torch.zeros(())

    def time_sweephand(self) -> None:
        for _ in range(self.steps):
            self.opt.get_scaled_loss(self.loss)
            self.opt.step()

    def time_torch_grad_scaler(self) -> None:
        for _ in range(self.steps):
            self.scaler.scale(self.loss)
            self.scaler.step(self.inner)
            self.scaler.update()

    def track_samples(self) -> int:
        """Steps here."""
        return self.steps


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
    """Steps with a tiny model; minibatches are ready."""

    params = (["by hand", "sweephand"],)
    param_names = ("loop",)
    steps = 500
    timer = time.thread_time  # which other programs do not lengthen as much

    def setup(self, loop: str) -> None:
        source = make_source()
        self.minibatches = cycle([source.next_minibatch(SIZE) for _ in range(8)])
        self.trainer = ByHand() if loop == "by hand" else make_trainer()

    def time_steps(self, loop: str) -> None:
        for _ in range(self.steps):
            self.trainer.train_minibatch(next(self.minibatches))

    def track_samples(self, loop: str) -> int:
        """Steps here."""
        return self.steps


class Session(Step):
    """The same in a session, with writers and checks, beside the loop by hand over a source."""

    def setup(self, loop: str) -> None:
        self.folder = TemporaryDirectory()
        self.trainer = ByHand()

    def teardown(self, loop: str) -> None:
        self.folder.cleanup()

    def time_steps(self, loop: str) -> None:
        source = make_source()
        if loop == "by hand":
            for _ in range(self.steps):
                self.trainer.train_minibatch(source.next_minibatch(SIZE))
            return
        folder = Path(self.folder.name)
        writers = [
            sh.ProgressPrinter(freq=100, log_to_file=folder / "log"),
            sh.JSONLProgressWriter(folder / "log.jsonl", freq=100),
        ]
        sh.training_session(
            make_trainer(*writers), source, SIZE, max_samples=SIZE * self.steps
        ).train()


class Save:
    """A checkpoint of 1 GB: what the loop waits for, and the whole until it is durable.

    It is written where TMPDIR says.
    """

    params = (["numpy", "torch"],)
    param_names = ("kind",)
    rounds, repeat = 1, 3

    def setup(self, kind: str) -> None:
        self.folder = TemporaryDirectory()
        part, parts = scaled(10**9) // 40, range(10)
        if kind == "numpy":
            arrays = {str(i): np.ones(part, np.float32) for i in parts}
            self.trainer = sh.Trainer(arrays, squared_error, sh.numpy.SGD(arrays, RATE))
        else:
            model = nn.ParameterList([torch.ones(part) for _ in parts])
            learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), RATE), RATE)
            self.trainer = sh.Trainer(model, squared_error, learner)

    def teardown(self, kind: str) -> None:
        self.folder.cleanup()

    def time_loop_waits(self, kind: str) -> None:
        self.trainer.capture()

    def time_whole(self, kind: str) -> None:
        self.trainer.save_checkpoint(Path(self.folder.name))
