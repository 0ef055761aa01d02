"""Two real processes under accelerate, transformers.Trainer and Lightning.

Not part of the plain run: SWEEPHAND_FRAMEWORKS=1 python -m pytest tests/frameworks, in an
environment with the extra `frameworks`.
"""

import json
import os
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from tests.frameworks.corpus import LENGTHS, NUM_SWEEPS, STEPS_BEFORE_STOP

pytestmark = pytest.mark.skipif(
    not os.environ.get("SWEEPHAND_FRAMEWORKS"),
    reason="set SWEEPHAND_FRAMEWORKS=1, with the extra `frameworks`, to train with them",
)
ROOT = Path(__file__).parents[2]
CASES = [
    (client, kind, num_workers)
    for client in ("accelerate", "transformers", "lightning")
    for kind, num_workers in (("rows", 0), ("rows", 2), ("sequences", 0), ("sequences", 2))
]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def train(client: str, folder: Path, *options: str, count: int = 2) -> list[list[list[int]]]:
    """Run ranks, and return the rows of every step of each."""
    for code, said in launch(client, folder, *options, count=count):
        assert code == 0, said[-6000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]


def launch(client: str, folder: Path, *options: str, count: int = 2) -> list[tuple[int, str]]:
    """Run ranks as torchrun does, and return how each ended and what it said."""
    folder.mkdir()
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "TORCHELASTIC_RUN_ID": "none",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    ranks = []
    for rank in map(str, range(count)):
        said = (folder / f"rank{rank}.txt").open("w+")
        command = [
            sys.executable,
            "-m",
            f"tests.frameworks.{client}_loop",
            str(folder),
            *options,
        ]
        env = os.environ | shared | {"RANK": rank, "LOCAL_RANK": rank}
        run = subprocess.Popen(command, cwd=ROOT, env=env, stdout=said, stderr=said)
        ranks.append((run, said))
    try:
        codes = [run.wait(timeout=900) for run, _ in ranks]
    finally:
        for run, _ in ranks:
            run.kill()
    ended = []
    for code, (_, said) in zip(codes, ranks, strict=True):
        with said:
            said.seek(0)
            ended.append((code, said.read()))
    return ended


def rows_of(ranks: list[list[list[int]]]) -> list[list[int]]:
    """Return the rows of every step, over all ranks."""
    return [sorted(chain(*shares)) for shares in zip(*ranks, strict=True)]


@pytest.mark.parametrize(("client", "kind", "num_workers"), CASES)
def test_every_row_comes_once_in_a_sweep_and_a_resume_is_exact(
    client: str, kind: str, num_workers: int, tmp_path: Path
) -> None:
    options = ("--kind", kind, "--num-workers", str(num_workers))
    whole = rows_of(train(client, tmp_path / "whole", *options))
    rows = [row for step in whole for row in step]
    num_rows = sum(LENGTHS[kind])
    num_sweeps = len(rows) // num_rows
    assert num_sweeps == NUM_SWEEPS or (client, kind) == ("transformers", "sequences")
    for sweep in range(num_sweeps):
        part = rows[sweep * num_rows : (sweep + 1) * num_rows]
        assert sorted(part) == list(range(num_rows))
    first = rows_of(train(client, tmp_path / "first", *options, "--stop"))
    rest = rows_of(
        train(client, tmp_path / "rest", *options, "--resume", str(tmp_path / "first"))
    )
    assert len(first) == STEPS_BEFORE_STOP
    assert first + rest == whole


@pytest.mark.parametrize("client", ["accelerate", "transformers", "lightning"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_checkpoint_of_two_ranks_goes_on_with_another_number(
    client: str, count: int, tmp_path: Path
) -> None:
    whole = rows_of(train(client, tmp_path / "whole"))
    first = rows_of(train(client, tmp_path / "first", "--stop"))
    resumed = ("--resume", str(tmp_path / "first"))
    rest = rows_of(train(client, tmp_path / "rest", *resumed, count=count))
    assert first + rest == whole


def test_accelerate_cannot_deal_minibatches_that_ranks_share_already(tmp_path: Path) -> None:
    for code, said in launch("accelerate", tmp_path / "run", "--torchs"):
        assert code != 0
        assert "would split minibatches that the ranks share already" in said
