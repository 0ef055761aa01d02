"""Which of how many workers this process is, as far as data are concerned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from sweephand.errors import shown

if TYPE_CHECKING:  # some builds of torch have no distributed
    GroupOrMesh: TypeAlias = dist.ProcessGroup | DeviceMesh

# Names of mesh dimensions in FSDP2, torchtitan, Megatron and other libraries.
SHARES = {
    "data", "ddp", "dp", "dp_replicate", "dp_shard", "fsdp", "hsdp", "replicate", "shard",
}  # fmt: skip
SAME_DATA = {
    "context", "cp", "model", "pipe", "pipeline", "pp", "sequence", "sp", "tensor", "tp",
}  # fmt: skip


def coordinate(
    group_or_mesh: GroupOrMesh | None = None, dims: str | Sequence[str] | None = None
) -> tuple[int, int]:
    """Return the number of workers that share the data, and the index of this process.

    These are ``num_data_partitions`` and ``partition_index``; (1, 0) for a single process.

    Parameters
    ----------
    group_or_mesh : ProcessGroup or DeviceMesh, optional
        The processes with data of their own; by default all of ``torch.distributed``. In a mesh
        these are the dimensions that replicate or shard the model; along the others (tensor,
        pipeline and context parallel) all ranks have the same data.
    dims : str or sequence of str, optional
        The dimensions of the mesh over which data are shared, if their names are unknown.

    Raises
    ------
    RuntimeError
        If several processes were launched and there is no process group.
    ValueError
        If a mesh has dimensions of unknown names, or this process is not in it.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> K, rank = sh.torch.distributed.coordinate()
    >>> source = sh.MinibatchSource({"x": np.arange(6)})
    >>> minibatch = source.next_minibatch(4, num_data_partitions=K, partition_index=rank)
    >>> minibatch.num_samples
    4
    """
    if isinstance(group_or_mesh, DeviceMesh):
        return _of_mesh(group_or_mesh, dims)
    if dims is not None:
        raise ValueError("dims are those of a DeviceMesh; give it as group_or_mesh")
    if group_or_mesh is not None:
        if not isinstance(group_or_mesh, dist.ProcessGroup):
            raise TypeError(
                "group_or_mesh must be a process group that this process is in, or a "
                f"DeviceMesh, got {shown(group_or_mesh)}"
            )
        return group_or_mesh.size(), group_or_mesh.rank()
    if has_group():
        return dist.get_world_size(), dist.get_rank()
    if num_processes() > 1:
        raise RuntimeError(
            f"WORLD_SIZE is {num_processes()}, but torch.distributed is not initialised, so "
            "that every process would get all rows. Call torch.distributed.init_process_group "
            "before the first iteration, or give num_data_partitions and partition_index"
        )
    return 1, 0


def has_group() -> bool:
    """Return True if ``torch.distributed`` is initialised here."""
    return dist.is_available() and dist.is_initialized()


def num_processes() -> int:
    """Return the number of processes that train together, from the group or the launcher."""
    if has_group():
        return dist.get_world_size()
    launched = os.environ.get("WORLD_SIZE", "")
    return int(launched) if launched.isdecimal() else 1


def _of_mesh(mesh: DeviceMesh, dims: str | Sequence[str] | None) -> tuple[int, int]:
    """Return the coordinate over dimensions, in the order of the mesh."""
    names = mesh.mesh_dim_names or ("data",) * (mesh.ndim == 1)
    if not names:
        raise ValueError(
            f"the mesh has {mesh.ndim} dimensions without names; make it with mesh_dim_names=, "
            "such as ('dp', 'tp')"
        )
    wanted = SHARES if dims is None else {dims} if isinstance(dims, str) else set(dims)
    if dims is None and (unknown := [name for name in names if name not in SHARES | SAME_DATA]):
        raise ValueError(
            f"the mesh has dimensions {unknown} of which it is not known whether their ranks "
            f"share data or have the same; name those that share them: dims=, of {list(names)}"
        )
    if dims is not None and (unknown := sorted(wanted - set(names))):
        raise ValueError(f"the mesh has no dimension {unknown}, it has {list(names)}")
    place = mesh.get_coordinate()
    if place is None:
        raise ValueError("this process is not in the mesh")
    count, index = 1, 0
    for name, size, mine in zip(names, mesh.shape, place, strict=True):
        if name in wanted:
            count, index = count * size, index * size + mine
    return count, index
