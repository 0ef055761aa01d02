"""Torch modules in the form that a trainer uses, alone or trained by many processes."""

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from sweephand.errors import ArgumentTypeError, StateError, shown
from sweephand.torch.distributed.control import Control
from sweephand.torch.distributed.coordinate import has_group, num_processes
from sweephand.torch.learner import TorchLearner
from sweephand.torch.optimizers import array_of, number_of
from sweephand.torch.saved_state import (
    SavedState,
    capture_random_state,
    on_host,
    part_like,
    restore_random_state,
    saved_array,
    saved_tensor,
    whole,
)
from sweephand.train.learners.learner import report_restored
from sweephand.train.states import Array, SavedArrays
from sweephand.train.trainer.trained_model import (
    WEIGHTS,
    Data,
    Outcome,
    PartNorms,
    SavedFiles,
    check_coverage,
    check_losses,
    check_scales,
    restore_scales,
)

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


# Seconds that a rank of a trainer waits for other ranks, below the ten minutes of NCCL.
LIMIT = 540.0


class Engine:
    """Engine that averages the gradients of replicas or shards (FSDP2), or of one process.

    ValueError is raised for many processes with nothing that makes them train together.
    """

    def __init__(self, model: nn.Module) -> None:
        self.num_averaged = 1
        # All that train together, None for all of torch.distributed; or those that shard and
        # replicate parameters, along all dimensions of their mesh.
        self.group: dist.ProcessGroup | None = None
        self.mesh: DeviceMesh | None = None
        self._replicated: DistributedDataParallel | None = None
        self._sharded: FSDPModule | None = None
        module: Any = model
        while True:
            if isinstance(module, DistributedDataParallel):
                self._replicated, module = module, module.module
            elif isinstance(inside := getattr(module, "_orig_mod", None), nn.Module):
                module = inside  # of torch.compile
            else:
                break
        self.module: nn.Module = module  # without its wrappers
        if self._replicated is not None:
            group: dist.ProcessGroup = self._replicated.process_group
            self.num_averaged = group.size()
            self.group = None if group is dist.group.WORLD else group
        elif any(groups := list(_groups_of(module))):
            self._sharded = module
            mesh: DeviceMesh = groups[0].mesh_info.mesh  # all groups have one
            self.mesh, self.num_averaged = mesh, mesh.size()
        elif has_group() and num_processes() > 1:
            raise ValueError(
                f"{num_processes()} workers need the model in a DistributedDataParallel or "
                f"under fully_shard, or they train apart; it is a {type(model).__name__}"
            )

    def workers(self) -> Control:
        """Return the processes, as they share data."""
        if self.mesh is not None:
            return Control(LIMIT, self.mesh, self.mesh.mesh_dim_names)
        return Control(LIMIT, self.group)

    @contextmanager
    def syncing(self, *, is_last: bool) -> Iterator[None]:
        """Return a context for a backward, in which gradients are exchanged if it is last."""
        if self._sharded is not None:
            self._sharded.set_is_last_backward(is_last)
            self._sharded.set_requires_gradient_sync(is_last)
        waits = self._replicated is not None and not is_last
        with self._replicated.no_sync() if waits else nullcontext():  # type: ignore[union-attr]
            yield

    def leaves(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors to which a backward gives gradients, after the forward.

        They are the whole parameters that were gathered, and those that are not sharded.
        """
        gathered = [
            one._unsharded_param
            for group in _groups_of(self._sharded)
            for one in group.fsdp_params
            if hasattr(one, "_unsharded_param")
        ]
        own = [one for one in parameters if not hasattr(one, "device_mesh")]
        return [one for one in (*gathered, *own) if one.requires_grad]


def _groups_of(module: Any) -> Iterator[Any]:
    """Yield the groups of parameters that are sharded together, if the module is sharded."""
    if module is None or "torch.distributed.fsdp" not in sys.modules:  # it is heavy
        return
    from torch.distributed.fsdp import FSDPModule

    parts = [part for part in module.modules() if isinstance(part, FSDPModule)]
    if isinstance(module, FSDPModule):
        groups = (part._get_fsdp_state()._fsdp_param_group for part in parts)
        yield from (group for group in groups if group is not None)


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
        filled = [size for size in sizes if size]
        numbers = len(filled), sum(1 / size for size in filled), 0
        # Over this worker's parts, as `PartNorms` has them over all.
        self.sums = [torch.tensor(n, dtype=_wide(device), device=device) for n in numbers]

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
            norm = torch.stack(self._norms).to(self.sums[-1].dtype).norm()
            self.sums[-1] += (norm * (self._factor / self._sizes[i])).square()

    def _add(self, number: int, gradient: Tensor) -> None:
        norm = norm_of(gradient)
        self._norms.append(norm.fill_(math.nan) if number in self._seen else norm)
        self._seen.add(number)


def _wide(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def norm_of(gradient: Tensor) -> Tensor:
    """Return the norm of a gradient, of halves in float32."""
    values = gradient.detach()
    if values.is_sparse:
        values = values.coalesce().values()
    dtype = torch.float64 if values.dtype is torch.float64 else torch.float32
    norm: Tensor = torch.linalg.vector_norm(values, dtype=dtype)
    return norm


class TorchModel:
    """A torch module with its learners, compiled or not, as `NumpyModel` is to a trainer.

    Several workers have it in a `DistributedDataParallel`, or sharded by ``fully_shard``. Its
    criterion returns the sum of the loss, or that and the sum of a metric. ArgumentTypeError is
    raised for learners that are not of torch, ValueError if a parameter has no learner or
    several, a learner has others, a guard does not hold for all learners, or workers would
    train apart.
    """

    capture_random_state = staticmethod(capture_random_state)
    restore_random_state = staticmethod(restore_random_state)

    def __init__(
        self,
        model: nn.Module,
        criterion: Callable[[Any, Any], Any],
        learners: Sequence[TorchLearner],
    ) -> None:
        if str(getattr(criterion, "__module__", "")).startswith("torch.nn"):
            raise ArgumentTypeError(
                "criterion takes model and minibatch, where torch's losses take outputs and "
                "labels: write def criterion(model, minibatch), which returns cross_entropy("
                "model(minibatch['x'].torch()), minibatch['labels'].torch(), reduction='sum')"
            )
        for learner in learners:
            if not isinstance(learner, TorchLearner):
                raise ArgumentTypeError(
                    "the learners of a torch module must be sweephand.torch.Learner, got "
                    f"{shown(learner)}; write sh.torch.Learner(optimizer, lr_schedule) around "
                    "a torch optimizer or its guard"
                )
        if len(learners) > 1 and any(one.guard is not None for one in learners):
            raise ValueError(
                "a loss scale or guard must hold for all parameters: give one learner with a "
                "LossScaleOptimizer or StepGuard around a list of optimizers"
            )
        self._engine = Engine(model)
        self.workers = self._engine.workers()
        self._criterion, self._model = criterion, model
        self._stand_ins: dict[bool, Data] = {}  # by whether the module is in training mode
        self.learners = learners
        self.guards = [one.guard for one in learners if one.guard is not None]
        self._module = self._engine.module
        self._optimizers = [optimizer for one in learners for optimizer in one.optimizers]
        named = dict(self._module.named_parameters())
        self._learned = {name: p for name, p in named.items() if p.requires_grad}
        names = {id(parameter): name for name, parameter in self._learned.items()}
        check_coverage(
            {name: identity for identity, name in names.items()},
            [id(parameter) for one in learners for parameter in one.parameters],
            frozen={id(parameter) for parameter in named.values()},
        )
        for guard in self.guards:
            guard.join(names, self.workers.maximum)
        self._was_differentiated = False

    @property
    def device(self) -> object:
        """The device of the first parameter; None for main memory."""
        device = next(iter(self._learned.values())).device
        return None if device.type == "cpu" else device

    def check_part_norms(self) -> None:
        """Raise if a parameter is sharded otherwise than over the mesh of ``fully_shard``.

        No process has the gradient of a whole parameter then.
        """
        mesh = self._engine.mesh
        for name, parameter in self._learned.items():
            if getattr(parameter, "device_mesh", mesh) != mesh:
                raise ValueError(
                    "norms of gradients cannot be measured where parameters are computed in "
                    f"parts, as {name} is: watch the loss alone"
                )

    def train(
        self,
        parts: Sequence[Data],
        num_samples: int,
        sweeps_ended: int,
        part_sizes: Sequence[int] | None = None,
    ) -> Outcome:
        """Take one step, as `NumpyModel.train`."""
        losses: list[tuple[Data, Any]] = []
        scale = self.guards[0].loss_scale if self.guards else 1.0
        meter, norms = None, None
        if part_sizes is not None:
            learned = list(self._learned.values())
            meter = PartNormMeter(
                lambda: self._engine.leaves(learned),
                learned[0].device,
                part_sizes,
                num_samples / (self._engine.num_averaged * scale),
            )
        loss, metric, *sums = self._differentiate(parts, num_samples, losses, meter)
        if isinstance(loss, float) and not math.isfinite(loss) and not self.guards:
            raise FloatingPointError(f"the loss is {loss}")
        if not self._was_differentiated:
            self._check_gradients()
        for guard in self.guards:
            if guard.wants_loss:
                guard.observe(float(loss) / num_samples)
        if meter:
            own = [norm_of(p.grad) for p in self._learned.values() if p.grad is not None]
            together = whole(torch.stack(own)).to(sums[-1].dtype).norm() / scale
            norms = PartNorms(*map(number_of, (*sums, together.square())))
        results = [one.step(num_samples, sweeps_ended) for one in self.learners]
        return Outcome(loss, metric, results, losses, norms)

    def evaluate(self, minibatch: Data) -> tuple[float, float | None]:
        """Return the sums of loss and metric over all workers, in evaluation mode."""
        training = [one for one in self._module.modules() if one.training]
        self._module.eval()
        try:
            with torch.no_grad():
                loss, metric, _, weight = self._sums(minibatch)
        finally:
            for one in training:
                one.training = True
        found = [one for one in (loss, metric) if one is not None]
        sums = [float(one) if weight else 0.0 for one in found]
        sums = self.workers.sum(sums)
        return sums[0], sums[1] if len(sums) > 1 else None

    def _sums(self, minibatch: Data) -> tuple[Tensor, Tensor | None, Tensor | None, float]:
        """Return the sums of loss and metric of a share, its losses, and the sums' weight.

        Gradients are averaged over processes, so the weight is their number. An empty share
        takes the last that was not empty, as its worker must take part in collective calls: it
        has no losses, and its weight is 0.
        """
        weight = float(self._engine.num_averaged)
        if weight > 1 or self.workers.num_partitions > 1:
            mode = self._module.training
            if getattr(minibatch, "num_sequences", None) == 0:
                weight = 0.0
                minibatch = self._stand_ins.get(mode, minibatch)
            else:
                self._stand_ins[mode] = minibatch
        found = self._criterion(self._model, minibatch)
        is_pair = isinstance(found, tuple | list) and len(found) == 2
        loss, metric = found if is_pair else (found, None)
        if not isinstance(loss, Tensor):
            raise ValueError(
                "the criterion must return the sum of the loss as a tensor, or a tensor of the "
                f"losses that make it up, and perhaps the sum of a metric, got {loss!r:.100}"
            )
        losses = loss.detach() if weight else None
        if loss.numel() != 1:
            check_losses(minibatch, tuple(loss.shape))
            # In double where the device has it: in half the sum overflows.
            loss = loss.sum(dtype=_wide(loss.device))
        if metric is not None and not isinstance(metric, Tensor):
            metric = torch.as_tensor(metric, device=loss.device)
        return loss.reshape(()), metric, losses, weight

    def _differentiate(
        self,
        parts: Sequence[Data],
        num_samples: int,
        losses: list[tuple[Data, Any]],
        meter: PartNormMeter | None,
    ) -> tuple[Any, ...]:
        """Give the parameters the mean gradient, and return the sums of loss and metric.

        The losses of each part are appended, then its measurements.
        """
        self._clear()
        sums: list[Tensor] = []
        with ExitStack() as stack:
            if self.guards and len(parts) > 1:
                stack.enter_context(self.guards[0].accumulate())
            for i, part in enumerate(parts):
                with self._engine.syncing(is_last=i == len(parts) - 1):
                    loss, metric, part_losses, weight = self._sums(part)
                    if part_losses is not None:
                        losses.append((part, array_of(part_losses)))
                    mean = loss * (weight / num_samples)
                    for guard in self.guards:
                        mean = guard.get_scaled_loss(mean)
                    with meter.part(i) if meter else nullcontext():
                        mean.backward()  # type: ignore[no-untyped-call]
                part_sums = [one.detach() for one in (loss, metric) if one is not None]
                if weight == 0:
                    part_sums = [torch.zeros_like(one) for one in part_sums]
                if sums:
                    part_sums = [a.double() + b for a, b in zip(sums, part_sums, strict=True)]
                sums = part_sums
        num_sums = len(sums)
        sums_of_all = [*sums, *(meter.sums if meter else ())]
        if self.workers.num_partitions > 1:
            together = torch.stack([one.double() for one in sums_of_all]) * self.workers.counts
            dist.all_reduce(together, group=self._engine.group)
            sums_of_all = list(together)
        numbers = [number_of(one) for one in sums_of_all[:num_sums]]
        return numbers[0], numbers[1] if num_sums > 1 else None, *sums_of_all[num_sums:]

    def _check_gradients(self) -> None:
        """Warn, once, about parameters that the loss does not depend on."""
        missing = [name for name, p in self._learned.items() if p.grad is None]
        if len(missing) == len(self._learned):
            raise ValueError(f"no parameter has a gradient: {', '.join(missing[:5])}")
        if missing:
            warnings.warn(
                f"the loss gives {len(missing)} parameters no gradient, they stay as they are: "
                f"{', '.join(missing[:5])}",
                stacklevel=5,  # who called Trainer.train_minibatch
            )
        self._was_differentiated = True

    def check_savable(self) -> None:
        self._tensors()

    def capture(self) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors = on_host(dict(self._tensors()))
        files: dict[str, Any] = {
            WEIGHTS: SavedArrays({name: saved_array(one) for name, one in tensors.items()})
        }
        for i, optimizer in enumerate(self._optimizers):
            files[_optimizer_file(i)] = SavedState(on_host(optimizer.state_dict()))
        return files, self.describe()

    def describe(self) -> dict[str, Any]:
        return {
            # The kind of each, and how many parameters its groups have.
            "optimizers": [
                [type(one).__name__, [len(group["params"]) for group in one.param_groups]]
                for one in self._optimizers
            ],
            "learners": [learner.state_dict() for learner in self.learners],
            "loss_scales": [guard.state_dict() for guard in self.guards],
        }

    def tensors(self) -> dict[str, Any]:
        """Return parameters and states of optimizers, uncopied; of shards the local shard.

        Optimizers without a step return the states that they will have, and are not changed.
        """
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

        has_begun = any(optimizer.state for optimizer in self._optimizers)
        if not has_begun:
            self._clear()
        tensors = self._tensors()
        fresh = [optimizer for optimizer in self._optimizers if not optimizer.state]
        states = get_optimizer_state_dict(self._module, self._optimizers)
        for optimizer in fresh:
            optimizer.state.clear()
        return {"model": tensors, "optimizers": states, "has_begun": has_begun}

    def load(self, tensors: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        self._check_learners(state)
        given = self._settings()
        self._module.load_state_dict(tensors["model"])
        if tensors["has_begun"]:
            from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

            set_optimizer_state_dict(self._module, self._optimizers, tensors["optimizers"])
        else:
            for optimizer in self._optimizers:
                optimizer.state.clear()
        self._load_described(state, given)

    def read(self, folder: Path) -> dict[str, Any]:
        files: dict[str, Any] = {WEIGHTS: SavedArrays.read(folder / WEIGHTS)}
        for i in range(len(self._optimizers)):
            files[_optimizer_file(i)] = SavedState.read(folder / _optimizer_file(i))
        return files

    def check(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        like = {name: _like(one) for name, one in self._tensors().items()}
        files[WEIGHTS].check("model", SavedArrays(like))
        self._check_learners(state)

    def _check_learners(self, state: Mapping[str, Any]) -> None:
        mine, theirs = self.describe()["optimizers"], state.get("optimizers")
        if mine != theirs:
            raise StateError(f"the checkpoint is of the optimizers {theirs}, here are {mine}")
        count, found = len(self.learners), len(state["learners"])
        if count != found:
            raise StateError(f"the checkpoint is of {found} learners, here are {count}")
        check_scales(self.guards, state["loss_scales"])

    def keep_hyperparameters(self, files: SavedFiles, state: dict[str, Any]) -> None:
        for learner, one in zip(self.learners, state["learners"], strict=True):
            learner.keep_hyperparameters(one)
        saved = [files[_optimizer_file(i)].state for i in range(len(self._optimizers))]
        groups = [group for one in saved for group in one["param_groups"]]
        for group, present in zip(groups, self._settings(), strict=True):
            group |= present

    def _settings(self) -> list[dict[str, Any]]:
        return [group for learner in self.learners for group in learner.settings()]

    def restore(self, files: SavedFiles, state: Mapping[str, Any]) -> None:
        given = self._settings()
        likes, weights = self._tensors(), files[WEIGHTS].arrays.items()
        self._module.load_state_dict(
            {name: part_like(likes[name], saved_tensor(array)) for name, array in weights}
        )
        for i, optimizer in enumerate(self._optimizers):
            saved = copy.deepcopy(files[_optimizer_file(i)].state)  # the optimizer keeps it
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            numbers = [number for group in saved["param_groups"] for number in group["params"]]
            for number, parameter in zip(numbers, parameters, strict=True):
                of_one = saved["state"].get(number, {})
                for name, value in of_one.items():
                    if isinstance(value, Tensor):
                        of_one[name] = part_like(parameter, value)
            optimizer.load_state_dict(saved)
        self._load_described(state, given)

    def _load_described(
        self, state: Mapping[str, Any], given: Sequence[Mapping[str, Any]]
    ) -> None:
        for i, (mine, theirs) in enumerate(zip(given, self._settings(), strict=True)):
            place = f" of group {i}" if len(given) > 1 else ""
            for name, value in mine.items():
                report_restored(name + place, theirs.get(name), value)
        for learner, one in zip(self.learners, state["learners"], strict=True):
            learner.load_state_dict(one)
        restore_scales(self.guards, state["loss_scales"])

    def _clear(self) -> None:
        for parameter in self._learned.values():
            parameter.grad = None
        for guard in self.guards:
            guard.discard()

    def _tensors(self) -> dict[str, Tensor]:
        """Return the saved tensors of the module, by name, or raise TypeError."""
        found = self._module.state_dict()
        for name, value in found.items():
            try:
                _like(value)
                if value.layout is torch.strided and not value.is_meta:
                    continue
            except (AttributeError, TypeError):  # no tensor, or of a type that NumPy lacks
                pass
            kind = shown(value)
            if isinstance(value, Tensor):
                kind = f"{value.layout} {value.dtype} on {value.device}"
            raise TypeError(
                f"{name} of the module's state cannot be saved, it is {kind}: register it "
                "with persistent=False, or keep it as a dense tensor of another dtype"
            )
        return found


def _optimizer_file(i: int) -> str:
    return f"optimizer_{i}.pt"


def _like(tensor: Tensor) -> Array:
    """Return an array of the kind that a tensor is saved as, without its values."""
    return saved_array(torch.empty((), dtype=tensor.dtype).expand(tensor.shape))


def is_module(model: object) -> bool:
    """Return True for a torch module."""
    return isinstance(model, nn.Module)
