"""The gradient noise scale of a run: true, without effect, told, and saved."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh

LENGTH = 30


def gaussian_corpus(num_samples: int) -> tuple[sh.ArrayDeserializer, float]:
    """Make samples whose gradients are Gaussian, and return their noise scale.

    The gradient of a sample x at w is x @ slope: a mean of norm 2, and noise of variance 9 in
    each of 30 elements.
    """
    rng = np.random.default_rng(3)
    mean = np.full(LENGTH, 2 / math.sqrt(LENGTH))
    x = rng.normal(mean, 3.0, (num_samples, LENGTH)).astype(np.float32)
    return sh.ArrayDeserializer({"labels": x}), LENGTH * 9 / 4


def linear(model: dict[str, NDArray[Any]], minibatch: sh.Minibatch) -> Any:
    """Return a loss that is linear in the parameters, so that x is a sample's gradient."""
    x = minibatch["labels"].values
    return float((x @ model["w"]).sum()), [x.sum(axis=0)]


def trained(
    corpus: sh.ArrayDeserializer,
    size: int,
    noise: sh.train.GradientNoiseScale | None = None,
    parts: int = 4,
) -> float:
    """Return the noise scale of training."""
    noise = noise or sh.train.GradientNoiseScale()
    model = {"w": np.zeros(LENGTH, np.float32)}
    trainer = sh.Trainer(
        model,
        linear,
        sh.numpy.SGD(model, 0.001),
        noise,
        sub_minibatches=parts,
    )
    for minibatch in sh.MinibatchSource(corpus, max_sweeps=1).minibatches(size):
        trainer.train_minibatch(minibatch)
    return noise.value


class TestEstimate:
    # Of s steps in k parts the variance has the relative error sqrt(2 / (30 s (k - 1))), and
    # the squared gradient one of 1 percent, as its norm is 2 and that of its error in its
    # direction 3 / sqrt(60,000): in all some 3 percent at worst, of which four are allowed.
    @pytest.mark.parametrize(("size", "parts"), [(32, 2), (64, 4), (256, 8), (100, 7)])
    def test_it_is_that_of_gaussian_gradients(self, size: int, parts: int) -> None:
        corpus, true = gaussian_corpus(60_000)
        settings = sh.train.GradientNoiseScale(decay=0.9999)
        found = trained(corpus, size, settings, parts)
        assert found == pytest.approx(true, rel=0.12)

    def test_before_the_first_measurement_it_is_nan(self) -> None:
        noise = sh.train.GradientNoiseScale()
        trainer = line_trainer([noise], sub_minibatches=2)
        assert math.isnan(noise.value)
        trainer.train_minibatch(source_of_lengths([3]).next_minibatch(3))  # has no two parts
        assert math.isnan(noise.value)


def run(*observers: Any) -> tuple[sh.Trainer, Heard]:
    heard = Heard()
    trainer = line_trainer([heard, *observers], sub_minibatches=3)
    source = source_of_lengths([1, 2, 3, 4] * 5)
    for _ in range(6):
        trainer.train_minibatch(source.next_minibatch(11))
    return trainer, heard


def parameters(trainer: sh.Trainer) -> bytes:
    [learner] = trainer.model.learners
    return learner.parameters["0"].tobytes()  # type: ignore[attr-defined, no-any-return]


def test_measuring_changes_no_bit_of_training() -> None:
    noise = sh.train.GradientNoiseScale()
    (plain, before), (measured, after) = run(), run(noise)
    assert parameters(plain) == parameters(measured)
    assert [s.loss for s in before.steps] == [s.loss for s in after.steps]
    assert before.steps[-1].figures == {}
    assert after.steps[-1].figures == {"gradient_noise_scale": noise.value}


def test_a_loss_scale_is_taken_out_and_an_overflow_left_out() -> None:
    def make(scale: float | None) -> sh.Trainer:
        model = Line()
        learner: Any = sh.numpy.SGD([model.w], 0.01)
        if scale is not None:
            learner = sh.LossScaleOptimizer(learner, initial_scale=scale)

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            loss, [gradient] = squared_error(model, minibatch)
            factor = np.float32(learner.get_scaled_loss(1.0) if scale else 1.0)
            return loss, [gradient * factor * np.float32(overflow or 1)]

        noise = sh.train.GradientNoiseScale()
        return sh.Trainer(model, criterion, learner, noise, sub_minibatches=2)

    overflow = 0.0
    plain, scaled = make(None), make(64.0)
    for trainer in plain, scaled:
        source = source_of_lengths([1] * 40)
        for _ in range(3):
            trainer.train_minibatch(source.next_minibatch(8))
    [noise], [scaled_noise] = plain.writers, scaled.writers
    before = scaled_noise.value
    assert before == pytest.approx(noise.value, rel=1e-6)
    overflow = math.inf
    scaled.train_minibatch(source.next_minibatch(8))
    assert scaled_noise.value == before


def test_a_session_that_goes_on_tells_what_the_unbroken_one_tells(tmp_path: Path) -> None:
    def session(folder: Path, max_samples: int, heard: Heard) -> sh.train.TrainingSession:
        noise = sh.train.GradientNoiseScale()
        trainer = line_trainer([heard, noise], sub_minibatches=2)
        return sh.training_session(
            trainer,
            source_of_lengths([1] * 21),
            9,
            max_samples=max_samples,
            progress_frequency=30,
            checkpoint_config=sh.CheckpointConfig(folder),
        )

    whole, first, second = Heard(), Heard(), Heard()
    session(tmp_path / "whole", 198, whole).train()
    session(tmp_path / "parts", 99, first).train()
    session(tmp_path / "parts", 198, second).train()
    told = [s.figures for s in whole.steps]
    assert told[-len(second.steps) :] == [s.figures for s in second.steps]
    summaries = [r.figures["gradient_noise_scale"] for r in whole.of("summary")]
    assert summaries[-1] == second.of("summary")[-1].figures["gradient_noise_scale"]
