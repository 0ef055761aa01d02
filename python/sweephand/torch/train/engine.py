"""Engines that train one module by many processes: replicas, or shards of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from sweephand.torch.distributed.control import Control
from sweephand.torch.distributed.coordinate import has_group, num_processes

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

# Seconds that a rank of a trainer waits for other ranks, below the ten minutes of NCCL.
LIMIT = 540.0


class Engine:
    """Engine that averages the gradients of processes; this class has a single process.

    Attributes
    ----------
    num_averaged : int
        Processes whose gradients it averages.
    group : ProcessGroup or None
        All that train together; None is all of ``torch.distributed``.
    mesh : DeviceMesh or None
        The processes over which it shards parameters, if it does.
    """

    num_averaged = 1
    group: dist.ProcessGroup | None = None
    mesh: DeviceMesh | None = None

    def workers(self) -> Control:
        """Return the processes, as they share data."""
        return Control(LIMIT)

    def syncing(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Return a context for a backward, in which gradients are exchanged if it is last."""
        return nullcontext()

    def leaves(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Return the tensors to which a backward gives gradients, after the forward."""
        return list(parameters)


class Replicas(Engine):
    """A `DistributedDataParallel`: every process has the whole module."""

    def __init__(self, replicated: DistributedDataParallel) -> None:
        self._replicated = replicated
        group: dist.ProcessGroup = replicated.process_group
        self.num_averaged = group.size()
        self.group = None if group is dist.group.WORLD else group

    def workers(self) -> Control:
        """Return the processes that have replicas."""
        return Control(LIMIT, self.group)

    def syncing(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Return a context for a backward, in which gradients are exchanged if it is last."""
        if is_last:
            return nullcontext()
        waiting: AbstractContextManager[None] = self._replicated.no_sync()
        return waiting


class Shards(Engine):
    """Modules under ``fully_shard`` (FSDP2): every process has a part of each."""

    def __init__(self, sharded: FSDPModule, mesh: DeviceMesh) -> None:
        self._sharded = sharded
        self.mesh: DeviceMesh = mesh
        self.num_averaged = mesh.size()

    def workers(self) -> Control:
        """Return the processes of the mesh: all its dimensions replicate or shard."""
        return Control(LIMIT, self.mesh, self.mesh.mesh_dim_names)

    @contextmanager
    def syncing(self, *, is_last: bool) -> Iterator[None]:
        """Return a context for a backward, in which gradients are exchanged if it is last."""
        self._sharded.set_is_last_backward(is_last)
        self._sharded.set_requires_gradient_sync(is_last)
        yield

    def leaves(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Return the whole parameters that were gathered, and those that are not sharded."""
        gathered = [
            one._unsharded_param
            for group in _groups_of(self._sharded)
            for one in group.fsdp_params
            if hasattr(one, "_unsharded_param")
        ]
        own = [one for one in parameters if not hasattr(one, "device_mesh")]
        return [one for one in (*gathered, *own) if one.requires_grad]


def unwrapped(model: nn.Module) -> tuple[nn.Module, Engine]:
    """Return the module without its wrappers, and its engine for many processes.

    ValueError is raised if there are many, and nothing that makes them train together.
    """
    engine: Engine | None = None
    module = model
    while True:
        if isinstance(module, DistributedDataParallel):
            engine = Replicas(module)
            module = module.module
        elif isinstance(inside := getattr(module, "_orig_mod", None), nn.Module):
            module = inside  # of torch.compile
        else:
            break
    if engine is None:
        engine = _shards_of(module)
    if engine is None and has_group() and num_processes() > 1:
        raise ValueError(
            f"{num_processes()} workers need the model in a DistributedDataParallel or under "
            f"fully_shard, or they train apart; it is a {type(model).__name__}"
        )
    return module, engine or Engine()


def _shards_of(module: nn.Module) -> Shards | None:
    """Return the shards of a module, if it is sharded."""
    if "torch.distributed.fsdp" not in sys.modules:  # it is heavy, and not in use
        return None
    from torch.distributed.fsdp import FSDPModule

    if not isinstance(module, FSDPModule):
        return None
    for group in _groups_of(module):  # all have one mesh
        return Shards(module, group.mesh_info.mesh)
    return None


def _groups_of(module: Any) -> Iterator[Any]:
    """Yield the groups of parameters that are sharded together."""
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        group = (
            part._get_fsdp_state()._fsdp_param_group if isinstance(part, FSDPModule) else None
        )
        if group is not None:
            yield group
