"""Hyperparameters after a restore: those of the checkpoint, with a warning, or the given."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.train.small import Heard, Line, in_order, squared_error
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
@pytest.mark.parametrize("word", ["checkpoint", "given"])
def test_hyperparameters_are_those_of_the_checkpoint_with_a_warning_or_the_given(
    make: Any, word: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = make(0.25, **FIRST)
    first.train_minibatch(minibatch())
    first.save_checkpoint(tmp_path)
    second, holder = make(0.5, **SECOND)
    [learner] = second.model.learners
    with caplog.at_level(logging.WARNING, "sweephand"):
        second.restore_from_checkpoint(tmp_path, hyperparameters=word)
    held = {"checkpoint": (FIRST, 0.25), "given": (SECOND, 0.5)}[word]
    assert ({name: getattr(holder, name) for name in FIRST}, learner.learning_rate) == held
    warned = [record.message.split(" is ")[0] for record in caplog.records]
    assert len(warned) == (5 if make is numpy_trainer else 4) * (word == "checkpoint")
    assert second.consumed.steps == 1
    second.train_minibatch(minibatch())


def test_the_given_hold_too_when_a_session_goes_back_to_an_earlier_epoch(
    tmp_path: Path,
) -> None:
    heard = Heard()
    losses = iter([1.0, 2.0, 1.0])

    def train(epochs: int, **options: Any) -> Any:
        model = Line()
        learner = sh.numpy.AdamW([model.w], 0.1, **options)
        trainer = sh.Trainer(model, lambda *_: (next(losses), [model.w]), learner, [heard])
        config = sh.CheckpointConfig(tmp_path, hyperparameters="given")
        sh.training_session(
            trainer,
            in_order([1] * 5),
            5,
            max_samples=5 * epochs,
            epoch_size=5,
            checkpoint_config=config,
            lr_control=sh.LearningRateControl(),
        ).train()
        return learner

    train(1, **FIRST)
    learner = train(2, **SECOND)
    assert "is rejected: back to 5 samples" in str(heard.records)
    assert learner.weight_decay == SECOND["weight_decay"]
