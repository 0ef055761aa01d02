"""Arguments of wrong types are refused where they are given, naming what is wanted."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.train.small import Line, in_order, line_trainer

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
    "filename": sh.CheckpointConfig,
    "restore": lambda other: sh.CheckpointConfig("x", restore=other),
    "frequency": lambda other: sh.CheckpointConfig("x", other),
    "keep_last": lambda other: sh.CheckpointConfig("x", keep_last=other),
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
    "filename": [None, "x"],
    "restore": ["x", True],
    "frequency": [None, 3],
    "keep_last": [None, 3],
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


REFUSED: dict[str, list[Callable[[], Any]]] = {
    "never end": [lambda: session(line_trainer(), in_order(), 4)],
    "validation source never ends": [lambda: sh.CrossValidationConfig(in_order())],
    "test source never ends": [lambda: sh.TestConfig(in_order())],
    "minibatch_source or a callback": [sh.CrossValidationConfig],
    "frequency": [
        partial(sh.CrossValidationConfig, None, bad, callback=print)  # type: ignore[arg-type]
        for bad in (-1, (3, "days"), (3,), (-3, "sweep"), (1.5, "sweep"))
    ],
    "a size for each epoch": [
        partial(
            session,
            line_trainer(),
            in_order(max_sweeps=1),
            size,
            epoch_size=sh.INFINITELY_REPEAT,
        )
        for size in ("4*2 + 10", [4, 10])
    ],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_refused(words: str) -> None:
    for call in REFUSED[words]:
        with pytest.raises(ValueError, match=words):
            call()
