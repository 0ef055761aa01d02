"""Learning-rate control: its rule, and what a rejected epoch leaves."""

import math
from typing import Any

import pytest
from tests.train.small import Heard, Line, line_trainer, source_of_lengths, squared_error

import sweephand as sh
from sweephand.train.session.validation import LearningRateControl, RateController

NAN = math.nan
# What is decided: rejected or not, the factor of the rate, and whether training ends.
ON, LESS, BACK = (False, 1.0, False), (False, 0.618, False), (True, 0.618, False)
BETWEEN = {"reduce_if_improve_less_than": 0.1, "increase_if_improve_more_than": 0.5}


class TestControlRule:
    @pytest.mark.parametrize(
        ("values", "settings", "decided"),
        [
            # A worse epoch is rejected; the next is compared with what it left.
            ([5.0, 4.0, 4.5, 3.9], {}, [ON, ON, BACK, ON]),
            ([4.0, 4.5, 4.4], {"load_best": False}, [ON, LESS, ON]),
            ([4.0, 4.0], {"increase_if_improve_more_than": 0.0}, [ON, LESS]),
            # The improvement is relative to the previous value.
            ([10.0, 9.0], BETWEEN, [ON, LESS]),
            ([10.0, 8.9], BETWEEN, [ON, ON]),
            ([10.0, 5.0], BETWEEN, [ON, ON]),
            ([10.0, 4.9], BETWEEN, [ON, (False, 1.382, False)]),
            # NaN rejects even the first epoch, and is never compared with.
            ([NAN, 4.0, NAN, 4.0], {}, [BACK, ON, BACK, LESS]),
            ([4.0, NAN, 3.0], {"load_best": False}, [ON, LESS, ON]),
            (
                [5.0, 4.0, 4.0, 3.0, 2.0, 2.5],
                {"continue_reduce": True},
                [ON, ON, LESS, LESS, LESS, (True, 0.618, True)],
            ),
        ],
    )
    def test_an_epoch_is_rejected_and_the_rate_changed_by_its_improvement(
        self, values: list[float], settings: dict[str, Any], decided: list[Any]
    ) -> None:
        controller, control = RateController(), LearningRateControl(**settings)
        assert [tuple(controller.decide(value, control)) for value in values] == decided

    def test_rejections_in_a_row_multiply(self) -> None:
        controller, control = RateController(), LearningRateControl()
        factors = []
        for value in (4.0, 5.0, 5.0, 3.0):
            controller.decide(value, control)
            factors.append(controller.factor)
        assert factors == [1.0, 0.618, 0.618**2, 1.0]


class TestControl:
    """Sessions whose validation losses are told by a criterion."""

    def session(
        self, losses: list[float], writers: list[Any], epochs: int, **options: Any
    ) -> tuple[sh.Trainer, sh.train.TrainingSession]:
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

    def test_training_ends_when_the_rate_falls_below_its_floor(self) -> None:
        control = sh.LearningRateControl(min_learning_rate=0.005)
        heard = Heard()
        trainer, session = self.session([1.0] + [2.0] * 9, [heard], 9, lr_control=control)
        session.train()
        assert trainer.model.learners[0].learning_rate == pytest.approx(0.01 * 0.618**2)
        told = [str(event.figures["message"]) for event in heard.of("event")]
        assert any("below its floor" in one for one in told)

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
