"""Nothing is lost by a kill: at every system call of a save, and at any time of a run.

The truth is held outside of what is killed. SWEEPHAND_KILLS is how often a run is killed.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import extent

HERE = Path(__file__).parent
KILLS = int(os.environ.get("SWEEPHAND_KILLS", "20" if extent.exhaustive else "2"))


@pytest.mark.parametrize("scenario", ["first", "replace"])
def test_a_kill_at_any_system_call_of_a_save_loses_nothing(
    tmp_path: Path, scenario: str
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    done = subprocess.run(
        [sys.executable, HERE / "killed_save.py", tmp_path, scenario],
        capture_output=True,
        text=True,
        check=False,
    )
    if "strace is not permitted" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert sum(kills.values()) >= 30
    assert {"openat", "write", "fsync", "rename", "close"} <= kills.keys()


def test_a_run_that_is_killed_again_and_again_is_the_run(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    kills = [chance.randint(1, 40 // KILLS + 4) for _ in range(KILLS)]
    done = subprocess.run(
        [sys.executable, HERE / "killed_run.py", tmp_path, *map(str, kills)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    golden, *starts, finished = json.loads(done.stdout)
    last = 0
    for told in starts:
        check(told, dict(golden), last)
        last = max(last, told[-1][0])
    assert last == golden[-1][0]
    assert finished == []


def check(told: list[tuple[int, str]], golden: dict[int, str], last: int) -> None:
    """Check the steps of one start: none left out, and each what it must be."""
    numbers = [step for step, _ in told]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] <= last + 1
    for step, line in told:
        assert line == golden[step]
