"""Learning-rate control and minibatch scaling: their rules, and that trials leave no trace."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh
from sweephand.train.learning_rate_control import LearningRateControl, RateController
from sweephand.train.minibatch_scaling import MinibatchScaling, noise_scale, round_size
from sweephand.train.trials import trial_loss, trial_noise_scale

NAN = math.nan


class TestControlRule:
    def run(self, values: list[float], **settings: Any) -> list[tuple[bool, float, bool]]:
        controller = RateController(LearningRateControl(**settings))
        return [tuple(controller.decide(value)) for value in values]

    def test_the_first_epoch_changes_nothing(self) -> None:
        assert self.run([5.0], increase_if_improve_more_than=0.0) == [(False, 1.0, False)]

    def test_a_worse_epoch_is_rejected_and_reduces(self) -> None:
        assert self.run([5.0, 4.0, 4.5, 3.9]) == [
            (False, 1.0, False),
            (False, 1.0, False),
            (True, 0.618, False),
            (False, 1.0, False),  # against 4.0, which the rejected epoch left
        ]

    def test_without_a_best_a_worse_epoch_stays_and_reduces(self) -> None:
        assert self.run([4.0, 4.5, 4.4], load_best=False) == [
            (False, 1.0, False),
            (False, 0.618, False),
            (False, 1.0, False),  # against 4.5
        ]

    def test_an_equal_epoch_reduces_and_is_accepted(self) -> None:
        assert self.run([4.0, 4.0])[1] == (False, 0.618, False)

    def test_the_improvement_is_relative_to_the_previous_value(self) -> None:
        settings = {"reduce_if_improve_less_than": 0.1, "increase_if_improve_more_than": 0.5}
        assert self.run([10.0, 9.0], **settings)[1].__getitem__(1) == 0.618
        assert self.run([10.0, 8.9], **settings)[1].__getitem__(1) == 1.0
        assert self.run([10.0, 5.0], **settings)[1].__getitem__(1) == 1.0
        assert self.run([10.0, 4.9], **settings)[1].__getitem__(1) == 1.382

    def test_nan_rejects_even_the_first_epoch(self) -> None:
        assert self.run([NAN, 4.0, NAN, 4.0]) == [
            (True, 0.618, False),
            (False, 1.0, False),
            (True, 0.618, False),
            (False, 0.618, False),
        ]

    def test_nan_without_a_best_reduces_and_is_forgotten(self) -> None:
        assert self.run([4.0, NAN, 3.0], load_best=False) == [
            (False, 1.0, False),
            (False, 0.618, False),
            (False, 1.0, False),  # against 4.0
        ]

    def test_continue_reduce_reduces_from_then_on_and_ends_at_the_second_failure(self) -> None:
        assert self.run([5.0, 4.0, 4.0, 3.0, 2.0, 2.5], continue_reduce=True) == [
            (False, 1.0, False),
            (False, 1.0, False),
            (False, 0.618, False),
            (False, 0.618, False),
            (False, 0.618, False),
            (True, 0.618, True),
        ]

    def test_rejections_in_a_row_multiply(self) -> None:
        controller = RateController(LearningRateControl())
        factors = []
        for value in (4.0, 5.0, 5.0, 3.0):
            controller.decide(value)
            factors.append(controller.factor)
        assert factors == [1.0, 0.618, 0.618**2, 1.0]

    def test_a_rate_below_the_floor_is_too_low(self) -> None:
        controller = RateController(LearningRateControl(min_learning_rate=0.01))
        assert controller.is_too_low(0.009)
        assert not controller.is_too_low(0.01)
        assert RateController(LearningRateControl()).is_too_low(1e-13)

    @given(st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN]), max_size=12), st.booleans())
    def test_a_restored_controller_goes_on_the_same(
        self, values: list[float], continue_reduce: bool
    ) -> None:
        settings = LearningRateControl(continue_reduce=continue_reduce)
        controller = RateController(settings)
        for value in values:
            fresh = RateController(settings)
            fresh.load_state_dict(json.loads(json.dumps(controller.state_dict())))
            assert fresh.decide(value) == controller.decide(value)
            assert fresh.state_dict() == controller.state_dict()

    @pytest.mark.parametrize(
        "settings",
        [
            {"reduce_if_improve_less_than": -1},
            {"increase_if_improve_more_than": NAN},
            {"min_learning_rate": "low"},
            {"load_best": 1},
        ],
    )
    def test_wrong_settings_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(settings))):
            LearningRateControl(**settings)


class TestControl:
    """Sessions whose validation losses are told by a criterion."""

    def session(
        self, losses: list[float], writers: list[Any], epochs: int, **options: Any
    ) -> tuple[sh.Trainer, sh.TrainingSession]:
        left = iter(losses)

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            loss, gradients = squared_error(model, minibatch)
            return (loss if model.training else next(left)), gradients

        trainer = line_trainer(writers, 0.01, criterion=criterion)
        control = options.pop("lr_control", sh.LearningRateControl())
        session = sh.training_session(
            trainer,
            source_of_lengths([1] * 40),
            8,
            max_samples=40 * epochs,
            cv_config=sh.CrossValidationConfig(
                source_of_lengths([1], max_sweeps=1), frequency=0
            ),
            lr_control=control,
            **options,
        )
        return trainer, session

    def test_a_rejected_epoch_leaves_only_a_smaller_rate(self) -> None:
        heard = Heard()
        trainer, session = self.session([3.0, 2.0, 2.5, 1.0], [heard], 3)
        session.train()
        # The third epoch is done again, from the end of the second.
        third, again = heard.steps[10:15], heard.steps[15:20]
        assert [step.step for step in third] == [step.step for step in again]
        assert third[0].loss == again[0].loss
        assert third[1].loss != again[1].loss
        assert trainer.total_number_of_samples_seen == 120
        told = [r.figures["learning_rate"] for r in heard.of("change")]
        assert told == [0.01, 0.01 * 0.618]
        assert any("2.5 is rejected" in str(r.figures["message"]) for r in heard.of("event"))

    def test_the_redone_epoch_is_that_of_a_run_with_the_smaller_rate(self) -> None:
        heard, plain = Heard(), Heard()
        self.session([3.0, 4.0, 1.0], [heard], 2)[1].train()
        trainer = line_trainer([plain], 0.01)
        source = source_of_lengths([1] * 40)
        sh.training_session(trainer, source, 8, max_samples=40).train()
        trainer.model.learners[0].learning_rate *= 0.618
        sh.training_session(trainer, source, 8, max_samples=80).train()
        assert [s.loss for s in heard.steps[:5] + heard.steps[10:15]] == [
            s.loss for s in plain.steps
        ]

    def test_training_ends_when_the_rate_falls_below_its_floor(self) -> None:
        control = sh.LearningRateControl(min_learning_rate=0.005)
        heard = Heard()
        trainer, session = self.session([1.0] + [2.0] * 9, [heard], 9, lr_control=control)
        session.train()
        assert trainer.model.learners[0].learning_rate == pytest.approx(0.01 * 0.618**2)
        assert "below its floor" in str(heard.of("event")[-1].figures["message"])

    def test_the_explicit_rates_of_the_schedule_come_first(self) -> None:
        trainer = line_trainer(
            rate=sh.learning_parameter_schedule([0.01, 0.02, 0.03], epoch_size=40)
        )
        sh.training_session(
            trainer,
            source_of_lengths([1] * 40),
            8,
            max_samples=80,
            lr_control=sh.LearningRateControl(reduce_if_improve_less_than=1.0),
        ).train()
        assert trainer.model.learners[0].learning_rate == 0.03 * 0.618

    def test_the_training_loss_decides_without_validation(self) -> None:
        trainer = line_trainer(rate=0.05)
        sh.training_session(
            trainer,
            source_of_lengths([1] * 40),
            8,
            max_samples=160,
            epoch_size=40,
            lr_control=sh.LearningRateControl(increase_if_improve_more_than=0.0),
        ).train()
        assert trainer.model.learners[0].learning_rate == pytest.approx(0.05 * 1.382**3)

    def test_nan_in_the_midst_of_an_epoch_goes_back_too(self) -> None:
        calls = []

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            calls.append(minibatch.nominal_time)
            loss, gradients = squared_error(model, minibatch)
            return (NAN if len(calls) == 8 else loss), gradients

        heard = Heard()
        trainer = line_trainer([heard], 0.01, criterion=criterion)
        sh.training_session(
            trainer,
            source_of_lengths([1] * 40),
            8,
            max_samples=80,
            lr_control=sh.LearningRateControl(),
        ).train()
        assert calls == [0, 8, 16, 24, 32, 40, 48, 56, 40, 48, 56, 64, 72]
        assert trainer.model.learners[0].learning_rate == 0.01 * 0.618
        assert not any(math.isnan(step.loss) for step in heard.steps)

    def test_rates_that_others_set_cannot_be_controlled(self) -> None:
        torch = pytest.importorskip("torch")
        model = torch.nn.Linear(2, 1)
        learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.1), None)
        trainer = sh.Trainer(model, lambda m, b: m.weight.sum(), learner)
        with pytest.raises(ValueError, match="set by others"):
            sh.training_session(
                trainer,
                source_of_lengths([1], max_sweeps=1),
                8,
                lr_control=sh.LearningRateControl(),
            )


class TestScalingRule:
    def test_sizes_grow_by_the_root_of_two_in_multiples_of_64(self) -> None:
        sizes = list(MinibatchScaling().trial_sizes(256, 1024, 1.0))
        assert sizes == [512, 704, 1024, 1472, 2048]

    def test_a_fallen_rate_begins_higher(self) -> None:
        assert next(MinibatchScaling().trial_sizes(256, 256, 1.0)) == 256
        assert next(MinibatchScaling().trial_sizes(256, 256, 0.25)) == 512

    def test_sizes_end_at_the_largest(self) -> None:
        assert list(MinibatchScaling(max_size=700).trial_sizes(512, 512, 1.0)) == [512, 700]
        assert list(MinibatchScaling().trial_sizes(3, 3, 1.0)) == [3, 4, 6]

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
        scaling = MinibatchScaling(error_margin=1.0)
        assert scaling.search(iter(losses), 64, losses.__getitem__) == 128
        losses[128] = NAN
        assert scaling.search(iter(losses), 64, losses.__getitem__) == 64
        assert scaling.search(iter(losses), 99, lambda size: NAN) == 99

    def test_growth_by_the_noise_scale_is_at_most_double_and_never_down(self) -> None:
        scaling = MinibatchScaling(max_size=3000, rule="noise scale")
        assert scaling.grow(1000, 50.0) == 1000
        assert scaling.grow(1000, 1300.0) == 1280
        assert scaling.grow(1000, 9e9) == 2000
        assert scaling.grow(2000, math.inf) == 3000
        assert scaling.grow(1000, NAN) == 1000

    def test_the_noise_scale_of_known_gradients(self) -> None:
        # |G|^2 = 9, and a sample's noise has the variance 4 in each of 50 elements.
        rng = np.random.default_rng(0)
        size, count, length = 20, 4000, 50
        true = np.full(length, 3 / math.sqrt(length))
        noise = rng.normal(scale=2.0, size=(count, length)) / math.sqrt(size)
        means = true + noise
        found = noise_scale(
            list((means**2).sum(1)), [size] * count, float((means.mean(0) ** 2).sum())
        )
        assert found == pytest.approx(200 / 9, rel=0.02)

    def test_rounding(self) -> None:
        assert [round_size(s) for s in (0.2, 1.4, 63.4, 64, 95.9, 96.1)] == [
            1,
            1,
            63,
            64,
            64,
            128,
        ]

    @pytest.mark.parametrize(
        "settings",
        [
            {"max_size": 0},
            {"trial_minibatches": 1, "rule": "noise scale"},
            {"error_margin": -1.0},
            {"frequency": 0},
            {"rule": "hope"},
        ],
    )
    def test_wrong_settings_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(settings))):
            MinibatchScaling(**settings)


def moment(session: sh.TrainingSession) -> tuple[str, dict[str, bytes]]:
    """Return everything that a session would save."""
    snapshot = session._capture()
    files = {
        f"{name}/{key}": tensor.data.tobytes()
        for name, file in snapshot.files.items()
        for key, tensor in file.tensors.items()
    }
    return json.dumps(snapshot.state), files


class TestScaling:
    def session(self, rule: str, heard: Heard, **options: Any) -> sh.TrainingSession:
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
            rule=rule,  # type: ignore[arg-type]
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
        session = self.session("search", Heard(), max_samples=30)
        session.train()
        before = moment(session)
        assert trial_loss(session._run, 16, 5) > 0
        assert moment(session) == before
        assert trial_noise_scale(session._run, 16, 5) > 0
        assert moment(session) == before

    @pytest.mark.parametrize("rule", ["search", "noise scale"])
    def test_the_minibatch_grows_at_epochs(self, rule: str) -> None:
        heard = Heard()
        self.session(rule, heard).train()
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


class TestResume:
    """Whichever checkpoint of a run is the newest, the run comes to the same end."""

    def session(self, folder: Path, heard: Heard) -> sh.TrainingSession:
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
