"""Gradients of torch, divided and checked in one pass: by the core where it can reach them."""

import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeGuard, cast

import torch
import torch.distributed as dist
from torch import Tensor

from sweephand import _core
from sweephand.train.learners.finite_check import Array, Findings, check_gradients

SMALLEST_NORMAL_FLOAT16 = 2.0**-14

_dtype, _layout, _is_cpu = map(attrgetter, ("dtype", "layout", "is_cpu"))
_is_contiguous = cast(Callable[[object], bool], Tensor.is_contiguous)
LETTERS = {torch.float32: "f", torch.float16: "e", torch.bfloat16: "H", torch.float64: "d"}


def plain_memory(gradients: Sequence[object]) -> _core.train.Tensors | None:
    """Return the memory of gradients if all are plain, with few looks at each.

    They are contiguous tensors of torch itself in main memory, and no two share any.
    """
    if not _are_plain(gradients):
        return None
    kinds = set(map(_dtype, gradients))
    if not kinds <= LETTERS.keys():
        return None
    if len(kinds) == 1:
        letters = LETTERS[kinds.pop()] * len(gradients)
    else:
        letters = "".join(LETTERS[gradient.dtype] for gradient in gradients)
    addresses = list(map(Tensor.data_ptr, gradients))
    tensors = _core.train.Tensors.at(addresses, list(map(Tensor.numel, gradients)), letters)
    return tensors if tensors.find_shared() is None else None


def _are_plain(gradients: Sequence[object]) -> TypeGuard[Sequence[Tensor]]:
    return (
        set(map(type, gradients)) == {Tensor}
        and set(map(_layout, gradients)) == {torch.strided}
        and all(map(_is_cpu, gradients))
        and all(map(_is_contiguous, gradients))
    )


def divide(
    names: Sequence[str],
    gradients: Sequence[Tensor],
    divisor: float | Tensor,
    *,
    num_threads: int,
    measure_underflow: bool,
) -> Findings:
    """Divide dense gradients of any devices in place, and return the findings.

    The divisor is positive and finite; if it is a tensor, the findings stay on the device too.
    Threads are for those in main memory. On accelerators underflow is measured by a pass of its
    own.
    """
    if isinstance(divisor, Tensor):
        return DeviceFindings(names, gradients, divisor, measure_underflow)
    arrays = [memory_of(gradient) for gradient in gradients]
    reachable = [array for array in arrays if array is not None]
    if len(reachable) == len(arrays):
        return check_gradients(
            names, reachable, divisor, in_place=True, num_threads=num_threads
        )
    return DeviceFindings(names, gradients, divisor, measure_underflow)


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


def memory_of(gradient: Tensor) -> Array | None:
    """Return the memory of a dense tensor as the core takes it.

    The elements come in the order of the memory. None if they are not in main memory or not
    one after the other.
    """
    if not gradient.is_cpu:
        return None
    block = gradient.detach() if gradient.requires_grad else gradient
    if not block.is_contiguous():  # perhaps in another order of the dimensions
        block = block.permute(sorted(range(block.dim()), key=block.stride, reverse=True))
        if not block.is_contiguous():
            return None
    if block.dtype is torch.bfloat16:
        block = block.view(torch.uint16)
    array: Array = block.numpy()
    return array


class DeviceFindings(Findings):
    """Gradients divided by torch's own kernels, as GradScaler does it, and the findings.

    Only `cause` waits for the device; the figures wait when they are read. Elements that are
    not finite are counted then, if the gradients are still there: else one for each gradient.
    """

    def __init__(
        self,
        names: Sequence[str],
        gradients: Sequence[Tensor],
        divisor: float | Tensor,
        measure_underflow: bool,
    ) -> None:
        self.names = names
        self._gradients = [weakref.ref(gradient) for gradient in gradients]
        self.num_elements = sum(gradient.numel() for gradient in gradients)
        alike = defaultdict(list)
        for i, gradient in enumerate(gradients):
            alike[gradient.device, gradient.dtype].append(i)
        self._found: list[Tensor] = []
        self._norms: list[tuple[list[int], Tensor]] = []
        for numbers in alike.values():
            group = [gradients[i].detach() for i in numbers]
            # The norm shows elements that are not finite, except by the scale alone.
            if isinstance(divisor, Tensor) or divisor != 1:
                self._found.append(_divide_alike(group, divisor))
            self._norms.append((numbers, norms_of(group)))
        self._small: list[Tensor] | None = None
        if measure_underflow:
            limit = SMALLEST_NORMAL_FLOAT16 / divisor
            self._small = [((g.abs() < limit) | (g == 0)).sum() for g in gradients]

    @cached_property
    def nan(self) -> list[int]:  # type: ignore[override]
        """The elements of each gradient that are NaN."""
        return self._count(Tensor.isnan, math.isnan)

    @cached_property
    def inf(self) -> list[int]:  # type: ignore[override]
        """The elements of each gradient that are infinite."""
        return self._count(Tensor.isinf, math.isinf)

    @cached_property
    def norms(self) -> list[float]:  # type: ignore[override]
        """The Euclidean norm of each gradient."""
        norms = [0.0] * len(self.names)
        for numbers, found in self._norms:
            for i, norm in zip(numbers, found.tolist(), strict=True):
                norms[i] = norm
        return norms

    @property
    def underflow(self) -> float:
        """The share of elements that were too small; NaN if it was not measured."""
        if self._small is None:
            return math.nan
        return sum(int(small) for small in self._small) / max(self.num_elements, 1)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Return the norm of all, those of other shards included, on the device."""
        device = self._norms[0][1].device
        ordered = {
            i: norm.to(device)
            for numbers, found in self._norms
            for i, norm in zip(numbers, found.unbind(), strict=True)
        }
        return norm_of_shards(gradients, [ordered[i] for i in range(len(gradients))])

    def is_bad(self, norm: Tensor) -> Tensor:
        """Return whether a gradient, scaled or not, is not finite, on the device."""
        # The kernel sees the scaled values only, the norm the unscaled ones.
        bad = ~norm.isfinite()
        for found in self._found:
            bad = bad | (found > 0).to(norm.device)
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


def _divide_alike(gradients: list[Tensor], divisor: float | Tensor) -> Tensor:
    """Divide gradients of one device and type; return 1 if any was not finite before."""
    device = gradients[0].device
    found = torch.zeros((), dtype=torch.float32, device=device)
    if isinstance(divisor, Tensor):
        factor = divisor.reciprocal().to(device, torch.float32)
    else:
        factor = torch.full((), 1.0 / divisor, dtype=torch.float32, device=device)
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, factor)
    return found


def norms_of(gradients: list[Tensor]) -> Tensor:
    """Return the norm of each, of one device: wide, as squares of large float32 overflow."""
    wide = torch.float32 if gradients[0].device.type == "mps" else torch.float64
    return torch.stack(list(torch._foreach_norm(gradients, 2, wide)))


def norm_of_shards(gradients: Sequence[Tensor], norms: Sequence[Tensor]) -> Tensor:
    """Return the norm of gradients of which each worker has shards, by the norms of these."""
    alike = defaultdict(list)  # by how gradients are sharded
    for gradient, norm in zip(gradients, norms, strict=True):
        mesh: Any = getattr(gradient, "device_mesh", None)
        alike[mesh, tuple(getattr(gradient, "placements", ()))].append(norm)
    squares = []
    for (mesh, placements), group in alike.items():
        square = torch.stack(group).square().sum()
        for dim, placement in enumerate(placements):
            if not placement.is_replicate():
                square = square.to(mesh.device_type)
                dist.all_reduce(square, group=mesh.get_group(dim))
        squares.append(square.to(norms[0].device))
    return torch.stack(squares).sum().sqrt()
