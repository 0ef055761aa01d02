"""The critical batch size: what branches train and find, and that they leave no trace."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.small import (
    Heard,
    Line,
    in_order,
    line_trainer,
    source_of_lengths,
    squared_error,
)

import sweephand as sh
from sweephand.ext.follow.critical_batch_size import SmoothedLoss

NAN = math.nan
RATE = sh.learning_parameter_schedule_per_sample(0.01)


def branches(losses: dict[int, float], tolerance: float = 0.01) -> sh.train.BatchSizeBranches:
    made = [sh.train.BatchSizeBranch(size, 1.0, 10, loss) for size, loss in losses.items()]
    return sh.train.BatchSizeBranches(tuple(made), tolerance)


class TestBranches:
    def test_the_largest_size_within_the_tolerance_is_critical(self) -> None:
        found = branches({8: 2.0, 16: 1.9, 32: 2.02, 64: 2.03})
        assert (found.critical_batch_size, found.is_lower_bound) == (32, False)
        assert str(found) == (
            "critical batch size: it is 32; "
            "the loss is 2 at 8, 1.9 at 16, 2.02 at 32, 2.03 at 64"
        )

    @pytest.mark.parametrize("losses", [{8: 1.0, 16: NAN}, {8: 1.0}])
    def test_a_branch_that_fails_is_beyond_it(self, losses: dict[int, float]) -> None:
        assert branches(losses).critical_batch_size == 8


def test_the_loss_is_smoothed_over_samples() -> None:
    """Ten steps of one sample weigh what one of ten does."""

    def smoothed(size: int, count: int) -> float:
        window = SmoothedLoss(20.0)
        for i in range(100 // size):
            total = sum(float(i * size + j >= 50) for j in range(size))
            window.update(sh.train.Step(i + 1, 0, size, total, None, i != count, 0.1, 0.0))
        return window.value

    assert smoothed(1, -1) == pytest.approx(1 - math.exp(-50 / 20), abs=0.01)
    assert smoothed(10, -1) == pytest.approx(smoothed(1, -1), abs=0.03)
    assert smoothed(10, 9) < smoothed(10, -1)  # a skipped step is left out
    assert math.isnan(SmoothedLoss(1.0).value)


class TestMeasure:
    def test_each_branch_trains_the_same_samples(self) -> None:
        seen: list[int] = []
        trainer: Any = None

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            seen.append(trainer.consumed.samples)
            return squared_error(model, minibatch)

        trainer = line_trainer(rate=1e-5, criterion=criterion)
        found = sh.train.CriticalBatchSize(100, max_size=13).measure(
            trainer, in_order([1] * 30), 3
        )
        assert [b[:3] for b in found.branches] == [
            (3, 1.0, 34),
            (6, math.sqrt(2), 17),
            (12, 2.0, 9),
        ]
        starts = [i for i, samples in enumerate(seen) if samples == 0]
        assert starts == [0, 34, 51]
        assert [seen[i - 1] for i in (34, 51, 60)] == [99, 96, 96]  # the last has what is left

    @pytest.mark.parametrize(("rule", "factor"), [("sqrt", math.sqrt(2)), ("linear", 2.0)])
    @pytest.mark.parametrize("reference", [None, 1, 64])
    def test_rates_of_mean_gradients_grow_by_the_rule(
        self, rule: Any, factor: float, reference: int | None
    ) -> None:
        rates: dict[int, set[float]] = {}
        trainer: Any = None

        def criterion(model: Line, minibatch: sh.Minibatch) -> Any:
            [learner] = trainer.model.learners
            size = minibatch.num_samples
            rates.setdefault(size, set()).add(learner.pace.rate(size))
            return squared_error(model, minibatch)

        schedule = sh.learning_parameter_schedule(1e-5, minibatch_size=reference)
        trainer = line_trainer(rate=schedule, criterion=criterion)
        measuring = sh.train.CriticalBatchSize(64, learning_rate_rule=rule, tolerance=9.0)
        measuring.measure(trainer, in_order([1] * 30), 2)
        [small], [double], [fourfold] = rates[2], rates[4], rates[8]
        assert double == pytest.approx(small * factor)
        assert fourfold == pytest.approx(small * factor**2)

    def test_a_branch_that_diverges_ends_the_search(self) -> None:
        trainer = line_trainer(rate=sh.learning_parameter_schedule(0.5, minibatch_size=8))
        measuring = sh.train.CriticalBatchSize(4000, learning_rate_rule="linear", tolerance=0.1)
        with np.errstate(over="ignore", invalid="ignore"):
            found = measuring.measure(trainer, in_order([1] * 64), 2)
        *good, last = found.branches
        assert found.critical_batch_size == good[-1].minibatch_size < 64
        assert not last.loss <= good[0].loss * 1.1
        assert not found.is_lower_bound


def session(heard: Heard, measuring: sh.train.CriticalBatchSize | None, **options: Any) -> Any:
    return sh.training_session(
        line_trainer([heard], RATE),
        source_of_lengths([1] * 40),
        options.pop("mb_size", 8),
        max_samples=options.pop("max_samples", 160),
        epoch_size=40,
        activities=[] if measuring is None else [measuring],
        **options,
    )


class TestSession:
    MEASURING = sh.train.CriticalBatchSize(128, frequency=(2, "epoch"))

    def test_it_measures_as_often_as_asked_and_changes_nothing(self) -> None:
        plain, measured = Heard(), Heard()
        session(plain, None).train()
        one = session(measured, self.MEASURING)
        one.train()
        assert [s[:6] for s in plain.steps] == [s[:6] for s in measured.steps]
        told = [r for r in measured.of("change") if "critical_batch_size" in r.figures]
        assert [r.samples for r in told] == [80, 160]
        others = [r for r in measured.of("change") if r not in told]
        assert others == plain.of("change")
        lines = [r.figures["message"] for r in measured.of("event")]
        found = self.MEASURING.branches
        assert found is not None
        assert str(found) in lines
        assert told[-1].figures["critical_batch_size"] == found.critical_batch_size

    def test_a_finished_run_is_measured_from_its_checkpoint(self, tmp_path: Path) -> None:
        config = sh.CheckpointConfig(tmp_path)
        plain = Heard()
        session(plain, None, checkpoint_config=config).train()
        later = Heard()
        measuring, at_end = (sh.train.CriticalBatchSize(128, frequency=None) for _ in range(2))
        session(later, measuring, checkpoint_config=config).train()
        assert not later.steps
        assert measuring.branches is not None
        assert measuring.branches.branches[0].num_steps == 16
        assert [r.samples for r in later.of("change")] == [160]
        session(Heard(), at_end).train()  # measures at its end
        assert at_end.branches == measuring.branches

    @pytest.mark.parametrize("mb_size", [20, "8*2 + 20"])
    def test_too_few_samples_are_refused_before_training(self, mb_size: Any) -> None:
        with pytest.raises(ValueError, match="at least 8 minibatches of 20, got 128"):
            session(Heard(), self.MEASURING, mb_size=mb_size)
