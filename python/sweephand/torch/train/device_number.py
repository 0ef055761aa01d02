"""Numbers that a device is still computing."""

import torch
from torch import Tensor


class DeviceNumber:
    """A number on its way from a device; only its reader waits for it."""

    def __init__(self, value: Tensor) -> None:
        self._host = torch.empty((), dtype=torch.float64, pin_memory=True)
        self._host.copy_(value.detach().double(), non_blocking=True)
        self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._arrived.record()

    def __float__(self) -> float:
        """Wait for the number."""
        self._arrived.synchronize()
        return float(self._host)


def number_of(value: Tensor) -> float | DeviceNumber:
    """Return the number in a tensor, without waiting for a device."""
    return DeviceNumber(value) if value.device.type == "cuda" else value.item()
