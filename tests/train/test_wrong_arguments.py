"""Arguments of wrong types are refused where they are given, naming what is wanted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.small import Heard, Line, in_order, line_trainer, source_of_lengths
from tests.train.small_torch import torch_error, torch_trainer
from torch import nn

import sweephand as sh
from sweephand.errors import ArgumentTypeError

OTHERS = [None, "x", 3, 1.5, True, [], {}, object(), sh.Trainer]


def session(*given: Any, **options: Any) -> sh.train.TrainingSession:
    trainer, source, size = given or (line_trainer(), in_order(max_sweeps=1), 4)
    return sh.training_session(trainer, source, size, **options)


CALLS: dict[str, Callable[[Any], Any]] = {
    "trainer": lambda other: session(other, in_order(max_sweeps=1), 4),
    "mb_source": lambda other: session(line_trainer(), other, 4),
    "size": lambda other: session(line_trainer(), in_order(max_sweeps=1), other),
    "max_samples": lambda other: session(max_samples=other),
    "epoch_size": lambda other: session(epoch_size=other),
    "progress_frequency": lambda other: session(progress_frequency=other),
    "checkpoint_config": lambda other: session(checkpoint_config=other),
    "cv_config": lambda other: session(cv_config=other),
    "lr_control": lambda other: session(lr_control=other),
    "mb_scaling": lambda other: session(mb_scaling=other),
    "test_config": lambda other: session(test_config=other),
    "cut_minibatch_at": lambda other: session(cut_minibatch_at=other),
    "filename": sh.CheckpointConfig,
    "restore": lambda other: sh.CheckpointConfig("x", restore=other),
    "frequency": lambda other: sh.CheckpointConfig("x", other),
    "keep_last": lambda other: sh.CheckpointConfig("x", keep_last=other),
    "asynchronous": lambda other: sh.CheckpointConfig("x", asynchronous=other),
    "minibatch_source": sh.CrossValidationConfig,
    "minibatch_source ": lambda other: sh.TestConfig(other),
    "callback": lambda other: sh.CrossValidationConfig(callback=other),
    "stateful": lambda other: line_trainer(stateful=other),
    "progress_writers": lambda other: line_trainer(other),
    "sub_minibatches": lambda other: line_trainer(sub_minibatches=other),
    "learners": lambda other: sh.Trainer(Line(), lambda model, minibatch: 0, other),
    "criterion": lambda other: line_trainer(criterion=other),
    "path": lambda other: line_trainer().save_checkpoint(other),
    "path ": lambda other: line_trainer().restore_from_checkpoint(other),
    "path  ": lambda other: sh.CSVProgressWriter(other),
    "path   ": lambda other: sh.JSONLProgressWriter(other),
    "minibatch": lambda other: line_trainer().test_minibatch(other),
}
# What is an argument after all.
FINE: dict[str, list[Any]] = {
    "size": [3],
    "max_samples": [3],
    "epoch_size": [3],
    "progress_frequency": [None, 3],
    "cut_minibatch_at": [None, 3],
    "filename": [None, "x"],
    "restore": ["x", True],
    "frequency": [None, 3],
    "keep_last": [None, 3],
    "asynchronous": [True],
    "callback": [sh.Trainer],
    "stateful": [None, {}],
    "progress_writers": [[]],
    "sub_minibatches": [3],
    "criterion": [sh.Trainer],
    "path": ["x"],
    "path ": ["x"],
    "path  ": ["x"],
    "path   ": ["x"],
    "minibatch": [{}],
    **{f"{name}_config": [None] for name in ("checkpoint", "cv", "test")},
    "lr_control": [None],
    "mb_scaling": [None],
}


WRONG = [
    (name, other)
    for name in CALLS
    for other in OTHERS
    if not any(type(one) is type(other) and one == other for one in FINE.get(name, []))
]


@pytest.mark.parametrize(
    ("name", "other"), WRONG, ids=[f"{name} {type(other).__name__}" for name, other in WRONG]
)
def test_another_type_is_refused_by_name(name: str, other: Any) -> None:
    text = {"size": "size|schedule", "learners": "learner"}.get(name, name.strip())
    with pytest.raises((ArgumentTypeError, ValueError), match=text):
        CALLS[name](other)


@pytest.mark.parametrize("other", [3, "x", [1], object()])
def test_what_is_no_minibatch_is_refused(other: Any) -> None:
    heard = Heard()
    with pytest.raises(ArgumentTypeError, match="minibatch must be a Mapping"):
        line_trainer([heard]).train_minibatch(other)
    assert not heard.steps


class TestNames:
    """Errors and results call parameters as the model does."""

    def test_of_torch_modules(self) -> None:
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))

        def infinite(model: nn.Module, minibatch: Any) -> Any:
            return torch_error(model, minibatch) + model[2].bias.sum() * float("inf")

        _, trainer = torch_trainer(
            model=model, loss_scale={"max_consecutive_skips": 1}, criterion=infinite
        )
        with pytest.raises(sh.LossScaleError, match=r"bad parameters: 2\.bias;") as caught:
            trainer.train_minibatch(source_of_lengths([3]).next_minibatch(3))
        assert caught.value.parameters == ("2.bias",)

    @pytest.mark.parametrize("value", [np.inf, np.nan])
    def test_of_numpy_models(self, value: float) -> None:
        model = {"encoder": np.ones(2, np.float32), "decoder": np.ones(3, np.float32)}
        inner = [sh.numpy.SGD([model["decoder"]], 0.1), sh.numpy.SGD([model["encoder"]], 0.1)]
        opt = sh.LossScaleOptimizer(inner, max_consecutive_skips=1)

        def criterion(model: Any, minibatch: Any) -> Any:
            opt.get_scaled_loss(1.0)
            return 1.0, [np.ones(3, np.float32), np.full(2, value, np.float32)]

        trainer = sh.Trainer(model, criterion, opt)
        with pytest.raises(sh.LossScaleError, match="bad parameters: encoder;") as caught:
            trainer.train_minibatch(source_of_lengths([3]).next_minibatch(3))
        assert caught.value.parameters == ("encoder",)

    def test_of_gradients_that_do_not_fit(self, tmp_path: Path) -> None:
        model = Line()
        trainer = sh.Trainer(
            model, lambda model, minibatch: (1.0, [np.ones(5)]), sh.numpy.SGD([model.w], 0.1)
        )
        with pytest.raises(ValueError, match="the gradient of w must have shape"):
            trainer.train_minibatch(source_of_lengths([3]).next_minibatch(3))
        trainer.save_checkpoint(tmp_path)  # states keep the names of the learner
        again = Line()
        other = sh.Trainer(again, lambda *_: 0, sh.numpy.SGD([again.w], 0.1))
        other.restore_from_checkpoint(tmp_path)
