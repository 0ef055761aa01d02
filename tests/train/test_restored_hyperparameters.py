"""Hyperparameters after a restore: those of the checkpoint, with a warning."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.train.small import Line, squared_error
from tests.train.small_torch import minibatch, torch_error

import sweephand as sh

torch = pytest.importorskip("torch")
import sweephand.torch  # noqa: E402

FIRST = {"weight_decay": 0.25, "betas": (0.5, 0.75), "eps": 0.125}
SECOND = {"weight_decay": 0.5, "betas": (0.25, 0.5), "eps": 0.0625}


def numpy_trainer(rate: Any, **options: Any) -> tuple[sh.Trainer, Any]:
    model = Line()
    learner = sh.numpy.AdamW([model.w], rate, **options)
    return sh.Trainer(model, squared_error, learner), learner


def torch_trainer(rate: Any, **options: Any) -> tuple[sh.Trainer, Any]:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, **options)
    learner = sh.torch.Learner(optimizer, rate)
    return sh.Trainer(model, torch_error, learner), sh.LossScaleOptimizer(optimizer)


@pytest.mark.parametrize("make", [numpy_trainer, torch_trainer])
def test_hyperparameters_are_those_of_the_checkpoint_with_a_warning(
    make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = make(0.25, **FIRST)
    first.train_minibatch(minibatch())
    first.save_checkpoint(tmp_path)
    second, holder = make(0.5, **SECOND)
    [learner] = second.model.learners
    with caplog.at_level(logging.WARNING, "sweephand"):
        second.restore_from_checkpoint(tmp_path)
    assert ({name: getattr(holder, name) for name in FIRST}, learner.learning_rate) == (
        FIRST,
        0.25,
    )
    warned = [record.message.split(" is ")[0] for record in caplog.records]
    assert len(warned) == (5 if make is numpy_trainer else 1)
    assert second.consumed.steps == 1
    second.train_minibatch(minibatch())
