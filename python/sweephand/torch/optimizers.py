"""Torch optimizers under a guard, and the numbers that a device still computes for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeGuard

import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray
from torch import Tensor

from sweephand.errors import ArgumentTypeError
from sweephand.torch.gradients import (
    DeviceFindings,
    in_own_memory,
    norm_of_shards,
    plain_memory,
    values_of,
)
from sweephand.train.learners.arrays import Findings, check_tensors
from sweephand.train.learners.learner import check_hyperparameter
from sweephand.train.loss_scale.judgement import NOTHING, HostNumbers, Number, StepNumbers
from sweephand.train.loss_scale.optimizers import Optimizers


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
    return DeviceArray(value, torch.float64) if value.is_cuda else value.item()


def array_of(value: Tensor) -> Tensor | DeviceArray:
    """Return the numbers in a tensor, without waiting for a device; on a CPU the tensor."""
    return DeviceArray(value, torch.float32) if value.is_cuda else value


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
        return x.detach().to(self._vector) if isinstance(x, Tensor) else x

    def where(self, condition: Any, one: Number, other: Number) -> Number:
        if not isinstance(condition, Tensor):
            return super().where(condition, one, other)
        return torch.where(condition, one, other)

    def log(self, x: Number) -> Number:
        if not isinstance(x, Tensor):
            return super().log(x)
        return torch.where((x > 0) & (x < math.inf), x.log(), NOTHING)

    def as_float32(self, x: Number) -> Number:
        return x.float().double()

    def maximum(self, reduce: Any, mine: list[Number]) -> list[Number]:
        return list(reduce(self._stacked(mine)).unbind())

    def _stacked(self, numbers: list[Number]) -> Tensor:
        one = self._vector[0]
        return torch.stack(
            [x.double() if isinstance(x, Tensor) else torch.full_like(one, x) for x in numbers]
        )


# Keras' names of torch's options; for betas, an entry of the pair.
KERAS_NAMES = {"learning_rate": "lr", "epsilon": "eps"}
BETAS = {"beta_1": 0, "beta_2": 1}
# Those whose state begins with zeros: a first step that is skipped leaves zeros.
ZERO_BORN = {"Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "RAdam",
             "RMSprop"}  # fmt: skip


def are_optimizers(objects: Sequence[object]) -> TypeGuard[Sequence[torch.optim.Optimizer]]:
    """Return True if all are torch optimizers."""
    return all(isinstance(one, torch.optim.Optimizer) for one in objects)


class TorchOptimizers(Optimizers):
    """The `Optimizers` of torch optimizers."""

    def __init__(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        num_threads: int,
        measure_underflow: bool,
    ) -> None:
        super().__init__(num_threads)
        self._optimizers = optimizers
        self._measure_underflow = measure_underflow
        self._stays = False  # the verdict does, on the device
        self._given_names: Mapping[int, str] = {}
        self._names: list[str] = []  # of all parameters: each step needs them

    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written: torch's own and Keras'."""
        own = {name for group in self._groups() for name in group}
        own -= {"params", "param_names"}
        keras = {name for name, torchs in KERAS_NAMES.items() if torchs in own}
        return own | keras | (BETAS.keys() if "betas" in own else set())

    def read(self, name: str) -> list[Any]:
        own = _own_name(name)
        values = [group[own] for group in self._groups() if own in group]
        if name in BETAS:
            return [value[BETAS[name]] for value in values]
        return [float(value) if isinstance(value, Tensor) else value for value in values]

    def write(self, name: str, value: Any) -> None:
        check_hyperparameter(name, value)
        own = _own_name(name)
        for group in self._groups():
            if own not in group:
                continue
            if name in BETAS:
                pair = list(group[own])
                pair[BETAS[name]] = value
                group[own] = tuple(pair)
            elif isinstance(group[own], Tensor):  # it may be part of a captured graph
                group[own].fill_(value)
            else:
                group[own] = value

    def parameters(self) -> list[Any]:
        return [parameter for group in self._groups() for parameter in group["params"]]

    def name_parameters(self, names: Mapping[int, str]) -> None:
        """Use these names, keyed by ``id``, where a name is given."""
        self._given_names, self._names = names, []

    def names(self) -> list[str]:
        """Return their names: those that were given, or group and number."""
        if len(self._names) == sum(len(group["params"]) for group in self._groups()):
            return self._names
        names = self._names = []
        for i, group in enumerate(self._groups()):
            known = group.get("param_names") or [
                f"group {i} parameter {k}" for k in range(len(group["params"]))
            ]
            named = zip(group["params"], known, strict=True)
            names += [self._given_names.get(id(one), name) for one, name in named]
        return names

    def scaled(self, loss: Any, scale: Any) -> Any:
        if isinstance(loss, float):
            return loss * scale
        if not isinstance(loss, Tensor) or not loss.is_floating_point():
            raise ArgumentTypeError(
                f"the loss must be a float or a tensor of a floating type, got {loss!r}"
            )
        wide = loss.float() if loss.dtype.itemsize < 4 else loss
        return wide * (scale.to(wide) if isinstance(scale, Tensor) else scale)

    def is_nan(self, loss: Any) -> Any:
        if isinstance(loss, float):
            return math.isnan(loss)
        if type(loss) is Tensor and loss.is_cpu and loss.numel() == 1 and not self._stays:
            return math.isnan(loss.item())
        return loss.detach().isnan().any()

    def gradients(self) -> list[Any]:
        """Return the gradients that the parameters hold."""
        return [parameter.grad for parameter in self.parameters()]

    def zero_grad(self, set_to_none: bool) -> None:
        """Clear the gradients that the parameters hold."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none)

    def differentiate(self, loss: Any, parameters: Sequence[Any] | Any | None) -> None:
        """Set the gradients of the loss for these parameters only."""
        ours = self.parameters()
        given = [parameters] if isinstance(parameters, Tensor) else parameters
        chosen = ours if given is None else list(given)
        if foreign := {id(one) for one in chosen} - {id(one) for one in ours}:
            raise ValueError(f"{len(foreign)} of the variables are not the inner optimizer's")
        for parameter in ours:
            parameter.grad = None
        for parameter, gradient in zip(
            chosen, torch.autograd.grad(loss, chosen, allow_unused=True), strict=True
        ):
            parameter.grad = gradient

    def hold(self, gradients: Sequence[Any]) -> None:
        for parameter, gradient in zip(self.parameters(), gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def divided(
        self, names: Sequence[str], gradients: Sequence[Any], divisor: Any
    ) -> tuple[list[Any], Findings]:
        """Divide gradients in place; those that are sparse or share memory are replaced."""
        kept = list(gradients)
        plain = None if self._stays else plain_memory(kept)
        if plain is None:
            for name, gradient in zip(names, kept, strict=True):
                if not isinstance(gradient, Tensor) or not gradient.is_floating_point():
                    raise TypeError(
                        f"the gradient of {name} must be a tensor of a floating type"
                    )
            kept = in_own_memory([g.coalesce() if g.is_sparse else g for g in kept])
            values = list(map(values_of, kept))
            plain = None if self._stays else plain_memory(values)
        if plain is None:
            is_near = values[0].is_cpu and not self._stays
            measures = self._measure_underflow or is_near
            return kept, DeviceFindings(names, values, divisor, measures)
        return kept, check_tensors(
            names, plain, divisor, in_place=divisor != 1, num_threads=self._num_threads
        )

    def keep(self, numbers: StepNumbers, verdict: str | None) -> HostNumbers:
        """Keep them on the device for a verdict there: by default on an accelerator."""
        devices = {parameter.device for parameter in self.parameters()}
        device = next(iter(devices))
        if verdict is None and len(devices) == 1:
            is_near = device.type in ("cpu", "mps")  # which has no float64
            verdict = "host" if is_near else "device"
        self._stays = verdict == "device"
        return DeviceNumbers(numbers, device) if self._stays else HostNumbers(numbers)

    def cause(self, findings: Findings) -> Number:
        """Return the worst that was found; on the device what the norm does not show."""
        if self._stays and isinstance(findings, DeviceFindings):
            return findings.overflows()
        return super().cause(findings)

    def norm(self, findings: Findings) -> Number:
        """Return the norm of all gradients together, those of other shards included."""
        gradients = self._held()
        if self._stays and isinstance(findings, DeviceFindings):
            return norm_of_shards(gradients, findings.device_norms())
        if not any(hasattr(one, "device_mesh") for one in gradients):
            return super().norm(findings)
        norms = torch.tensor(findings.norms, dtype=torch.float64)
        return float(norm_of_shards(gradients, norms.unbind()))

    def clip(self, divisor: float) -> None:
        torch._foreach_div_([values_of(one) for one in self._held()], divisor)

    def take_unless_bad(self, is_good: Tensor, divisor: Tensor | None) -> None:
        """Take a step with divided gradients that leaves no trace if a device says so."""
        skip = ~is_good
        for one in self._optimizers:
            optimizer: Any = one
            # It divides gradients and skips by itself, as GradScaler has it do.
            if getattr(optimizer, "_step_supports_amp_scaling", False):
                optimizer.found_inf = skip.float()
                optimizer.grad_scale = None if divisor is None else divisor.float()
                try:
                    optimizer.step()
                finally:
                    del optimizer.found_inf, optimizer.grad_scale
                continue
            groups = optimizer.param_groups
            taken = [p for group in groups for p in group["params"] if p.grad is not None]
            if divisor is not None:
                for parameter in taken:
                    _divide(values_of(parameter.grad), divisor)
            _step_unless(skip, optimizer, taken)

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        if (num_samples, sweeps_ended) != (1, 0):
            raise TypeError(
                "a torch optimizer counts no samples: give them to sweephand.torch.Learner"
            )
        for optimizer in self._optimizers:
            optimizer.step()

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Do nothing: a torch optimizer has no clock of consumed samples."""

    def reduction(self) -> Callable[[Any], Any] | None:
        """Return the maximum over the processes of ``torch.distributed``, if there are any."""
        group = torch.distributed
        if not (group.is_available() and group.is_initialized()):
            return None
        # Gloo and MPI reduce in main memory; all other backends where the parameters are.
        backend = group.get_backend()
        in_memory = any(name in backend for name in ("gloo", "mpi"))
        device = torch.device("cpu") if in_memory else self.parameters()[0].device

        def maximum(values: Any) -> Any:
            tensor = values if self._stays else torch.tensor(values, device=device)
            group.all_reduce(tensor, op=group.ReduceOp.MAX)
            return tensor if self._stays else tensor.cpu().numpy()

        return maximum

    def _held(self) -> list[Any]:
        """Return the gradients that are there."""
        return [gradient for gradient in self.gradients() if gradient is not None]

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self._optimizers:
            yield from optimizer.param_groups


def _own_name(name: str) -> str:
    return "betas" if name in BETAS else KERAS_NAMES.get(name, name)


def _divide(gradient: Tensor, divisor: Tensor) -> None:
    """Divide a gradient in float32 at least: a divisor may be too large for 16 bits."""
    wide = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
    wide.div_(divisor.to(wide))
    if wide is not gradient:
        gradient.copy_(wide)


@torch.no_grad()
def _step_unless(skip: Tensor, optimizer: torch.optim.Optimizer, taken: list[Tensor]) -> None:
    """Take a step, and put back all that it changed if it is to be skipped."""

    def state() -> list[Any]:
        return [value for p in taken for value in optimizer.state.get(p, {}).values()]

    name = type(getattr(optimizer, "inner", optimizer)).__name__
    plain_sgd = name == "SGD" and not any(g["dampening"] for g in optimizer.param_groups)
    is_born = all(p in optimizer.state for p in taken) or name in ZERO_BORN or plain_sgd
    if not is_born or not all(v is None or isinstance(v, Tensor) for v in state()):
        if not bool(skip):  # its state cannot be put back: this waits
            optimizer.step()
        return
    changing = [*taken, *(one for one in state() if one is not None)]
    before = {id(one): values_of(one).clone() for one in changing}
    optimizer.step()
    for one in (*taken, *(one for one in state() if isinstance(one, Tensor))):
        values = values_of(one)
        values.copy_(torch.where(skip.to(values.device), before.get(id(one), 0.0), values))
