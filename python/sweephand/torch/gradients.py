"""Gradients of torch, divided and checked in one pass: by the core where it can reach them."""

import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sweephand import _core
from sweephand.train.learners.arrays import Findings

SMALLEST_NORMAL_FLOAT16 = 2.0**-14
SMALLER = 2.0**-600

LETTERS = {torch.float32: "f", torch.float16: "e", torch.bfloat16: "H", torch.float64: "d"}


def plain_memory(gradients: Sequence[object]) -> _core.train.Tensors | None:
    """Return the memory of gradients if all are plain.

    They are contiguous tensors of torch itself in main memory, and no two share any.
    """
    plain = [
        one
        for one in gradients
        if type(one) is Tensor
        and one.layout is torch.strided
        and one.is_cpu
        and one.is_contiguous()
        and one.dtype in LETTERS
    ]
    if not plain or len(plain) < len(gradients):
        return None
    addresses, counts = [one.data_ptr() for one in plain], [one.numel() for one in plain]
    letters = "".join(LETTERS[one.dtype] for one in plain)
    tensors = _core.train.Tensors.at(addresses, counts, letters)
    return tensors if tensors.find_shared() is None else None


def in_own_memory(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return gradients that can be changed in place independently of each other.

    Autograd expands one number to a gradient, and gives several parameters the same one. Such a
    gradient is replaced by a copy; all others are the same objects.
    """
    owned = list(gradients)
    if plain_memory(owned) is not None:
        return owned
    places = sorted((*_extent(values_of(one)), i) for i, one in enumerate(owned))
    reached = 0
    for begin, end, i in places:
        if begin < reached or end < begin:
            owned[i] = owned[i].clone()
        reached = max(reached, end)
    return owned


def values_of(gradient: Tensor) -> Tensor:
    """Return the dense values of a gradient on this worker."""
    if gradient.is_sparse:
        return gradient.coalesce().values()
    local: Tensor = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return local


def _extent(gradient: Tensor) -> tuple[int, int]:
    """Return where its memory begins and ends; it ends before if it overlaps with itself."""
    begin = gradient.data_ptr()
    if gradient.is_contiguous() or not gradient.numel():
        return begin, begin + gradient.nbytes
    span = 1  # elements from the first to after the last, of the dimensions so far
    for stride, size in sorted(zip(gradient.stride(), gradient.shape, strict=True)):
        if size > 1 and stride < span:
            return begin, begin - 1
        span += (size - 1) * stride
    return begin, begin + span * gradient.element_size()


class DeviceFindings(Findings):
    """Gradients divided by torch's own kernels, as GradScaler does it, and the findings.

    The figures wait for the device when they are read. Elements that are not finite are counted
    then, if the gradients are still there: else one for each gradient.
    """

    def __init__(
        self,
        names: Sequence[str],
        gradients: Sequence[Tensor],
        divisor: float | Tensor,
        measure_underflow: bool,
    ) -> None:
        self.names = names
        self.num_elements = sum(gradient.numel() for gradient in gradients)
        self._gradients = [weakref.ref(gradient) for gradient in gradients]
        self._found: list[Tensor] = []
        norms: dict[int, Tensor] = {}
        alike = defaultdict(list)
        for i, gradient in enumerate(gradients):
            alike[gradient.device, gradient.dtype].append(i)
        for (device, _), numbers in alike.items():
            group = [gradients[i].detach() for i in numbers]
            # The norm shows elements that are not finite, except by the scale alone.
            if isinstance(divisor, Tensor) or divisor != 1:
                found = torch.zeros((), dtype=torch.float32, device=device)
                if isinstance(divisor, Tensor):
                    factor = divisor.reciprocal().to(device, torch.float32)
                else:
                    factor = torch.full((), 1 / divisor, dtype=torch.float32, device=device)
                torch._amp_foreach_non_finite_check_and_unscale_(group, found, factor)
                self._found.append(found)
            together = norms_of(group).to(gradients[0].device)
            norms |= zip(numbers, together.unbind(), strict=True)
        self._norms = [norms[i] for i in range(len(gradients))]  # on one device
        limit = SMALLEST_NORMAL_FLOAT16 / divisor
        measured = gradients if measure_underflow else ()
        self._small = [((g.abs() < limit) | (g == 0)).sum() for g in measured]

    @cached_property
    def nan(self) -> list[int]:  # type: ignore[override]
        return self._count(Tensor.isnan, math.isnan)

    @cached_property
    def inf(self) -> list[int]:  # type: ignore[override]
        return self._count(Tensor.isinf, math.isinf)

    @cached_property
    def small(self) -> list[float]:  # type: ignore[override]
        # NaN if they were not counted.
        return [float(one) for one in self._small] or [math.nan]

    @cached_property
    def norms(self) -> list[float]:  # type: ignore[override]
        return torch.stack(self.device_norms()).tolist()

    def device_norms(self) -> list[Tensor]:
        """Return the norm of each gradient, on one device."""
        return self._norms

    def overflows(self) -> Tensor:
        """Return 1 if a scaled gradient was not finite, else 0, on the device."""
        bad = torch.zeros_like(self._norms[0])
        for found in self._found:
            bad = torch.maximum(bad, found.to(bad))
        return bad

    def _count(
        self, is_one: Callable[[Tensor], Tensor], is_one_norm: Callable[[float], bool]
    ) -> list[int]:
        counts = [int(is_one_norm(norm)) for norm in self.norms]
        if not math.isfinite(sum(self.norms)):
            for i, reference in enumerate(self._gradients):
                if (gradient := reference()) is not None and not math.isfinite(self.norms[i]):
                    counts[i] = max(counts[i], int(is_one(gradient).sum()))
        return counts


def norms_of(gradients: list[Tensor]) -> Tensor:
    """Return the norm of each, of one device and type, in float64 where there is one."""
    wide = torch.float32 if gradients[0].device.type == "mps" else torch.float64
    norms = torch.stack(list(torch._foreach_norm(gradients, 2, wide)))
    if gradients[0].dtype is not torch.float64:
        return norms
    # The square of one above 2**512 is infinite, that of one made smaller is not.
    smaller = torch.stack([(one * SMALLER).norm() for one in gradients])
    return torch.where(norms.isfinite(), norms, smaller / SMALLER)


def norm_of_shards(gradients: Sequence[Tensor], norms: Sequence[Tensor]) -> Tensor:
    """Return the norm of gradients of which each worker has shards, by the norms of these."""
    alike = defaultdict(list)  # by how gradients are sharded
    for gradient, norm in zip(gradients, norms, strict=True):
        mesh: Any = getattr(gradient, "device_mesh", None)
        alike[mesh, tuple(getattr(gradient, "placements", ()))].append(norm)
    squares = []
    for (mesh, placements), group in alike.items():
        norm = torch.stack(group)
        square = torch.stack([norm, norm * SMALLER]).square().sum(1)
        for dim, placement in enumerate(placements):
            if not placement.is_replicate():
                square = square.to(mesh.device_type)
                dist.all_reduce(square, group=mesh.get_group(dim))
        squares.append(square.to(norms[0].device))
    whole, smaller = torch.stack(squares).sum(0).sqrt().unbind()
    return torch.where(whole.isfinite(), whole, smaller / SMALLER)
