"""torchtitan's Trainer on two ranks has the losses of one, and others go on from it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.ranks import train

STEPS, STOP, ROWS = 8, 4, 8


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    pytest.importorskip("torchtitan", reason="torchtitan: pip install 'sweephand[trainers]'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("titan")


@pytest.fixture(scope="module")
def whole(folder: Path) -> list[Any]:
    return titan(folder / "whole", STEPS, 8, 1)


@pytest.fixture(scope="module")
def two(folder: Path) -> list[Any]:
    return titan(folder / "two", STOP, 4, 2)


def titan(folder: Path, until: int, local_rows: int, count: int) -> list[Any]:
    """Train up to a step, and return what each rank wrote."""
    return train("torchtitan", folder, str(until), str(local_rows), count=count)


def steps_of(ranks: list[Any]) -> list[Any]:
    """Return the rows of each step over all ranks."""
    each = ROWS // len(ranks)
    count = len(ranks[0]["rows"]) // each
    return [
        sorted(row for rank in ranks for row in rank["rows"][step * each : (step + 1) * each])
        for step in range(count)
    ]


def test_two_ranks_train_as_one(whole: list[Any], two: list[Any]) -> None:
    assert steps_of(two) == steps_of(whole)[:STOP]
    for rank in two:
        assert rank["losses"] == pytest.approx(whole[0]["losses"][:STOP], rel=1e-5)
    assert whole[0]["losses"][-1] < whole[0]["losses"][0] - 1


@pytest.mark.parametrize(("count", "local_rows"), [(1, 4), (2, 2), (4, 2)])
def test_another_number_goes_on_from_its_checkpoint(
    count: int, local_rows: int, whole: list[Any], two: list[Any], folder: Path
) -> None:
    rest = folder / f"by {count}"
    shutil.copytree(folder / "two" / "checkpoint", rest / "checkpoint")
    ranks = titan(rest, STEPS, local_rows, count)
    assert steps_of(ranks) == steps_of(whole)[STOP:]
    for rank in ranks:
        assert rank["losses"] == pytest.approx(whole[0]["losses"][STOP:], rel=1e-4)
