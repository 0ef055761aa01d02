"""Small models, corpora and writers that the tests of training share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

LENGTHS = [3, 1, 4, 1, 5, 9, 2, 6]
CNTK_LENGTHS = [7] + [2] * 9  # CNTK's own example: 25 samples in 10 sequences


def source_of_lengths(lengths: Sequence[int], **options: object) -> sh.MinibatchSource:
    """Make a source of sequences of 2 numbers a sample, whose labels are linear in them."""
    offsets = np.cumsum([0, *lengths])
    rng = np.random.default_rng(5)
    x = rng.normal(size=(int(offsets[-1]), 2)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0], np.float32)).astype(np.float32)
    corpus = sh.ArrayDeserializer({"x": (x, offsets), "labels": (y, offsets)})
    return sh.MinibatchSource(corpus, **options)  # type: ignore[arg-type]


class Line:
    """A linear model for NumPy learners; ``training`` is what a trainer sets in evaluation."""

    def __init__(self, dtype: type = np.float32) -> None:
        self.w = np.zeros(2, dtype)
        self.training = True

    def parameters(self) -> dict[str, NDArray[np.floating]]:
        return {"w": self.w}


def squared_error(model: Line, minibatch: sh.Minibatch) -> tuple[float, list[NDArray]]:
    """Return the sum of half the squared errors, and its gradient."""
    x, y = minibatch["x"].values, minibatch["labels"].values
    error = x @ model.w - y
    return 0.5 * float(error @ error), [x.T @ error]


def squared_error_and_misses(
    model: Line, minibatch: sh.Minibatch
) -> tuple[float, float, list[NDArray]]:
    """Return the same with the number of errors above 1/2 as a metric."""
    loss, gradients = squared_error(model, minibatch)
    errors = minibatch["x"].values @ model.w - minibatch["labels"].values
    return loss, float((np.abs(errors) > 0.5).sum()), gradients


def line_trainer(
    writers: Sequence[sh.train.ProgressWriter] = (), rate: object = None, **options: object
) -> sh.Trainer:
    """Make a trainer of a `Line`."""
    model = Line()
    if rate is None:
        rate = sh.learning_parameter_schedule_per_sample(0.01)
    learner = sh.numpy.MomentumSGD([model.w], rate, 0.9)  # type: ignore[arg-type]
    criterion = options.pop("criterion", squared_error)
    return sh.Trainer(model, criterion, learner, writers, **options)  # type: ignore[arg-type]


class Heard(sh.train.ProgressWriter):
    """A progress writer that keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[sh.train.Step] = []
        self.records: list[sh.train.Record] = []

    def update(self, step: sh.train.Step) -> None:
        self.steps.append(step)

    def write(self, record: sh.train.Record) -> None:
        self.records.append(record)

    def of(self, kind: str) -> list[sh.train.Record]:
        return [record for record in self.records if record.kind == kind]


def misses(trainer: sh.Trainer, minibatch: sh.Minibatch) -> float:
    """Return the sum of the metric of `squared_error_and_misses`."""
    model = Line()
    [learner] = trainer.model.learners
    model.w[...] = learner.parameters["0"]  # type: ignore[attr-defined]
    return squared_error_and_misses(model, minibatch)[1]


def in_order(lengths: Sequence[int] = CNTK_LENGTHS, **options: object) -> sh.MinibatchSource:
    """Make an unshuffled source without end."""
    return source_of_lengths(lengths, randomize=False, **options)


def trained_back_and_forth(
    writers: Sequence[sh.train.ProgressWriter], checkpoints: Path, **options: object
) -> tuple[sh.Trainer, sh.MinibatchSource]:
    """Train a `Line` in a session that rejects an epoch, and tries sizes of minibatches."""
    rate = sh.learning_parameter_schedule_per_sample(0.03)  # an epoch is worse
    trainer = line_trainer(writers, rate, **options)
    source = source_of_lengths(LENGTHS)
    sh.training_session(
        trainer,
        source,
        mb_size=12,
        max_samples=31 * 6,
        lr_control=sh.LearningRateControl(),
        mb_scaling=sh.MinibatchScaling(24, trial_minibatches=2, frequency=31 * 2),
        checkpoint_config=sh.CheckpointConfig(checkpoints, frequency=31),
    ).train()
    return trainer, source
