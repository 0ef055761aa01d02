"""Batch sizes measured by two workers: noise scales of their parts, and branches."""

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.ext.follow.batch_size_workers import branches  # noqa: E402
from tests.train.children import run  # noqa: E402


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Let two workers measure, once for all tests."""
    found = run("batch_size_workers.py", tmp_path_factory.mktemp("workers"))
    told: list[dict[str, Any]] = json.loads(found)
    return told


def test_workers_agree(stories: list[dict[str, Any]]) -> None:
    for name in "noise", "branches":
        assert stories[0][name] == stories[1][name]


def test_the_parts_of_workers_give_the_noise_scale(stories: list[dict[str, Any]]) -> None:
    for measured, by_hand in stories[0]["noise"]:
        assert measured == pytest.approx(by_hand, rel=1e-4)
        assert measured > 0


def test_measuring_changes_no_bit_of_training(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        plain_ddp, ddp, plain_fsdp, fsdp = story["weights"]
        assert plain_ddp == ddp
        assert plain_fsdp == fsdp


def test_branches_of_two_are_those_of_one(stories: list[dict[str, Any]]) -> None:
    *of_two, steps, weight = stories[0]["branches"]
    *of_one, no_steps, same_weight = branches(is_shared=False)
    assert (steps, weight) == (no_steps, same_weight) == (0, same_weight)
    assert len(of_two) == len(of_one) > 1
    for mine, wanted in zip(of_two, of_one, strict=True):
        assert mine[:3] == list(wanted[:3])
        assert mine[3] == pytest.approx(wanted[3], rel=1e-4)
