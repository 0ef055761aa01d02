"""DeepSpeed on two ranks takes the steps of one, and goes on exactly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.frameworks.ranks import ROOT, free_port


def said_by(count: int, folder: Path) -> str:
    """Run the example on so many ranks, and return what the first one says."""
    runs, port = [], str(free_port())
    for rank in map(str, range(count)):
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(count)}
        address = {"MASTER_ADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": ""}
        runs.append(
            subprocess.Popen(
                [sys.executable, ROOT / "examples" / "frameworks" / "deepspeed_loop.py"],
                cwd=folder,
                env=os.environ | ranks | address | {"MASTER_PORT": port},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    try:
        said = [run.communicate(timeout=300)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0] * count, said
    return said[0]


def test_two_ranks_train_as_one_and_go_on_exactly(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed", reason="deepspeed: pip install 'sweephand[trainers]'")
    losses = []
    for count in (1, 2):
        said = said_by(count, tmp_path)
        assert "stopped and gone on is the whole: True" in said
        found = re.search(rf"ranks: {count}, loss from (\S+) (\S+)", said)
        assert found
        losses.append([float(one) for one in found.groups()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[0][1] < losses[0][0] - 1
