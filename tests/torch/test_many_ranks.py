"""Four ranks, ranks that come and go, and ranks that are killed.

Not part of the plain run: SWEEPHAND_DISTRIBUTED=1 python -m pytest tests/torch
with as many kills as the variable says, but at least 20.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.torch.launch import ROOT, launch
from tests.torch.many_ranks import PHASES, STEPS
from tests.torch.ranks import SIZE, make_source

WANTED = os.environ.get("SWEEPHAND_DISTRIBUTED", "")
pytestmark = pytest.mark.skipif(
    not WANTED, reason="set SWEEPHAND_DISTRIBUTED=1 to train with four ranks, and to kill some"
)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("four")
    ended = launch(4, ["come_and_go", "mesh"], folder, "tests.torch.many_ranks")
    assert all(rank.code == 0 for ranks in ended.values() for rank in ranks)
    return {name: [rank.found for rank in ranks] for name, ranks in ended.items()}


def test_ranks_come_and_go_in_one_run(four: dict[str, list[Any]]) -> None:
    found: dict[int, list[str]] = {}
    for rank in four["come_and_go"]:
        for step, ids in rank:
            found.setdefault(step, []).extend(ids)
    alone = make_source(randomization_seed=6)
    for step in range(STEPS * len(PHASES)):
        assert sorted(found[step]) == sorted(alone.next_minibatch(SIZE).ids), step


def test_ranks_of_one_coordinate_have_the_same_data_and_count_once(
    four: dict[str, list[Any]],
) -> None:
    ranks = four["mesh"]
    assert [rank["coordinate"] for rank in ranks] == [[2, 0], [2, 0], [2, 1], [2, 1]]
    assert ranks[0]["ids"] == ranks[1]["ids"]
    assert ranks[2]["ids"] == ranks[3]["ids"]
    assert [rank["sum"] for rank in ranks] == [[3]] * 4
    for rank in ranks:
        assert rank["unlike"][0] == "WorkerError"
        assert "ranks of one worker have different shares" in rank["unlike"][1]
        assert rank["wrong"][0] == "ValueError"
        assert "the ranks do not share the data" in rank["wrong"][1]


def test_nothing_is_lost_or_doubled_by_ranks_that_are_killed(tmp_path: Path) -> None:
    kills = max(20, int(WANTED))
    command = [sys.executable, "-m", "tests.torch.many_ranks", "kill", tmp_path, str(kills)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout.splitlines()[-1])
    print(told)
    assert told["is_whole"]
    assert told["slowest"] < 60


def test_torchrun_restarts_end_where_a_whole_run_does(tmp_path: Path) -> None:
    found = []
    for deaths in (2, 0):
        folder = tmp_path / str(deaths)
        folder.mkdir()
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "--max-restarts", "3"),
            *("-m", "tests.torch.many_ranks", "restarted", folder, str(deaths)),
        ]
        env = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=900)
        found.append([json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)])
    (one, other), (whole, _) = found
    assert one["lives"] == other["lives"] == 2
    assert one["parameters"] == other["parameters"] == whole["parameters"]
