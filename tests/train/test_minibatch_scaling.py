"""Minibatch scaling: its rules, and that trials leave no trace."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh
from sweephand.train.session.minibatch_scaling import MinibatchScaling, search, trial_loss

NAN = math.nan


class TestScalingRule:
    def test_sizes_grow_by_the_root_of_two_in_multiples_of_64(self) -> None:
        sizes = list(MinibatchScaling().trial_sizes(256, 1024, 1.0))
        assert sizes == [512, 704, 1024, 1472, 2048]

    @given(
        st.integers(1, 5000),
        st.integers(1, 5000),
        st.floats(0, 2, allow_nan=False),
        st.integers(1, 10000),
    )
    def test_sizes_ascend_and_keep_their_bounds(
        self, scheduled: int, present: int, ratio: float, largest: int
    ) -> None:
        scaling = MinibatchScaling(max_size=largest)
        sizes = list(scaling.trial_sizes(scheduled, present, ratio))
        assert sizes == sorted(set(sizes))
        assert sizes[0] >= 1
        assert sizes[-1] == min(largest, 2 * present)

    def test_the_search_keeps_the_last_that_converges_as_the_first(self) -> None:
        losses = {64: 1.0, 128: 1.009, 192: 1.02, 256: 0.5}
        assert search(iter(losses), 64, 1.0, losses.__getitem__) == 128
        losses[128] = NAN
        assert search(iter(losses), 64, 1.0, losses.__getitem__) == 64
        assert search(iter(losses), 99, 1.0, lambda size: NAN) == 99


def moment(session: sh.train.TrainingSession) -> tuple[str, dict[str, bytes]]:
    """Return everything that a session would save."""
    snapshot = session._run.capture_session()
    files = {
        f"{name}/{key}": array.tobytes()
        for name, file in snapshot.files.items()
        for key, array in file.arrays.items()
    }
    return json.dumps(snapshot.state), files


class TestScaling:
    def session(self, heard: Heard, **options: Any) -> sh.train.TrainingSession:
        rng = np.random.default_rng(7)

        def noisy(model: Line, minibatch: sh.Minibatch) -> Any:
            np.random.normal()  # noqa: NPY002
            loss, [gradient] = squared_error(model, minibatch)
            return loss, [gradient + rng.normal(scale=100, size=2).astype(np.float32)]

        trainer = line_trainer(
            [heard],
            sh.learning_parameter_schedule_per_sample(1e-4),
            criterion=noisy,
            stateful={"rng": rng},
        )
        scaling = sh.MinibatchScaling(
            trial_minibatches=4,
            max_size=24,
            error_margin=1000.0,
        )
        return sh.training_session(
            trainer,
            source_of_lengths([1] * 40),
            8,
            max_samples=options.pop("max_samples", 160),
            epoch_size=40,
            mb_scaling=scaling,
            **options,
        )

    def test_a_trial_leaves_no_trace(self) -> None:
        session = self.session(Heard(), max_samples=30)
        session.train()
        before = moment(session)
        assert trial_loss(session._run, 16, 5) > 0
        assert moment(session) == before

    def test_the_minibatch_grows_at_epochs(self) -> None:
        heard = Heard()
        self.session(heard).train()
        sizes = [step.num_samples for step in heard.steps]
        assert sizes[:5] == [8] * 5
        assert sizes[5] == 16
        told = [r.figures["minibatch_size"] for r in heard.of("change")[1:]]
        assert told in ([16], [16, 24])
        assert max(sizes) == told[-1]

    def test_rates_of_a_minibatch_of_any_size_are_refused(self) -> None:
        with pytest.raises(ValueError, match="reference size"):
            sh.training_session(
                line_trainer(rate=0.1),
                source_of_lengths([1], max_sweeps=1),
                8,
                mb_scaling=sh.MinibatchScaling(),
            )
