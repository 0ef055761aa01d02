"""Two ranks take the steps of one process; each goes on from the checkpoints of the other."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed.checkpoint as dcp
from tests.torch.launch import ROOT, launch
from tests.torch.trained import PARTS, SIZES, Run, parts_of

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
FUNCTIONS = ["train", "save", "load", "fsdp_example"]
FAILING = ["raises", "raises_beside"]
Stories = dict[str, list[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def stories(folder: Path) -> Stories:
    """Save what one process has trained, and run all that two ranks do."""
    alone = Run("alone")
    alone.steps(0, 2)
    dcp.save(parts_of(alone), checkpoint_id=folder / "of one", no_dist=True)
    ended = launch(2, [*FUNCTIONS, *FAILING], folder, "tests.torch.trained")
    failed = {name: ended.pop(name) for name in FAILING}
    assert {name: [rank.code for rank in ranks] for name, ranks in ended.items()} == {
        name: [0, 0] for name in FUNCTIONS
    }
    told = {name: [rank.found for rank in ranks] for name, ranks in ended.items()}
    return told | failed


@pytest.mark.parametrize(
    "way", [*(f"{kind} {parts}" for kind in ("ddp", "fsdp") for parts in PARTS), "fsdp scaled"]
)
def test_two_ranks_take_the_steps_of_one(stories: Stories, way: str) -> None:
    one, other = (rank[way] for rank in stories["train"])
    assert one == other
    scale = 8.0 if way == "fsdp scaled" else None
    alone = Run("alone", loss_scale=scale).steps(0, len(SIZES))
    np.testing.assert_allclose(one, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "what"), [(FAILING[0], "shape"), (FAILING[1], "metric")])
def test_an_error_in_or_beside_a_step_of_one_rank_is_that_of_all(
    stories: Stories, name: str, what: str
) -> None:
    first, second = stories[name]
    assert second.code == 1
    assert first.found == ["ValueError", f"on rank 1: a {what} is wrong"]


def test_a_model_that_nothing_replicates_or_shards_is_refused(stories: Stories) -> None:
    for rank in stories["train"]:
        assert "2 workers need the model in a DistributedDataParallel or" in rank["refused"]


def test_shards_go_on_from_shards_to_the_bit(stories: Stories) -> None:
    for rank in stories["save"]:
        assert rank["again"] == rank["told"]
        assert rank["own"] == rank["told"]


def test_all_ranks_have_one_state_and_that_of_the_source_is_small(stories: Stories) -> None:
    one, other = stories["save"]
    assert one["source"] == other["source"]
    assert len(json.dumps(one["source"])) < 1000
    assert one["state"] == other["state"]


def test_one_process_goes_on_from_shards_and_two_from_what_one_saved(
    stories: Stories, folder: Path
) -> None:
    whole = Run("alone").steps(0, 5)[2:]
    run = Run("alone")
    dcp.load(parts_of(run), checkpoint_id=folder / "of two", no_dist=True)
    np.testing.assert_allclose(run.steps(2, 3), whole, rtol=1e-4, atol=1e-6)
    for rank in stories["load"]:
        np.testing.assert_allclose(rank, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.exhaustive
def test_torchrun_starts_the_example_of_replicas(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    run = subprocess.run(
        [*launcher, "--nproc-per-node=2", "examples/torch_ddp.py", "--folder", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert run.returncode == 0, run.stderr[-6000:]
    assert "ranks: 2; stopped and gone on is the whole" in run.stdout
