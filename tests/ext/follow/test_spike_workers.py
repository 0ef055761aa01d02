"""Spikes with PyTorch: one worker, and two that decide alike."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.ext.follow.spike_workers import POISON, heal  # noqa: E402
from tests.train.children import run  # noqa: E402

import sweephand as sh  # noqa: E402

IDS = {f"array__{one}" for one in POISON}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def stories(folder: Path) -> list[dict[str, Any]]:
    """Let two workers train, once for all tests."""
    told: list[dict[str, Any]] = json.loads(run("spike_workers.py", folder))
    return told


def test_workers_decide_alike(stories: list[dict[str, Any]]) -> None:
    assert stories[0] == stories[1]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_workers_find_what_one_finds(stories: list[dict[str, Any]], kind: str) -> None:
    assert set(stories[0][kind]["banned"]) == IDS
    assert len(stories[0][kind]["spikes"]) == 2


def test_two_workers_end_as_those_that_had_the_events(
    stories: list[dict[str, Any]], folder: Path
) -> None:
    healed, replayed = stories[0]["ddp"], stories[0]["replayed"]
    assert healed["weights"] == replayed["weights"]
    report = sh.train.SpikeReport.read(folder / "run" / "spikes.json")
    assert list(report.events) == healed["events"]


def test_the_answer_of_the_first_worker_counts(stories: list[dict[str, Any]]) -> None:
    for story in stories:
        assert story["stopped"]["ended"].endswith("as action says: see SpikePolicy.report")


@pytest.mark.parametrize("signal", ["loss", "gradient norm", "both"])
def test_one_worker_finds_all_and_ends_as_one_that_had_the_events(signal: Any) -> None:
    torch.set_num_threads(1)
    healed = heal(lambda module: module, sh.SpikePolicy(action="bisect", signal=signal))
    assert set(healed["banned"]) == IDS
    replayed = heal(lambda module: module, None, events=healed["events"])
    assert healed["weights"] == replayed["weights"]


class Late:
    """A number that is on its way, as those of an accelerator are."""

    def __init__(self, value: Any) -> None:
        self._value = float(value)

    def __float__(self) -> float:
        return self._value


@pytest.mark.parametrize("kind", ["labels", "nan"])
@pytest.mark.parametrize("signal", ["loss", "both"])
def test_where_results_come_a_step_later_the_same_is_found(
    signal: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sh.SpikePolicy(action="bisect", signal=signal)
    at_once = heal(lambda module: module, policy, kind=kind)
    monkeypatch.setattr("sweephand.torch.model.number_of", Late)
    late = heal(lambda module: module, policy, kind=kind)
    assert late == at_once
    assert set(late["banned"]) == IDS


def test_under_a_loss_scale_nan_is_no_spike_and_a_high_loss_is() -> None:
    policy = sh.SpikePolicy(action="bisect")
    assert heal(lambda module: module, policy, kind="nan", scaled=True)["spikes"] == []
    assert set(heal(lambda module: module, policy, scaled=True)["banned"]) == IDS
