"""Numbers and arrays that a device is still computing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


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
