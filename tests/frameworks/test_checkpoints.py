"""Checkpoints of two ranks of FSDP2 and DDP load on one, two and four."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tests.frameworks.ranks import train

STEPS, STOP = 12, 7


@pytest.fixture(scope="module", params=["fsdp2", "ddp"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Any, Any]:
    """Return the way, the checkpoint of two ranks, and what a whole and that run wrote."""
    way, folder = request.param, tmp_path_factory.mktemp("checkpoints")
    whole = train("fsdp2", folder / "whole", way, str(STEPS))
    first = train("fsdp2", folder / "first", way, str(STOP))
    return way, folder / "first" / "saved", whole, first


def steps_of(ranks: list[Any]) -> list[list[str]]:
    """Return the ids of every step, over all ranks."""
    each = zip(*(rank["ids"] for rank in ranks), strict=True)
    return [sorted(chain(*shares)) for shares in each]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_checkpoint_of_two_ranks_goes_on_with_another_number(
    count: int, runs: tuple[str, Path, Any, Any], tmp_path: Path
) -> None:
    way, saved, whole, first = runs
    rest = train("fsdp2", tmp_path / "rest", way, str(STEPS), str(saved), count=count)
    assert len(first[0]["ids"]) < len(whole[0]["ids"])
    assert steps_of(first) + steps_of(rest) == steps_of(whole)
    both = first[0]["losses"] + rest[0]["losses"]
    same = pytest.approx if count != 2 else lambda values, **_: values
    assert both == same(whole[0]["losses"], rel=1e-5)
    assert rest[0]["norms"] == same(whole[0]["norms"], rel=1e-4)
