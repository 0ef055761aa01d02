"""The torch optimizers that a loss scale wraps."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import Any, TypeGuard

import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray
from torch import Tensor

from sweephand.errors import ArgumentTypeError
from sweephand.torch.train.device_steps import DeviceSteps
from sweephand.torch.train.gradients import (
    divide,
    in_own_memory,
    norm_of_shards,
    plain_memory,
    values_of,
)
from sweephand.train.learners.finite_check import Findings, check_tensors
from sweephand.train.learners.hyperparameters import check_hyperparameter
from sweephand.train.loss_scale.dynamic_scale import DynamicScale
from sweephand.train.loss_scale.optimizers import Optimizers, StepUndone
from sweephand.train.loss_scale.outliers import OutlierWatch
from sweephand.train.loss_scale.step_log import GuardLog
from sweephand.train.loss_scale.step_result import StepResult
from sweephand.train.loss_scale.worker_agreement import Reduce

# Keras' names of torch's options; for betas, an entry of the pair.
KERAS_NAMES = {"learning_rate": "lr", "epsilon": "eps"}
BETAS = {"beta_1": 0, "beta_2": 1}

_gradient = attrgetter("grad")


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

    def hyperparameters(self) -> set[str]:
        """Return the names that can be read and written: torch's own and Keras'."""
        own = {name for group in self._groups() for name in group}
        own -= {"params", "param_names"}
        keras = {name for name, torchs in KERAS_NAMES.items() if torchs in own}
        return own | keras | (BETAS.keys() if "betas" in own else set())

    def read(self, name: str) -> list[Any]:
        """Return the value in every parameter group that has it."""
        own = _own_name(name)
        values = [group[own] for group in self._groups() if own in group]
        if name in BETAS:
            return [value[BETAS[name]] for value in values]
        return [float(value) if isinstance(value, Tensor) else value for value in values]

    def write(self, name: str, value: Any) -> None:
        """Set the value in every parameter group that has it."""
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
        """Return the parameters of all groups."""
        return [parameter for group in self._groups() for parameter in group["params"]]

    def own_names(self) -> list[str]:
        """Return their names: those the optimizer was given, or group and number."""
        names: list[str] = []
        for i, group in enumerate(self._groups()):
            given = group.get("param_names")
            names += given or _numbered(i, len(group["params"]))
        return names

    def scaled(self, loss: Any, scale: Any) -> Any:
        """Return the loss times the scale, in float32 at least."""
        if isinstance(loss, float):
            return loss * scale
        if not isinstance(loss, Tensor) or not loss.is_floating_point():
            raise ArgumentTypeError(
                f"the loss must be a float or a tensor of a floating type, got {loss!r}"
            )
        wide = loss.float() if loss.dtype.itemsize < 4 else loss
        return wide * (scale.to(wide) if isinstance(scale, Tensor) else scale)

    def is_nan(self, loss: Any) -> Any:
        """Return True if the loss has a NaN, as a tensor on its device."""
        if isinstance(loss, float):
            return math.isnan(loss)
        if type(loss) is Tensor and loss.is_cpu and loss.numel() == 1 and not self._stays:
            return math.isnan(loss.item())
        return loss.detach().isnan().any()

    def gradients(self) -> list[Any]:
        """Return the gradients that the parameters hold."""
        return list(map(_gradient, self.parameters()))

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
        """Give these gradients to the parameters."""
        for parameter, gradient in zip(self.parameters(), gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def divided(
        self, names: Sequence[str], gradients: Sequence[Any], divisor: Any
    ) -> tuple[list[Any], Findings]:
        """Divide gradients in place; those that are sparse or share memory are replaced."""
        if not self._stays and (plain := plain_memory(gradients)) is not None:
            findings: Findings = check_tensors(
                names, plain, divisor, in_place=divisor != 1, num_threads=self._num_threads
            )
            return list(gradients), findings
        for name, gradient in zip(names, gradients, strict=True):
            if not isinstance(gradient, Tensor) or not gradient.is_floating_point():
                raise TypeError(f"the gradient of {name} must be a tensor of a floating type")
        gradients = in_own_memory([g.coalesce() if g.is_sparse else g for g in gradients])
        findings = divide(
            names,
            [values_of(gradient) for gradient in gradients],
            divisor,
            num_threads=self._num_threads,
            measure_underflow=self._measure_underflow,
        )
        return gradients, findings

    def device_steps(
        self,
        verdict: str | None,
        scale: DynamicScale,
        log: GuardLog,
        watch: OutlierWatch | None,
    ) -> DeviceSteps | None:
        """Return the steps if their verdict stays on the device: by default on accelerators."""
        devices = {parameter.device for parameter in self.parameters()}
        evaluates = any(isinstance(one, torch.optim.LBFGS) for one in self._optimizers)
        if verdict is None and len(devices) == 1 and not evaluates:
            verdict = "host" if devices <= {torch.device("cpu")} else "device"
        self._stays = verdict == "device"
        device = self.parameters()[0].device
        return DeviceSteps(scale, log, watch, device) if self._stays else None

    def step_on(self, steps: DeviceSteps, findings: Any, **options: Any) -> StepResult:
        """Take a step whose verdict stays on the device."""
        gradients = [one.grad for one in self.parameters() if one.grad is not None]
        norm = None if findings is None else findings.norm(gradients)
        return steps.step(self._optimizers, findings, norm, **options)

    def norm(self, findings: Findings | None) -> float | None:
        """Return the norm of all gradients together, those of other shards included."""
        gradients = [one.grad for one in self.parameters() if one.grad is not None]
        if findings is None or not any(hasattr(one, "device_mesh") for one in gradients):
            return super().norm(findings)
        return float(norm_of_shards(gradients, torch.tensor(findings.norms).double().unbind()))

    def clip(self, divisor: float) -> None:
        """Divide the gradients that the parameters hold."""
        gradients = [one.grad for one in self.parameters() if one.grad is not None]
        torch._foreach_div_([values_of(one) for one in gradients], divisor)

    @contextmanager
    def clipped(self, divisor: float) -> Iterator[None]:
        """Let fused optimizers divide the gradients as they read them in a step inside."""
        fused: list[Any] = list(self._optimizers)
        if not all(getattr(one, "_step_supports_amp_scaling", False) for one in fused):
            self.clip(divisor)
            yield
            return
        device = self.parameters()[0].device
        for one in fused:  # as GradScaler sets them
            one.grad_scale = torch.full((), divisor, device=device)
            one.found_inf = torch.zeros((), device=device)
        try:
            yield
        finally:
            for one in fused:
                del one.grad_scale, one.found_inf

    def take(self, num_samples: int, sweeps_ended: int) -> None:
        """Take a step with the gradients that the parameters hold."""
        if (num_samples, sweeps_ended) != (1, 0):
            raise TypeError(
                "a torch optimizer counts no samples: give them to sweephand.torch.Learner"
            )
        for optimizer in self._optimizers:
            optimizer.step()

    def step_with(self, closure: Callable[[], Any]) -> None:
        """Take a step that evaluates a closure, or none if the closure raises `StepUndone`."""
        parameters = self.parameters()
        before = [parameter.detach().clone() for parameter in parameters]
        states = [copy.deepcopy(optimizer.state_dict()) for optimizer in self._optimizers]
        try:
            for optimizer in self._optimizers:
                optimizer.step(closure)
        except StepUndone:
            with torch.no_grad():
                for parameter, values in zip(parameters, before, strict=True):
                    parameter.copy_(values)
            for optimizer, state in zip(self._optimizers, states, strict=True):
                optimizer.load_state_dict(state)

    def skip(self, num_samples: int, sweeps_ended: int) -> None:
        """Do nothing: a torch optimizer has no clock of consumed samples."""

    def reduction(self) -> Reduce | None:
        """Return the maximum over the processes of ``torch.distributed``, if there are any."""
        group = torch.distributed
        if not (group.is_available() and group.is_initialized()):
            return None
        # Gloo and MPI reduce in main memory; all other backends where the parameters are.
        backend = group.get_backend()
        in_memory = any(name in backend for name in ("gloo", "mpi"))
        device = torch.device("cpu") if in_memory else self.parameters()[0].device

        def maximum(values: NDArray[np.float64]) -> NDArray[np.float64]:
            tensor = torch.tensor(values, device=device)
            group.all_reduce(tensor, op=group.ReduceOp.MAX)
            reduced: NDArray[np.float64] = tensor.cpu().numpy()
            return reduced

        return maximum

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self._optimizers:
            yield from optimizer.param_groups


@cache
def _numbered(group: int, count: int) -> tuple[str, ...]:
    return tuple(f"group {group} parameter {k}" for k in range(count))


def _own_name(name: str) -> str:
    return "betas" if name in BETAS else KERAS_NAMES.get(name, name)
