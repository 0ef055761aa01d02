"""Minibatches in parts: their gradients are those of the whole."""

import math

import numpy as np
import pytest
import torch
from tests.train.small import (
    line_trainer,
    source_of_lengths,
)
from tests.train.small_torch import LENGTHS, minibatch, parameters, torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.trainer.trainer import split


class TestSubMinibatches:
    def test_rows_that_go_on_are_not_cut(self) -> None:
        with pytest.raises(TypeError, match="TruncatedBPTT"):
            split(minibatch(layout=sh.TruncatedBPTT(4)), 2)

    @pytest.mark.parametrize("parts", [2, 3, 5, 20])
    def test_gradients_of_parts_are_those_of_the_whole(self, parts: int) -> None:
        model, trainer = torch_trainer()
        other, in_parts = torch_trainer(sub_minibatches=parts)
        line, line_in_parts = line_trainer(), line_trainer(sub_minibatches=parts)
        for one in source_of_lengths(LENGTHS, max_sweeps=3).minibatches(20):
            for each in (trainer, in_parts, line, line_in_parts):
                each.train_minibatch(one)
            assert in_parts.previous_minibatch_loss_average == pytest.approx(
                trainer.previous_minibatch_loss_average, rel=1e-5
            )
        for mine, wanted in zip(parameters(other), parameters(model), strict=True):
            assert torch.allclose(mine, wanted, rtol=1e-4)
        assert np.allclose(
            line_in_parts.model.learners[0].parameters["0"],
            line.model.learners[0].parameters["0"],
        )

    def test_no_criterion_is_given_an_empty_part(self) -> None:
        calls = []

        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            calls.append(one.num_sequences)
            return torch_error(model, one)

        _, trainer = torch_trainer(criterion=criterion, sub_minibatches=8)
        trainer.train_minibatch(source_of_lengths([3, 1]).next_minibatch(4))
        assert calls == [1, 1]

    def test_one_bad_part_voids_the_step(self) -> None:
        calls = []

        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            calls.append(one.num_sequences)
            return torch_error(model, one) * (math.inf if len(calls) == 2 else 1)

        model, trainer = torch_trainer(criterion=criterion, loss_scale={}, sub_minibatches=3)
        before = parameters(model)
        trainer.train_minibatch(minibatch())
        assert calls == [3, 3, 4]
        assert all(map(torch.equal, before, parameters(model)))
        assert (trainer.consumed.steps, trainer.applied.steps) == (1, 0)
        trainer.train_minibatch(minibatch())
        assert trainer.applied.steps == 1
