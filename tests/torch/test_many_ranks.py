"""Four ranks, and ranks that are killed.

Not part of the plain run: SWEEPHAND_DISTRIBUTED=1 python -m pytest tests/torch
with as many kills as the variable says, but at least 20.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.torch.launch import ROOT, launch

WANTED = os.environ.get("SWEEPHAND_DISTRIBUTED", "")
pytestmark = pytest.mark.skipif(
    not WANTED, reason="set SWEEPHAND_DISTRIBUTED=1 to train with four ranks, and to kill some"
)


def test_ranks_of_one_coordinate_have_the_same_data_and_count_once(tmp_path: Path) -> None:
    ranks = [
        one.found for one in launch(4, ["mesh"], tmp_path, "tests.torch.many_ranks")["mesh"]
    ]
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
    command = [sys.executable, "-m", "tests.torch.many_ranks", tmp_path, str(kills)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout.splitlines()[-1])
    print(told)
    assert told["is_whole"]
    assert told["slowest"] < 60
