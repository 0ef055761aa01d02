"""The norms of the gradients of sub-minibatches, taken on their way into the parameters."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from sweephand.torch.train.device_number import number_of
from sweephand.torch.train.sharded_state import whole
from sweephand.train.trainer.trained_model import PartNorms


class PartNormMeter:
    """Measures the norm that each backward adds to the gradients, before workers exchange them.

    A hook sees the gradient of a parameter, which is neither kept nor changed. A parameter that
    gets its gradient in several pieces, as by reentrant checkpoints, makes the norm NaN.
    """

    def __init__(
        self,
        leaves: Callable[[], list[Tensor]],
        device: torch.device,
        sizes: Sequence[int],
        factor: float,
    ) -> None:
        self._leaves = leaves
        self._sizes = sizes
        self._factor = factor
        self._norms: list[Tensor] = []
        self._seen: set[int] = set()
        wide = torch.float32 if device.type == "mps" else torch.float64
        filled = [size for size in sizes if size]
        inverse_sizes = sum(1 / size for size in filled)
        self._num_parts = torch.tensor(len(filled), dtype=wide, device=device)
        self._inverse_sizes = torch.tensor(inverse_sizes, dtype=wide, device=device)
        self._squared = torch.zeros((), dtype=wide, device=device)

    @property
    def sums(self) -> list[Tensor]:
        """The sums over this worker's parts that `PartNorms` has over all."""
        return [self._num_parts, self._inverse_sizes, self._squared]

    @contextmanager
    def part(self, i: int) -> Iterator[None]:
        """Measure the backward of part i inside."""
        if not self._sizes[i]:
            yield
            return
        self._norms, self._seen = [], set()
        with ExitStack() as hooks:
            for number, parameter in enumerate(self._leaves()):
                add: Callable[[Tensor], None] = partial(self._add, number)
                hooks.callback(parameter.register_hook(add).remove)  # type: ignore[no-untyped-call]
            yield
        if self._norms:
            norm = torch.stack(self._norms).to(self._squared.dtype).norm()
            self._squared += (norm * (self._factor / self._sizes[i])).square()

    def _add(self, number: int, gradient: Tensor) -> None:
        norm = norm_of(gradient)
        self._norms.append(norm.fill_(math.nan) if number in self._seen else norm)
        self._seen.add(number)


def norm_of(gradient: Tensor) -> Tensor:
    """Return the norm of a gradient, of halves in float32."""
    values = gradient.detach()
    if values.is_sparse:
        values = values.coalesce().values()
    dtype = torch.float64 if values.dtype is torch.float64 else torch.float32
    norm: Tensor = torch.linalg.vector_norm(values, dtype=dtype)
    return norm


def part_norms(sums: Sequence[Tensor], gradients: Iterable[Tensor], scale: float) -> PartNorms:
    """Return norms from their sums over all workers and the mean gradients of the step."""
    norms = [norm_of(gradient) for gradient in gradients]
    together = whole(torch.stack(norms)).to(sums[-1].dtype).norm() / scale
    num_parts, inverse_sizes, squared = map(number_of, sums)
    return PartNorms(num_parts, inverse_sizes, squared, number_of(together.square()))


def check_gathered(parameters: Mapping[str, Tensor], mesh: DeviceMesh | None) -> None:
    """Raise if a parameter is sharded otherwise than over a mesh, by `fully_shard`.

    No process has the gradient of a whole parameter then.
    """
    for name, parameter in parameters.items():
        if getattr(parameter, "device_mesh", mesh) != mesh:
            raise ValueError(
                "norms of gradients cannot be measured where parameters are computed in parts, "
                f"as {name} is: follow no norms of gradients, and watch the loss alone"
            )
