"""A steered run goes on the same from every checkpoint."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh

NAN = math.nan


class TestResume:
    """Whichever checkpoint of a run is the newest, the run comes to the same end."""

    def session(self, folder: Path, heard: Heard) -> sh.train.TrainingSession:
        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            loss, gradients = squared_error(model, minibatch)
            jitter = np.random.normal(scale=1e-3, size=2)  # noqa: NPY002
            return loss, [gradients[0] + jitter.astype(np.float32)]

        trainer = line_trainer(
            [heard], sh.learning_parameter_schedule_per_sample(0.02), criterion=criterion
        )
        return sh.training_session(
            trainer,
            source_of_lengths([1, 3, 2, 5, 1, 1, 4] * 4),
            6,
            max_samples=300,
            epoch_size=60,
            checkpoint_config=sh.CheckpointConfig(
                folder, frequency=(7, "minibatch"), preserve_all=True
            ),
            cv_config=sh.CrossValidationConfig(
                source_of_lengths([1] * 7, max_sweeps=1), frequency=90
            ),
            lr_control=sh.LearningRateControl(0.3, min_learning_rate=0.002),
            mb_scaling=sh.MinibatchScaling(trial_minibatches=3, max_size=10),
        )

    def test_from_every_checkpoint_the_end_is_the_same(self, tmp_path: Path) -> None:
        np.random.seed(3)  # noqa: NPY002
        whole = Heard()
        self.session(tmp_path / "whole", whole).train()
        events = [str(record.figures.get("message")) for record in whole.of("event")]
        assert any("rejected" in message for message in events)
        assert any("minibatch_size" in record.figures for record in whole.of("change"))
        checkpoints = sorted((tmp_path / "whole").iterdir())
        assert len(checkpoints) > 10
        for i in range(len(checkpoints)):
            for earlier in checkpoints[: i + 1]:
                shutil.copytree(earlier, tmp_path / str(i) / earlier.name)
            rest = Heard()
            self.session(tmp_path / str(i), rest).train()
            tail = [step[:6] for step in whole.steps[len(whole.steps) - len(rest.steps) :]]
            assert [step[:6] for step in rest.steps] == tail
            validations = whole.of("validation")
            first = len(validations) - len(rest.of("validation"))
            assert rest.of("validation") == validations[first:]
