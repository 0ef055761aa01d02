"""Megatron-Core trains on our micro-batches as on what its own functions make of them.

Not part of the plain run: SWEEPHAND_FRAMEWORKS=1 python -m pytest tests/frameworks, in an
environment with the extra `trainers`.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.ranks import train

pytestmark = pytest.mark.skipif(
    not os.environ.get("SWEEPHAND_FRAMEWORKS"),
    reason="set SWEEPHAND_FRAMEWORKS=1, with the extra `frameworks`, to train with them",
)


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    if os.environ.get("SWEEPHAND_FRAMEWORKS"):
        pytest.importorskip(
            "megatron.core", reason="megatron-core: pip install 'sweephand[trainers]'"
        )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("megatron") / "alone"
    steps = train("megatron", folder, "rows", count=1)[0]
    assert steps[-1][0] < steps[0][0] - 0.1
    return steps


@pytest.mark.parametrize(
    ("way", "count"),
    [
        ("rows", 2),
        ("thd", 1),
        ("thd", 2),
        ("own-thd", 2),
        ("thd", 4),
    ],
)
def test_every_way_has_the_losses_of_one_rank(
    way: str, count: int, alone: list[Any], tmp_path: Path
) -> None:
    ranks = train("megatron", tmp_path / "ranks", way, count=count)
    for steps in ranks:
        assert [labels for _, labels in steps] == [labels for _, labels in alone]
        assert [loss for loss, _ in steps] == pytest.approx(
            [loss for loss, _ in alone], rel=1e-5
        )
