"""Two ranks of Megatron-Core train on our micro-batches as one does."""

from pathlib import Path

import pytest
from tests.frameworks.ranks import train


def test_two_ranks_have_the_losses_of_one(tmp_path: Path) -> None:
    pytest.importorskip(
        "megatron.core", reason="megatron-core: pip install 'sweephand[trainers]'"
    )
    (alone,) = train("megatron", tmp_path / "alone", count=1)
    assert alone[-1][0] < alone[0][0] - 0.1
    for steps in train("megatron", tmp_path / "ranks"):
        assert [labels for _, labels in steps] == [labels for _, labels in alone]
        wanted = [loss for loss, _ in alone]
        assert [loss for loss, _ in steps] == pytest.approx(wanted, rel=1e-5)
