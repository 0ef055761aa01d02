"""Two real processes under accelerate, transformers.Trainer and Lightning."""

from itertools import chain
from pathlib import Path

import pytest
from tests.frameworks.corpus import LENGTHS, NUM_SWEEPS, STEPS_BEFORE_STOP
from tests.frameworks.ranks import launch, train

CASES = [
    (client, kind, num_workers)
    for client in ("accelerate", "transformers", "lightning")
    for kind, num_workers in (("rows", 0), ("rows", 2), ("sequences", 0), ("sequences", 2))
]


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
