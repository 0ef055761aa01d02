"""Several workers end and skip together; that they take the steps of one is tests/torch."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.train.children import run
from tests.train.small import Heard, source_of_lengths
from tests.train.two_workers import LENGTHS, make

import sweephand as sh
from sweephand.train.checkpoint import find


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def stories(folder: Path) -> list[dict[str, Any]]:
    """Let two workers train, once for all tests."""
    found = run("two_workers.py", folder)
    told: list[dict[str, Any]] = json.loads(found)
    return told


def test_a_signal_to_one_saves_and_ends_all_and_one_alone_goes_on(
    stories: list[dict[str, Any]], folder: Path
) -> None:
    assert [story["exit_code"] for story in stories] == [sh.PREEMPTED_EXIT_CODE] * 2
    checkpoint = find(folder / "session")
    assert checkpoint is not None
    saved = checkpoint.state()["trainer"]["consumed"]
    assert saved["steps"] in (3, 4)
    heard = Heard()
    sh.training_session(
        make(heard)[1],
        source_of_lengths(LENGTHS),
        5,
        max_samples=saved["samples"] + 5,
        checkpoint_config=sh.CheckpointConfig(folder / "session", restore=True),
    ).train()
    assert heard.steps[0].step == saved["steps"] + 1
