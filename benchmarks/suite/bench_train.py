"""What a step costs beside NumPy and torch: unscaling with its check, and fused updates.

Run as a program it prints the figures of docs/mixed_precision.md with their spread:

    python benchmarks/suite/bench_train.py
"""

import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import sweephand as sh
from sweephand.train.learners.gradient_findings import look

SCALE = 1.0  # the values stay what they are, however often a pass is repeated


class Unscale:
    """Divide by the scale, check and take the norm: one pass over all gradients."""

    params = (["float32", "float16"], [1, 200])
    param_names = ("dtype", "tensors")
    num_elements = 100_000_000

    def setup(self, dtype: str, tensors: int) -> None:
        torch.set_num_threads(1)
        values = np.random.default_rng(0).integers(1, 100, self.num_elements, np.uint8)
        self.gradients = np.array_split(values.astype(dtype), tensors)
        self.names = [str(i) for i in range(tensors)]
        self.on_torch = [torch.from_numpy(gradient) for gradient in self.gradients]
        self.found, self.inverse = torch.zeros(()), torch.full((), 1 / SCALE)

    def time_sweephand(self, dtype: str, tensors: int) -> None:
        look(self.names, self.gradients, SCALE, in_place=True)

    def time_pass_that_only_scales(self, dtype: str, tensors: int) -> None:
        for gradient in self.on_torch:
            gradient.mul_(SCALE)

    def time_torch_fused_without_norm(self, dtype: str, tensors: int) -> None:
        torch._amp_foreach_non_finite_check_and_unscale_(
            self.on_torch, self.found, self.inverse
        )

    def time_numpy(self, dtype: str, tensors: int) -> None:
        for gradient in self.gradients:
            np.multiply(gradient, gradient.dtype.type(1 / SCALE), out=gradient)
            np.isfinite(gradient).all()
            np.linalg.norm(gradient)


class Adam:
    """One step of Adam on float32 parameters."""

    params = ([1, 2],)
    param_names = ("threads",)
    num_elements = 10_000_000

    def setup(self, threads: int) -> None:
        torch.set_num_threads(threads)
        random = np.random.default_rng(0)
        self.weights = random.standard_normal(self.num_elements, dtype=np.float32)
        self.gradient = random.standard_normal(self.num_elements, dtype=np.float32)
        self.learner = sh.numpy.Adam([self.weights.copy()], 1e-3, num_threads=threads)
        parameter = torch.nn.Parameter(torch.from_numpy(self.weights.copy()))
        parameter.grad = torch.from_numpy(self.gradient)
        self.fused = torch.optim.Adam([parameter], fused=True)
        self.mean = np.zeros_like(self.weights)
        self.mean_square = np.zeros_like(self.weights)

    def time_sweephand(self, threads: int) -> None:
        self.learner.update([self.gradient], 1)

    def time_torch_fused(self, threads: int) -> None:
        self.fused.step()

    def time_numpy(self, threads: int) -> None:
        g = self.gradient
        self.mean = 0.9 * self.mean + 0.1 * g
        self.mean_square = 0.999 * self.mean_square + 0.001 * g * g
        self.weights = self.weights - 1e-3 * self.mean / (np.sqrt(self.mean_square) + 1e-8)


class SmallStep:
    """A whole step under a loss scale with 200 small torch tensors: mostly its own cost."""

    def setup(self) -> None:
        torch.set_num_threads(1)
        self.parameters = [torch.nn.Parameter(torch.zeros(100)) for _ in range(200)]
        for parameter in self.parameters:
            parameter.grad = torch.ones(100)
        self.opt = sh.LossScaleOptimizer(torch.optim.SGD(self.parameters, 1e-6), False, 1.0)
        self.inner = torch.optim.SGD(self.parameters, 1e-6)
        self.scaler = torch.amp.GradScaler("cpu", 1.0, growth_interval=10**9)
        self.loss = torch.zeros(())

    def time_sweephand(self) -> None:
        self.opt.get_scaled_loss(self.loss)
        self.opt.step()

    def time_torch_grad_scaler(self) -> None:
        self.scaler.scale(self.loss)
        self.scaler.step(self.inner)
        self.scaler.update()


def seconds(call: Callable[[], object], repeats: int = 7) -> list[float]:
    call()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)


def report(what: str, call: Callable[[], object], num_bytes: int | None = None) -> None:
    """Print the best, the median and the worst of some runs."""
    taken = seconds(call)
    spread = [taken[0], statistics.median(taken), taken[-1]]
    if num_bytes is None:
        figures = ", ".join(f"{1e3 * one:.3g} ms" for one in spread)
    else:
        figures = ", ".join(f"{num_bytes / one / 1e9:.1f} GB/s" for one in spread)
    print(f"  {what:32} {figures}", flush=True)


def report_all(suite: object, *params: object, num_bytes: int | None = None) -> None:
    for name in dir(suite):
        if name.startswith("time_"):
            report(name[5:], partial(getattr(suite, name), *params), num_bytes)


def main() -> None:
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, torch {torch.__version__}")
    print(f"{platform.machine()}, {platform.system()}; best, median, worst of 7 runs")
    for dtype in Unscale.params[0]:
        for tensors in Unscale.params[1]:
            unscale = Unscale()
            unscale.setup(dtype, tensors)
            print(
                f"unscale {unscale.num_elements:,} {dtype} in {tensors} tensors, read + written"
            )
            num_bytes = 2 * unscale.num_elements * np.dtype(dtype).itemsize
            report_all(unscale, dtype, tensors, num_bytes=num_bytes)
    for threads in Adam.params[0]:
        adam = Adam()
        adam.setup(threads)
        print(f"Adam on {adam.num_elements:,} float32, {threads} threads")
        report_all(adam, threads)
    small = SmallStep()
    small.setup()
    print("a whole step under a loss scale, 200 torch tensors of 100")
    report_all(small)


if __name__ == "__main__":
    main()
