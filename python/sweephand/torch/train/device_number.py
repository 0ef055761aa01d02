"""Numbers and arrays that a device is still computing."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweephand.train.loss_scale.judgement import NOTHING, HostNumbers, Number, StepNumbers


class DeviceArray:
    """A tensor on its way from a device; only its reader waits for it."""

    def __init__(self, value: Tensor, dtype: torch.dtype) -> None:
        self._host = torch.empty(value.shape, dtype=dtype, pin_memory=True)
        self._host.copy_(value.detach().to(dtype), non_blocking=True)
        self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._arrived.record()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Wait for the values."""
        self._arrived.synchronize()
        return np.array(self._host.numpy(), dtype, copy=True)

    def __float__(self) -> float:
        """Wait for the only value."""
        self._arrived.synchronize()
        return float(self._host)


def number_of(value: Tensor) -> float | DeviceArray:
    """Return the number in a tensor, without waiting for a device."""
    is_far = value.device.type == "cuda"
    return DeviceArray(value, torch.float64) if is_far else value.item()


def array_of(value: Tensor) -> Tensor | DeviceArray:
    """Return the numbers in a tensor, without waiting for a device; on a CPU the tensor."""
    is_far = value.device.type == "cuda"
    return DeviceArray(value, torch.float32) if is_far else value


class DeviceNumbers(HostNumbers):
    """The numbers of a run in one tensor, which no step waits for."""

    is_far = True

    def __init__(self, numbers: StepNumbers, device: torch.device) -> None:
        flat = [float(one) for one in numbers.flat()]
        self._vector = torch.tensor(flat, dtype=torch.float64, device=device)

    @property
    def is_captured(self) -> bool:
        """True while a CUDA graph captures the step."""
        return self._vector.is_cuda and torch.cuda.is_current_stream_capturing()

    def now(self) -> StepNumbers:
        """Return the numbers as tensors."""
        return StepNumbers.of(self._vector.unbind())

    def write(self, numbers: StepNumbers) -> None:
        """Continue with these numbers, in the same memory: a CUDA graph may hold it."""
        self._vector.copy_(self._stacked(numbers.flat()))

    def reader(self) -> Callable[[], StepNumbers]:
        """Return a function that waits for the present numbers when it is called."""
        vector = self._vector
        if self.is_captured:  # each replay writes it, so it is read anew
            return lambda: StepNumbers.of(vector.tolist())
        sent = DeviceArray(vector, torch.float64) if vector.is_cuda else vector.clone()
        return cache(lambda: StepNumbers.of(np.asarray(sent).tolist()))

    def number(self, x: Any) -> Number:
        """Return a number, moved here if it is a tensor."""
        return x.detach().to(self._vector) if isinstance(x, Tensor) else x

    def where(self, condition: Any, one: Number, other: Number) -> Number:
        """Return one number or the other."""
        if not isinstance(condition, Tensor):
            return super().where(condition, one, other)
        return torch.where(condition, one, other)

    def log(self, x: Number) -> Number:
        """Return the logarithm; `NOTHING` unless it is positive and finite."""
        if not isinstance(x, Tensor):
            return super().log(x)
        return torch.where((x > 0) & (x < math.inf), x.log(), NOTHING)

    def as_float32(self, x: Number) -> Number:
        """Return the nearest float32."""
        return x.float().double()

    def maximum(self, reduce: Any, mine: list[Number]) -> list[Number]:
        """Return the largest of each number over all workers."""
        return list(reduce(self._stacked(mine)).unbind())

    def _stacked(self, numbers: list[Number]) -> Tensor:
        one = self._vector[0]
        return torch.stack(
            [x.double() if isinstance(x, Tensor) else torch.full_like(one, x) for x in numbers]
        )
