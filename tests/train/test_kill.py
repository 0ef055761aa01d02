"""Nothing is lost by a kill: at every system call of a save, and at any time of a run.

The truth is held outside of what is killed. SWEEPHAND_KILLS is how often a run is killed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KILLS = int(os.environ.get("SWEEPHAND_KILLS", "4"))


@pytest.mark.parametrize("scenario", ["first", "replace", "prune"])
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
    assert sum(kills.values()) > 40
    assert {"openat", "write", "fsync", "rename", "close"} <= kills.keys()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_run_that_is_killed_again_and_again_is_the_run(tmp_path: Path, kind: str) -> None:
    golden = dict(run(tmp_path / "golden", kind))
    chance = random.Random(KILLS)
    steps = sorted(golden)
    folder = tmp_path / "killed"
    last = 0
    for _ in range(KILLS):
        seen = run(folder, kind, kill_after=chance.randint(1, len(steps) // KILLS + 4))
        check(seen, golden, last)
        last = max(last, seen[-1][0])
    rest = run(folder, kind)
    check(rest, golden, last)
    assert rest[-1][0] == steps[-1]
    assert run(folder, kind) == []


def check(told: list[tuple[int, str]], golden: dict[int, str], last: int) -> None:
    """Check the steps of one start: none left out, and each what it must be."""
    numbers = [step for step, _ in told]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] <= last + 1
    for step, line in told:
        assert line == golden[step]


def run(folder: Path, kind: str, kill_after: int | None = None) -> list[tuple[int, str]]:
    """Run to the end, or until it has told so many steps and is killed."""
    command = [sys.executable, HERE / "killed_run.py", folder, kind]
    told = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told.append((int(line.split()[0]), line))
            if len(told) == kill_after:
                process.kill()  # and read what it had told before
    was_killed = kill_after is not None and len(told) >= kill_after
    assert process.returncode == (-signal.SIGKILL if was_killed else 0)
    return told
