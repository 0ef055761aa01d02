"""Exact float32 masters of bfloat16 parameters, by the 16 bits that these lack.

    bits of the master   | upper 16                    | lower 16 |
    bfloat16 parameter   | upper + first bit of lower  |            rounding half up
    kept beside it                                     | lower 16 |

Rounding half up can be undone by the lower bits, rounding to even cannot: 0x3f818000 and
0x3f828000 both become 0x3f82.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from sweephand.errors import ArgumentTypeError, shown
from sweephand.torch.gradients import values_of

BITS = "master_bits"  # their name in the state of a parameter
PIECE = 2**26  # elements whose masters exist at one time, if no parameter is larger


class ExactMasters(Optimizer):
    """A torch optimizer that trains bfloat16 parameters as if they were float32.

    The optimizer sees float32 masters and gradients and keeps float32 moments. A parameter is
    its master rounded to bfloat16 (ties away from zero, not to even), and the 16 bits that it
    lacks are kept in the optimizer's state, as ``"master_bits"``: parameter and master take 4
    bytes instead of 6. Masters exist only in a step, for a piece of the parameters at a time.
    What others write into a parameter moves its master by as much, to half a unit of bfloat16.
    It goes wherever a torch optimizer does, with sharded parameters too.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        One that has taken no step and treats each parameter alone. Parameters of other types
        are its own.

    Examples
    --------
    >>> import torch, sweephand as sh
    >>> weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    >>> optimizer = sh.torch.ExactMasters(torch.optim.SGD([weight], lr=2.0**-10))
    >>> for _ in range(4):  # each move is a fourth of what bfloat16 can show
    ...     weight.grad = torch.ones_like(weight)
    ...     optimizer.step()
    >>> weight.item(), optimizer.masters()[0].item()
    (0.99609375, 0.99609375)
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(
                f"optimizer must be a torch optimizer, got {shown(optimizer)}"
            )
        if any(optimizer.state.values()):
            raise ValueError("an optimizer that has taken a step has no exact masters any more")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("LBFGS does not treat each parameter alone")
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.inner = optimizer
        optimizer.param_groups = self.param_groups
        self._step_supports_amp_scaling = bool(
            getattr(optimizer, "_step_supports_amp_scaling", False)
        )

    def masters(self) -> list[Tensor]:
        """Return copies of the masters, of other parameters themselves; of shards the local."""
        return [
            _joined(values_of(p.detach()), values_of(self.state[p][BITS]))
            if BITS in self.state.get(p, {})
            else values_of(p.detach()).to(torch.promote_types(p.dtype, torch.float16))
            for p in self._parameters()
        ]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step with the gradients that the parameters hold."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for name in ("found_inf", "grad_scale"):  # as GradScaler and guards set them
            self.inner.__dict__.pop(name, None)
            if hasattr(self, name):
                setattr(self.inner, name, getattr(self, name))
        every = [(group, group["params"]) for group in self.param_groups]
        try:
            for piece in _pieces(p for p in self._parameters() if p.grad is not None):
                self._step_piece(piece, every)
        finally:
            for group, parameters in every:
                group["params"] = parameters
            self.inner.state.clear()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state; tensors keep their types."""
        super().load_state_dict(state_dict)
        numbers = (n for group in state_dict["param_groups"] for n in group["params"])
        for number, p in zip(numbers, self._parameters(), strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, Tensor) and name != "step":  # else torch casts to bfloat16
                    self.state[p][name] = value.detach().clone().to(p.device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue from a state that torch has read."""
        super().__setstate__(state)
        if "inner" in self.__dict__:
            self.inner.param_groups = self.param_groups

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def _step_piece(self, piece: list[Tensor], every: list[tuple[Any, list[Tensor]]]) -> None:
        """Take the step of the parameters in a piece, by their masters."""
        masters = {p: self._master(p) for p in piece}
        for group, parameters in every:
            group["params"] = [masters[p] for p in parameters if p in masters]
        before = {
            p: {
                k: values_of(v) if isinstance(v, Tensor) else v
                for k, v in self.state[p].items()
            }
            for p in piece
        }
        self.inner.state.clear()
        for p in piece:
            self.inner.state[masters[p]] = {k: v for k, v in before[p].items() if k != BITS}
        self.inner.step()
        for p, master in masters.items():
            state = self.state[p]
            for name, value in self.inner.state[master].items():
                if value is not before[p].get(name):  # else it was changed in place
                    state[name] = _like(p, value)
            if master is not p and p.dtype is torch.bfloat16:
                _split(master.detach(), values_of(p), before[p][BITS])

    def _master(self, p: Tensor) -> Tensor:
        """Return what the optimizer moves for a parameter, with its gradient."""
        if p.dtype is not torch.bfloat16:
            return p
        if BITS not in self.state[p]:
            # As the bits of bfloat16, as neither Gloo nor NCCL knows int16.
            self.state[p][BITS] = _like(p, torch.zeros_like(values_of(p)))
        master = torch.nn.Parameter(_joined(values_of(p), values_of(self.state[p][BITS])))
        assert p.grad is not None
        master.grad = values_of(p.grad).float()
        return master


def _pieces(parameters: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    """Cut parameters into pieces of about `PIECE` elements."""
    total, piece = 0, list[Tensor]()
    for p in parameters:
        count = values_of(p).numel()
        if piece and total + count > PIECE:
            yield piece
            total, piece = 0, []
        total, piece = total + count, [*piece, p]
    if piece:
        yield piece


def _halves(master: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of the lower and the upper 16 bits of contiguous floats."""
    halves = master.view(master.numel(), 1).view(torch.int16)
    return halves[:, 0].view(master.shape), halves[:, 1].view(master.shape)


def _joined(weight: Tensor, bits: Tensor) -> Tensor:
    """Return the masters of weights."""
    master = torch.empty(weight.shape, dtype=torch.float32, device=weight.device)
    lower, upper = _halves(master)
    lower.copy_(bits.view(torch.int16))
    upper.copy_(weight.detach().view(torch.int16) + (lower >> 15))  # less 1 if it was raised
    return master


def _split(master: Tensor, weight: Tensor, bits: Tensor) -> None:
    """Write masters as weights and the bits that these lack."""
    lower, upper = _halves(torch.where(master.isnan(), math.nan, master))  # not rounded to 0
    bits.view(torch.int16).copy_(lower)
    weight.view(torch.int16).copy_(upper - (lower >> 15))


def _like(p: Tensor, value: Any) -> Any:
    """Return a value of a parameter's state, sharded as it is if it has an entry for each."""
    if not hasattr(p, "device_mesh") or not isinstance(value, Tensor) or not value.dim():
        return value
    from torch.distributed.tensor import DTensor

    placed: Any = p
    return DTensor.from_local(
        value,
        placed.device_mesh,
        placed.placements,
        run_check=False,
        shape=p.shape,
        stride=p.stride(),
    )
