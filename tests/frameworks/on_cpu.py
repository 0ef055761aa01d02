"""The least that lets frameworks for GPUs train on CPUs, over gloo.

What is changed are devices, attention kernels and clocks: never what is read, summed or
counted.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _NoCuda(TorchFunctionMode):
    """Makes tensors in main memory that are asked for on a GPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        given = dict(kwargs or {})
        given.pop("pin_memory", None)
        if given.get("device") is not None:
            given["device"] = "cpu"
        return func(*args, **given)


def megatron() -> None:
    """Change what keeps megatron-core 0.16 from a CPU, for the life of the process."""
    torch.cuda.current_device = lambda: "cpu"
    _NoCuda().__enter__()
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    # Its random state is a GPU's; there is no dropout here.
    CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()


def torchtitan() -> None:
    """Change what keeps torchtitan 0.3 from a CPU, for the life of the process."""
    import torch._utils
    from torch.distributed.fsdp import FSDPModule
    from torch.nn.attention.flex_attention import create_mask

    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.current_device = lambda: 0
    if not hasattr(torch.distributed, "set_timeout"):  # of a later torch
        torch.distributed.set_timeout = lambda *_: None

    import torchtitan.components.metrics as metrics
    from torchtitan.models.common.attention import FlexAttention

    class NoMonitor:
        """Knows nothing of the memory of a GPU."""

        device_name = "CPU"
        device_capacity_gib = 1.0

        def __init__(self, device: str) -> None: ...

        def get_peak_stats(self) -> Any:
            return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

        def reset_peak_stats(self) -> None: ...

    metrics.DeviceMemoryMonitor = NoMonitor

    def dense(q: Any, k: Any, v: Any, *, block_mask: Any, scale: Any, **other: Any) -> Any:
        """Attend as FlexAttention does, which has no backward on a CPU."""
        shape = q.shape[0], 1, q.shape[2], k.shape[2]
        mask = create_mask(block_mask.mask_mod, *shape, device="cpu")
        found = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=scale, enable_gqa=other["enable_gqa"]
        )
        return found, None

    FlexAttention._compiled_flex_attn = staticmethod(dense)
    divide = FSDPModule.set_gradient_divide_factor

    def divide_sums(self: Any, factor: float) -> None:
        """Divide after a sum: gloo has no sum of scaled values."""
        divide(self, factor)
        self.set_force_sum_reduction_for_comms(True)

    FSDPModule.set_gradient_divide_factor = divide_sums
