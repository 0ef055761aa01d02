"""The data coordinate of a process, of groups and meshes."""

from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from sweephand.torch.distributed import coordinate

RANKS = 8


@pytest.fixture(params=range(RANKS))
def rank(request: pytest.FixtureRequest) -> Iterator[int]:
    """Be one of eight ranks, whose others do not exist."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=RANKS)
    yield request.param
    dist.destroy_process_group()


def mesh_of(**dims: int) -> DeviceMesh:
    return init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims))


def test_all_ranks_share_the_data_unless_told_otherwise(rank: int) -> None:
    assert coordinate() == (8, rank)


def test_ranks_of_tensor_pipeline_and_context_parallel_have_the_same_data(rank: int) -> None:
    assert coordinate(mesh_of(dp=4, tp=2)) == (4, rank // 2)
    assert coordinate(mesh_of(pp=2, dp_shard=2, cp=2)) == (2, rank // 2 % 2)
    assert coordinate(mesh_of(tp=8)) == (1, 0)


def test_replicas_and_shards_are_counted_together_in_the_order_of_the_mesh(rank: int) -> None:
    mesh = mesh_of(dp_replicate=2, dp_shard=2, tp=2)
    assert coordinate(mesh) == (4, rank // 2)
    assert coordinate(mesh["dp_replicate", "dp_shard"]) == (4, rank // 2)
    assert coordinate(mesh, "dp_replicate") == (2, rank // 4)
    assert coordinate(init_device_mesh("cpu", (8,))) == (8, rank), "it has no names"


def test_dimensions_of_unknown_names_are_listed(rank: int) -> None:
    mesh = mesh_of(node=2, gpu=4)
    with pytest.raises(ValueError, match=r"dimensions \['node', 'gpu'\] .* dims=, of \['node'"):
        coordinate(mesh)
    assert coordinate(mesh, ["node", "gpu"]) == (8, rank)
    with pytest.raises(ValueError, match=r"no dimension \['dp'\], it has \['node', 'gpu'\]"):
        coordinate(mesh, ["dp"])
    with pytest.raises(ValueError, match="2 dimensions without names"):
        coordinate(init_device_mesh("cpu", (2, 4)))


def test_a_group_shares_among_its_ranks(rank: int) -> None:
    groups = [dist.new_group([2 * i, 2 * i + 1]) for i in range(4)]
    assert coordinate(groups[rank // 2]) == (2, rank % 2)
    with pytest.raises(TypeError, match="a process group that this process is in"):
        coordinate(groups[(rank // 2 + 1) % 4])
    with pytest.raises(ValueError, match="dims are those of a DeviceMesh"):
        coordinate(None, "dp")


def test_without_a_group_there_is_one_worker_or_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert coordinate() == (1, 0)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r"WORLD_SIZE is 4, .*\.init_process_group"):
        coordinate()
