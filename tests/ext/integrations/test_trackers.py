"""What trackers are given, by modules that stand in for them and by themselves."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tests.train.small import line_trainer, source_of_lengths

import sweephand as sh


class FakeWandb:
    """A run, and the module: both have these two functions."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.axes: dict[str, str] = {}

    def log(self, figures: dict[str, Any]) -> None:
        self.logged.append(figures)

    def define_metric(self, name: str, step_metric: str) -> None:
        assert name not in self.axes
        self.axes[name] = step_metric


def train(writer: sh.train.ProgressWriter) -> None:
    sh.training_session(
        line_trainer([writer]),
        source_of_lengths([1] * 30, max_sweeps=2),
        10,
        progress_frequency=30,
        cv_config=sh.CrossValidationConfig(
            source_of_lengths([1] * 6, max_sweeps=1), frequency=60
        ),
    ).train()


@pytest.mark.parametrize("is_given", [True, False])
def test_wandb_is_given_figures_over_steps(
    is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", run)  # type: ignore[arg-type]
    train(sh.train.WandbProgressWriter(2, run if is_given else None))
    assert set(run.axes.values()) == {"step"}
    averages = [one for one in run.logged if "minibatch/avg_loss" in one]
    assert [(one["step"], one["samples"]) for one in averages] == [(2, 20), (4, 40), (6, 60)]
    assert [one["step"] for one in run.logged if "summary/avg_loss" in one] == [3, 6]
    assert any("summary/validation_avg_loss" in one for one in run.logged)
    assert any("learning_rate" in one for one in run.logged)
    assert not any(isinstance(value, str) for one in run.logged for value in one.values())


def test_mlflow_is_given_figures_over_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[dict[str, float], int, str | None]] = []

    def log_metrics(metrics: dict[str, float], step: int, run_id: str | None = None) -> None:
        logged.append((metrics, step, run_id))

    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(log_metrics=log_metrics))  # type: ignore[arg-type]
    train(sh.train.MLflowProgressWriter(2))
    assert [step for one, step, _ in logged if "minibatch/avg_loss" in one] == [2, 4, 6]
    assert {run_id for _, _, run_id in logged} == {None}
    sh.train.MLflowProgressWriter(run_id="r7").write(
        sh.train.Record("summary", 4, 16, {"loss": 0.5})
    )
    assert logged[-1] == ({"summary/avg_loss": 0.5, "samples": 16}, 4, "r7")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    kinds = {"wandb": sh.train.WandbProgressWriter, "mlflow": sh.train.MLflowProgressWriter}
    with pytest.raises(ImportError, match=rf"needs {name}: pip install 'sweephand\[{name}\]'"):
        kinds[name]()
