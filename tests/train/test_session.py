"""Sessions: limits, what is due when, validation and ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.small import (
    CNTK_LENGTHS,
    Heard,
    in_order,
    line_trainer,
    misses,
    source_of_lengths,
    squared_error_and_misses,
)

import sweephand as sh

TOTALS_AT_20 = [7, 11, 15, 19, 21]


def sizes_of(heard: Heard) -> list[int]:
    return [step.num_samples for step in heard.steps]


class TestLimits:
    @pytest.mark.parametrize(
        ("limit", "sizes"),
        [
            (20, [7, 4, 4, 4, 2]),
            (60, [7, 4, 4, 4, 4, 2] * 2 + [7, 2, 2]),
            (75, [7, 4, 4, 4, 4, 2] * 3),
        ],
    )
    def test_the_request_is_cut_at_the_limit_and_the_sequence_is_not(
        self, limit: int, sizes: list[int]
    ) -> None:
        heard = Heard()
        source = sh.MinibatchSourceFromData(ragged_arrays())
        sh.training_session(line_trainer([heard]), source, 4, max_samples=limit).train()
        assert sizes_of(heard) == sizes

    @pytest.mark.parametrize("restored_after", [None, 6])
    def test_with_one_label_a_sequence_the_last_minibatch_is_cut_by_sequences(
        self, tmp_path: Path, restored_after: int | None
    ) -> None:
        offsets = np.cumsum([0, *CNTK_LENGTHS])
        corpus = sh.ArrayDeserializer(
            {
                "x": (np.ones((25, 2), np.float32), offsets),
                "labels": (np.zeros(10, np.float32), np.arange(11)),
            }
        )
        heard = Heard()

        def train(max_samples: int) -> None:
            sh.training_session(
                line_trainer([heard], criterion=lambda model, minibatch: (1.0, [np.zeros(2)])),
                sh.MinibatchSource(corpus, randomize=False),
                8,
                max_samples=max_samples,
                checkpoint_config=sh.CheckpointConfig(tmp_path),
            ).train()

        if restored_after:
            train(15)
            assert len(heard.steps) == restored_after
        train(18)
        assert sizes_of(heard) == [1, 4, 4, 1, 1, 4, 3]

    def test_a_full_data_sweep_ends_with_the_sweep(self) -> None:
        trainer, source = line_trainer(), in_order()
        sh.training_session(trainer, source, 10, max_samples=sh.FULL_DATA_SWEEP).train()
        assert (trainer.consumed.samples, trainer.consumed.sweeps) == (25, 1)
        assert source.current_position == 25

    @pytest.mark.parametrize("size", ["4*2 + 10", "4*2 : 10", [(2, 4), 10], [4, 4, 10]])
    def test_a_list_of_sizes_counts_the_epochs_of_the_session(self, size: Any) -> None:
        for options, sizes in (
            ({"epoch_size": 6, "max_samples": 45}, [4, 4, 4, 10, 10, 10, 3]),
            ({"max_samples": 45}, [4] * 11 + [1]),  # an epoch is a sweep of 25
            ({"max_samples": 75}, [4] * 13 + [10, 10, 3]),
        ):
            heard = Heard()
            source = source_of_lengths([1] * 25, randomize=False)
            sh.training_session(line_trainer([heard]), source, size, **options).train()
            assert sizes_of(heard) == sizes


class TestFrequencies:
    def fired(self, frequency: Any, **options: Any) -> list[tuple[int, int]]:
        """Return the samples seen and the index of every validation of the run to 20."""
        trainer = line_trainer()
        fired: list[tuple[int, int]] = []

        def note(index: int, error: float, samples: int, minibatches: int) -> None:
            assert (error, samples, minibatches) == (0, 0, 0)
            fired.append((trainer.total_number_of_samples_seen, index))

        source = sh.MinibatchSourceFromData(ragged_arrays())
        config = sh.CrossValidationConfig(None, frequency, callback=note)
        options = {"max_samples": 20} | options
        sh.training_session(trainer, source, 4, cv_config=config, **options).train()
        return fired

    @pytest.mark.parametrize(
        ("frequency", "expected"),
        [
            (3, [(7, 0), (11, 2), (15, 3), (19, 5), (21, 6)]),
            (8, [(11, 0), (19, 1), (21, 2)]),
            (10, [(11, 0), (21, 1)]),
            (20, [(21, 0)]),
        ],
    )
    def test_several_multiples_fire_once_with_the_old_index(
        self, frequency: int, expected: list[tuple[int, int]]
    ) -> None:
        assert self.fired(frequency) == expected

    def test_none_is_once_at_the_end_and_zero_is_never(self) -> None:
        assert self.fired(None) == [(21, 0)]
        assert self.fired(sh.INFINITELY_REPEAT) == [(21, 0)]
        assert self.fired(0) == []
        assert self.fired((0, "sweep")) == []

    def test_every_minibatch_and_every_sweep(self) -> None:
        assert [seen for seen, _ in self.fired((1, "minibatch"))] == TOTALS_AT_20
        assert [seen for seen, _ in self.fired((2, "minibatch"))] == [11, 19, 21]
        at_sweeps = self.fired((1, "sweep"), max_samples=60)
        assert at_sweeps == [(25, 0), (50, 1), (61, 2)]
        assert self.fired(sh.FULL_DATA_SWEEP, max_samples=60) == at_sweeps

    def test_epochs_are_samples_or_sweeps_or_one(self) -> None:
        of = (1, "epoch")
        assert [seen for seen, _ in self.fired(of, epoch_size=10)] == [11, 21]
        assert [seen for seen, _ in self.fired((2, "epoch"), epoch_size=5)] == [11, 21]
        assert [seen for seen, _ in self.fired(of, max_samples=60)] == [25, 50, 61]
        assert self.fired(of, epoch_size=sh.INFINITELY_REPEAT) == [(21, 0)]

    def test_seconds_fire_by_the_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = iter(np.arange(0.0, 1000.0, 2.5))
        monkeypatch.setattr("time.monotonic", lambda: next(now))
        assert [seen for seen, _ in self.fired((5, "seconds"))] == [11, 19, 21]


class TestValidation:
    def test_the_error_is_the_metric_over_all_validation_samples(self) -> None:
        calls: list[tuple[Any, ...]] = []
        trainer = line_trainer(criterion=squared_error_and_misses)
        config = sh.CrossValidationConfig(
            in_order(max_sweeps=1), callback=lambda *call: calls.append(call), minibatch_size=6
        )
        sh.training_session(trainer, in_order(max_sweeps=1), 5, cv_config=config).train()
        whole = in_order().next_minibatch(25)
        [(index, error, samples, minibatches)] = calls
        assert (index, samples, minibatches) == (0, 25, 4)
        assert error == misses(trainer, whole) / 25

    def test_the_training_source_can_validate_too(self) -> None:
        heard, plain = Heard(), Heard()
        source = in_order()
        config = sh.CrossValidationConfig(source, frequency=10, max_samples=12)
        sh.training_session(
            line_trainer([heard]), source, 4, max_samples=40, cv_config=config
        ).train()
        sh.training_session(line_trainer([plain]), in_order(), 4, max_samples=40).train()
        assert [s.loss for s in heard.steps] == [s.loss for s in plain.steps]

    def test_a_callback_that_returns_false_ends_training_after_the_other_actions(
        self, tmp_path: Path
    ) -> None:
        heard = Heard()
        trainer = line_trainer([heard])
        config = sh.CrossValidationConfig(
            None, frequency=8, callback=lambda index, *_: index < 1
        )
        run = {
            "max_samples": 200,
            "cv_config": config,
            "checkpoint_config": sh.CheckpointConfig(tmp_path, frequency=8),
        }
        sh.training_session(trainer, in_order(), 4, **run).train()
        assert trainer.total_number_of_samples_seen == 19
        again = line_trainer()
        sh.training_session(again, in_order(), 4, **run).train()
        assert again.total_number_of_samples_seen == 19

    def test_the_test_runs_once_at_the_end(self) -> None:
        heard = Heard()
        trainer = line_trainer([heard], criterion=squared_error_and_misses)
        config = sh.TestConfig(in_order(max_sweeps=1), 6)
        sh.training_session(trainer, in_order(max_sweeps=2), 5, test_config=config).train()
        [record] = heard.of("test")
        assert (record.step, record.samples) == (len(heard.steps), 50)
        assert record.figures["num_samples"] == 25


def ragged_arrays() -> dict[str, Any]:
    """Return CNTK's example as `MinibatchSourceFromData` takes it."""
    minibatch = in_order().next_minibatch(25)
    return {name: (data.values, data.offsets) for name, data in minibatch.items()}
