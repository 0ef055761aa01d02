"""Two replicas under torchft: one dies and comes back, and each sequence comes once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.torch.launch import ROOT
from tests.torch.ranks import SIZE, make_source

pytest.importorskip("torchft", reason="torchft is not installed")
STEPS = 300


def replica(folder: Path, name: str, lighthouse: str, dies_at: int) -> subprocess.Popen[str]:
    with (folder / f"{name}.txt").open("w") as said:
        return subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.ext.integrations.torchft_replica",
                    name,
                    lighthouse,
                ),
                *(folder / "journal", str(STEPS), str(dies_at)),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )


def test_a_replica_that_dies_and_comes_back_loses_nothing(tmp_path: Path) -> None:
    from torchft.coordination import LighthouseServer

    house = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=200)
    try:
        first = replica(tmp_path, "first", house.address(), 0)
        second = replica(tmp_path, "second", house.address(), 10)
        second.communicate(timeout=120)
        assert second.returncode == -9
        second = replica(tmp_path, "back", house.address(), 0)
        ends = [one.communicate(timeout=120)[0] for one in (first, second)]
    finally:
        house.shutdown()
    assert (first.returncode, second.returncode) == (0, 0)
    found: dict[int, list[str]] = {}
    counts = set()
    for line in (tmp_path / "journal").read_text().splitlines():
        position, ids, count = json.loads(line)
        found.setdefault(position, []).extend(ids)
        counts.add(count)
    assert counts == {1, 2}
    alone = make_source(randomization_seed=5)
    for _ in range(STEPS):
        whole = sorted(alone.next_minibatch(SIZE).ids)
        assert sorted(found[alone.current_position]) == whole
    told = [json.loads(end.splitlines()[-1]) for end in ends]
    assert told[0] == told[1]
    assert told[0]["position"] == alone.current_position
