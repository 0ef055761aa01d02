"""Verdicts that stay on the device: scale, counts and statistics of steps as tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from sweephand.torch.train.device_number import DeviceArray
from sweephand.torch.train.gradients import DeviceFindings, values_of
from sweephand.train.learners.finite_check import Cause
from sweephand.train.loss_scale.dynamic_scale import Change, DynamicScale
from sweephand.train.loss_scale.outliers import NOTHING, OutlierWatch, Statistic
from sweephand.train.loss_scale.step_log import GuardLog
from sweephand.train.loss_scale.step_result import CAUSES, StepResult

# Rows of the vector of numbers. Counts go on over steps; what follows them is of the last one.
SCALE, COUNTER, CREDIT, STEPS, APPLIED, SKIPS = range(6)
IS_APPLIED, CAUSE, SCALE_USED, CHANGE, NORM, PARTED = range(6, 12)
STATISTICS = 12
CHANGES: tuple[Change, ...] = ("none", "growth", "backoff", "floor")
# Those of torch whose state begins with zeros: a first step that is skipped leaves them.
ZERO_BORN = ("Adam", "AdamW", "RAdam", "RMSprop", "Adadelta", "Adamax", "Adagrad", "SparseAdam")


class DeviceSteps:
    """The steps of a guard as tensors: what `StepGuard` does with floats, in the same order."""

    def __init__(
        self,
        scale: DynamicScale,
        log: GuardLog,
        watch: OutlierWatch | None,
        device: torch.device,
    ) -> None:
        self._scale, self._log, self._watch = scale, log, watch
        count = STATISTICS + 4 * len(watch.statistics if watch else ())
        self._numbers = torch.zeros(count, dtype=torch.float64, device=device)
        self.load()

    @property
    def scale(self) -> Tensor:
        """The scale of the next loss."""
        return self._numbers[SCALE]

    @property
    def is_captured(self) -> bool:
        """True while a CUDA graph captures: nothing can be read then."""
        return is_capturing(self._numbers)

    def load(self) -> None:
        """Take scale, counts and statistics from those of the guard on the host."""
        scale = self._scale
        numbers = [scale.scale, scale.counter, scale.credit, *self._log.state_dict().values()]
        numbers += [0.0] * (STATISTICS - len(numbers))
        if self._watch is not None:
            numbers += itertools.chain(*self._watch.state_dict().values())
        self._numbers.copy_(torch.tensor(numbers, dtype=torch.float64))

    def store(self) -> None:
        """Wait for scale, counts and statistics, and give them to those on the host."""
        scale, watch = self._scale, self._watch
        numbers = _on_host(self._numbers)
        counts = map(int, numbers[STEPS : SKIPS + 1])
        self._log.load_state_dict(dict(zip(self._log.state_dict(), counts, strict=True)))
        scale.scale, scale.counter, scale.credit = (
            float(numbers[SCALE]), int(numbers[COUNTER]), int(numbers[CREDIT])
        )  # fmt: skip
        if watch is not None:
            fours = numbers[STATISTICS:].reshape(-1, 4).tolist()
            for name, (count, *rest) in zip(watch.statistics, fours, strict=True):
                watch.statistics[name] = Statistic(int(count), *rest)

    def step(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        findings: DeviceFindings | None,
        norm: Tensor | None,
        *,
        nan_loss: Any,
        loss: Any,
        clip_norm: float | None,
        check_finite: bool,
    ) -> DeviceResult:
        """Judge a step, take it unless it is bad, and count it; nothing waits."""
        watch, old = self._watch, self._numbers.clone()
        norm = torch.zeros_like(old[SCALE]) if norm is None else norm
        cause = torch.zeros_like(norm)
        if check_finite and findings is not None:
            cause = torch.where(findings.is_bad(norm), float(Cause.INF), cause)
            cause = torch.where(norm.isnan(), float(Cause.NAN), cause)
        if check_finite and isinstance(nan_loss, Tensor):
            cause = torch.where(nan_loss.to(norm.device), float(Cause.NAN_LOSS), cause)
        elif check_finite and nan_loss:
            cause = torch.full_like(norm, float(Cause.NAN_LOSS))
        logs, bounds = norm.new_empty(0), norm.new_empty(0)
        statistics = old[STATISTICS:].view(-1, 4)
        if watch is not None:
            is_far = isinstance(loss, Tensor)
            value = loss.to(norm) if is_far else torch.full_like(norm, loss or math.nan)
            values = {"gradient_norm": norm, "loss": value}
            seen = torch.stack([values[name] for name in watch.statistics])
            logs = torch.where((seen > 0) & (seen < math.inf), seen.log(), NOTHING)
            spread = statistics[:, 3].sqrt().clamp_min(watch.rule.floor)
            bounds = statistics[:, 2] + watch.rule.z * spread
            bounds = torch.where(statistics[:, 0] < watch.rule.warmup, math.inf, bounds)
        is_outlier = (logs > bounds).any().double()
        parted = torch.zeros_like(norm)
        if dist.is_available() and dist.is_initialized():
            mine = torch.stack([old[SCALE], -old[SCALE], old[COUNTER], -old[COUNTER]])
            together = torch.cat([torch.stack([cause, is_outlier]), mine, logs])
            dist.all_reduce(together, op=dist.ReduceOp.MAX)
            cause, is_outlier, logs = together[0], together[1], together[6:]
            parted = ((together[2] != -together[3]) | (together[4] != -together[5])).double()
        is_outlier = (cause == 0) & (is_outlier > 0)
        is_good = cause == 0
        limit = torch.full_like(norm, math.inf if clip_norm is None else clip_norm)
        if watch is not None:
            cause = torch.where(is_outlier, float(Cause.OUTLIER), cause)
            if watch.rule.action == "skip":
                is_good = is_good & ~is_outlier
            else:
                usual = statistics[[*watch.statistics].index("gradient_norm"), 2].exp()
                limit = torch.where(is_outlier, torch.minimum(limit, usual), limit)
        # A norm that is not finite clips nothing: its step is skipped.
        divisor = torch.where(is_good & (norm > limit), norm / limit, 1.0)
        clips = clip_norm is not None or watch is not None
        take(optimizers, ~is_good, divisor if clips else None)
        new = self._numbers
        self._move_scale(old, torch.where(is_good, 0.0, cause))
        new[STEPS] += 1
        new[APPLIED] += is_good
        new[SKIPS] = torch.where(is_good, 0.0, old[SKIPS] + 1)
        rows = [is_good.double(), cause, old[SCALE], new[CHANGE], norm, parted]
        new[IS_APPLIED:STATISTICS] = torch.stack(rows)
        if watch is not None:
            fed = _fed(statistics, torch.minimum(logs, bounds), watch.rule.decay)
            is_fed = (is_good & (logs > NOTHING))[:, None]
            new[STATISTICS:] = torch.where(is_fed, fed, statistics).flatten()
        return DeviceResult(new, findings)

    def _move_scale(self, old: Tensor, cause: Tensor) -> None:
        """Do what `DynamicScale.advance` does."""
        rule, new = self._scale.settings, self._numbers
        new[CHANGE] = 0.0
        if not rule.dynamic:
            return
        is_good, is_outlier = cause == 0, cause == Cause.OUTLIER
        backs_off = (cause == Cause.INF) | ((cause == Cause.NAN) & (rule.nan == "back off"))
        grows = is_good & (old[COUNTER] + 1 >= rule.growth_steps)
        credit = torch.where(backs_off, (old[CREDIT] - 1).clamp_min(0), old[CREDIT])
        refills = is_good if rule.refill == "clean step" else grows
        new[CREDIT] = torch.where(refills | grows, float(rule.hysteresis), credit)
        counted = torch.where(is_good & ~grows, old[COUNTER] + 1, 0.0)
        new[COUNTER] = torch.where(is_outlier, old[COUNTER], counted)
        reduces = backs_off & (credit == 0)
        grown = (old[SCALE] * rule.growth_factor).float().double().clamp_max(rule.max_scale)
        reduced = (old[SCALE] * rule.backoff_factor).float().double()
        is_floor = reduces & (reduced < rule.min_scale)
        scale = torch.where(reduces, reduced.clamp_min(rule.min_scale), old[SCALE])
        scale = torch.where(grows, grown, scale)
        moved = (scale != old[SCALE]) * (grows * 1.0 + reduces * 2.0)
        new[CHANGE] = torch.where(is_floor, 3.0, moved)
        new[SCALE] = scale


class DeviceResult(StepResult):
    """A result whose attributes wait for the device when they are read."""

    def __init__(self, numbers: Tensor, findings: DeviceFindings | None) -> None:
        # Each replay of a captured step writes the same tensor, which is read when asked for.
        self.__dict__["_numbers"] = numbers if is_capturing(numbers) else _on_way(numbers)
        self.__dict__.update(minibatch_ids=(), findings=findings)

    def __getattr__(self, name: str) -> Any:
        """Wait for the numbers of the step."""
        if name.startswith("__") or "_numbers" not in self.__dict__:
            raise AttributeError(name)
        numbers = _on_host(self._numbers)
        cause = Cause(int(numbers[CAUSE]))
        has_gradient = self.findings is not None
        found = {
            "applied": bool(numbers[IS_APPLIED]) and has_gradient,
            "cause": CAUSES[cause] if has_gradient or cause else "no gradient",
            "scale_used": float(numbers[SCALE_USED]),
            "scale_next": float(numbers[SCALE]),
            "counter": int(numbers[COUNTER]),
            "norm": float(numbers[NORM]),
            "change": CHANGES[int(numbers[CHANGE])],
            "code": cause,
            "parted": bool(numbers[PARTED]),
        }
        if not isinstance(self._numbers, Tensor):
            self.__dict__.update(found)
        return found[name]

    @property
    def gradient_norm(self) -> float:
        """The norm of the unscaled gradients before clipping, of all shards."""
        return float(self.__getattr__("norm"))


def take(
    optimizers: Sequence[torch.optim.Optimizer], skip: Tensor, divisor: Tensor | None
) -> None:
    """Take a step with gradients divided by a number, unless a device will say to skip it."""
    for optimizer in optimizers:
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            fused: Any = optimizer  # reads these two, as GradScaler sets them
            fused.found_inf = skip.float()
            fused.grad_scale = None if divisor is None else divisor.float()
            try:
                optimizer.step()
            finally:
                del fused.found_inf, fused.grad_scale
            continue
        if divisor is not None:
            gradients = [
                values_of(parameter.grad)
                for group in optimizer.param_groups
                for parameter in group["params"]
                if parameter.grad is not None
            ]
            for gradient in gradients:
                gradient.div_(
                    divisor.to(
                        gradient.device, torch.promote_types(gradient.dtype, torch.float32)
                    )
                )
        _masked(optimizer, skip)


def _masked(optimizer: torch.optim.Optimizer, skip: Tensor) -> None:
    """Take a step, and put back all that it changed if it is to be skipped."""
    name, state = type(getattr(optimizer, "inner", optimizer)).__name__, optimizer.state
    taken = [
        p for group in optimizer.param_groups for p in group["params"] if p.grad is not None
    ]
    plain_sgd = name == "SGD" and not any(g["dampening"] for g in optimizer.param_groups)
    is_born = all(p in state for p in taken) or name in ZERO_BORN or plain_sgd
    held = [value for p in taken for value in state.get(p, {}).values()]
    if not is_born or not all(value is None or isinstance(value, Tensor) for value in held):
        if not bool(skip):  # its state cannot be put back: this waits
            optimizer.step()
        return
    before = {id(t): values_of(t.detach()).clone() for t in (*taken, *filter(_is_there, held))}
    optimizer.step()
    with torch.no_grad():
        now = [*taken, *(v for p in taken for v in state.get(p, {}).values() if _is_there(v))]
        for tensor in now:
            values = values_of(tensor.detach())
            old = before.get(id(tensor), 0.0)
            values.copy_(torch.where(skip.to(values.device), old, values))


def is_capturing(tensor: Tensor) -> bool:
    """Return True while a CUDA graph captures what is done to a tensor."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _is_there(value: object) -> bool:
    return isinstance(value, Tensor)


def _fed(statistics: Tensor, logs: Tensor, decay: float) -> Tensor:
    """Do what `Statistic.add` does."""
    count, weight, mean, variance = statistics.unbind(1)
    weight = decay * weight + (1.0 - decay)
    share = (1.0 - decay) / weight
    difference = logs - mean
    fed = (1.0 - share) * (variance + share * difference * difference)
    return torch.stack([count + 1, weight, mean + share * difference, fed], 1)


def _on_way(numbers: Tensor) -> DeviceArray | NDArray[np.float64]:
    """Return a copy of numbers that is on its way to the host."""
    if numbers.is_cuda:
        return DeviceArray(numbers, torch.float64)
    copied: NDArray[np.float64] = numbers.cpu().numpy().copy()
    return copied


def _on_host(numbers: Any) -> NDArray[np.float64]:
    """Wait for numbers."""
    return np.asarray(numbers.cpu() if isinstance(numbers, Tensor) else numbers, np.float64)
