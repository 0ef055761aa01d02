"""The trainer: what a step sees and counts."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import (
    Heard,
    Line,
    line_trainer,
    source_of_lengths,
    squared_error,
    squared_error_and_misses,
)
from tests.train.small_torch import LENGTHS, minibatch, parameters, torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.trainer.trained_model import check_losses


class TestStep:
    def test_a_numpy_step_is_that_of_the_loop_by_hand(self) -> None:
        trainer = line_trainer(rate=0.1)
        by_hand = Line()
        learner = sh.numpy.MomentumSGD([by_hand.w], 0.1, 0.9)
        for one in source_of_lengths(LENGTHS, max_sweeps=2).minibatches(8):
            assert trainer.train_minibatch(one)
            learner.update(squared_error(by_hand, one)[1], one.num_samples, one.sweeps_ended)
        assert np.array_equal(trainer.model.learners[0].parameters["0"], by_hand.w)

    def test_a_torch_step_is_that_of_the_loop_by_hand(self) -> None:
        model, trainer = torch_trainer()
        torch.manual_seed(0)
        by_hand = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(by_hand.parameters(), 0.1)
        for one in source_of_lengths(LENGTHS, max_sweeps=2).minibatches(8):
            assert trainer.train_minibatch(one)
            optimizer.zero_grad()
            (torch_error(by_hand, one) * (1 / one.num_samples)).backward()
            optimizer.step()
        assert all(map(torch.equal, parameters(model), parameters(by_hand)))

    def test_the_end_of_data_is_false_and_changes_nothing(self) -> None:
        trainer = line_trainer()
        assert trainer.train_minibatch({}) is False
        source = source_of_lengths([1], max_sweeps=1)
        source.next_minibatch(1)
        assert trainer.train_minibatch(source.next_minibatch(1)) is False
        assert trainer.consumed.steps == 0

    def test_counters_and_averages(self) -> None:
        trainer = line_trainer(criterion=squared_error_and_misses, rate=0.1)
        with pytest.raises(RuntimeError, match="no minibatch"):
            _ = trainer.previous_minibatch_loss_average
        first = minibatch(12, max_sweeps=1)
        loss, misses, _ = squared_error_and_misses(Line(), first)
        trainer.train_minibatch(first)
        samples = first.num_samples
        assert trainer.previous_minibatch_loss_average == loss / samples
        assert trainer.previous_minibatch_evaluation_average == misses / samples
        assert trainer.previous_minibatch_sample_count == samples
        assert trainer.total_number_of_samples_seen == samples
        assert (trainer.consumed.steps, trainer.applied.samples) == (1, samples)

    def test_plain_mappings_are_minibatches_too(self) -> None:
        def criterion(model: nn.Module, one: dict[str, torch.Tensor]) -> Any:
            loss = (model(one["x"]).squeeze(-1) - one["labels"]).square().sum()
            return loss, len(one["labels"])

        _, trainer = torch_trainer(criterion=criterion)
        trainer.train_minibatch({"x": torch.ones(5, 2), "labels": torch.zeros(5)})
        assert trainer.previous_minibatch_sample_count == 5
        assert trainer.previous_minibatch_evaluation_average == 1.0

    @pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
    def test_a_compiled_model_trains_and_its_checkpoint_fits_the_plain_one(
        self, tmp_path: Any
    ) -> None:
        compiled = torch.compile(nn.Linear(2, 1), backend="eager")
        _, trainer = torch_trainer(model=compiled)
        trainer.train_minibatch(minibatch())
        trainer.save_checkpoint(tmp_path)
        plain, again = torch_trainer()
        again.restore_from_checkpoint(tmp_path)
        assert all(map(torch.equal, parameters(plain), parameters(compiled)))


class TestLabels:
    def source(self) -> sh.MinibatchSource:
        """Make sequences of 2 samples with one label each."""
        x = np.ones((20, 2), np.float32)
        offsets = np.arange(0, 21, 2)
        streams = {
            "x": (x, offsets),
            "labels": (np.zeros(10, np.float32), np.arange(11)),
            "none": (np.zeros(0, np.float32), np.zeros(11, np.int64)),
        }
        return sh.MinibatchSource(sh.ArrayDeserializer(streams))

    def trainer(self, **options: Any) -> sh.Trainer:
        return line_trainer(criterion=lambda m, b: (1.0, [np.ones(2, np.float32)]), **options)

    @pytest.mark.parametrize(("stream", "counted"), [("labels", 4), ("x", 8)])
    def test_samples_of_the_label_stream_are_counted(self, stream: str, counted: int) -> None:
        trainer = self.trainer(label_stream=stream)
        trainer.train_minibatch(self.source().next_minibatch(8))
        assert trainer.total_number_of_samples_seen == counted

    def test_a_named_stream_must_be_there(self) -> None:
        with pytest.raises(ValueError, match="no label stream 'targets', there are: x, labels"):
            self.trainer(label_stream="targets").train_minibatch(
                self.source().next_minibatch(8)
            )
        with pytest.raises(ValueError, match="no label stream 'labels', there are: x"):
            self.trainer().train_minibatch({"x": [1, 2]})

    def test_no_label_samples_are_no_step_but_counted(self) -> None:
        heard = Heard()
        trainer = self.trainer(label_stream="none", writers=[heard])
        source = self.source()
        for _ in range(3):
            assert trainer.train_minibatch(source.next_minibatch(8)) is True
        assert not trainer.model.learners[0].parameters["0"].any()
        assert (trainer.consumed.steps, trainer.consumed.samples) == (3, 0)
        assert trainer.consumed.sweeps == trainer.model.learners[0].pace.consumed.sweeps == 1
        assert trainer.applied.steps == 0


class TestEvaluation:
    def model(self) -> nn.Sequential:
        model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(), nn.BatchNorm1d(4), nn.Linear(4, 1))
        model[2].eval()  # as someone who fine-tunes may want it
        return model

    def test_modes_gradients_and_parameters_stay(self) -> None:
        model = self.model()
        _, trainer = torch_trainer(model=model)
        modes = [module.training for module in model.modules()]
        state = {name: value.clone() for name, value in model.state_dict().items()}
        average = trainer.test_minibatch(minibatch())
        assert average == trainer.test_minibatch(minibatch())
        assert [module.training for module in model.modules()] == modes
        assert all(torch.equal(value, state[n]) for n, value in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert trainer.consumed.steps == 0

    def test_it_returns_the_metric_or_else_the_loss(self) -> None:
        one = minibatch()
        loss, misses, _ = squared_error_and_misses(Line(), one)
        assert line_trainer().test_minibatch(one) == loss / one.num_samples
        with_metric = line_trainer(criterion=squared_error_and_misses)
        assert with_metric.test_minibatch(one) == misses / one.num_samples


def test_losses_of_sequences_or_samples_make_no_mask_of_cells() -> None:
    one = minibatch()
    check_losses(one, (one.num_sequences,))
    check_losses(one, (one.num_samples,))
    assert not any("mask" in vars(data) for data in one.values())
    with pytest.raises(ValueError, match="cells"):
        check_losses(one, (one.num_samples + 1,))
