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
    def test_gradients_of_packed_parts_are_those_of_the_whole(self) -> None:
        def train(parts: int) -> torch.Tensor:
            model = nn.Embedding(50, 50)
            nn.init.zeros_(model.weight)

            def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
                data = one["labels"]
                logits = model(torch.from_numpy(data.asarray()))
                truth = torch.from_numpy(data.labels())
                return nn.functional.cross_entropy(
                    logits.flatten(0, 1), truth.flatten(), reduction="sum"
                )

            learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 1.0), 1.0)
            trainer = sh.Trainer(model, criterion, learner, sub_minibatches=parts)
            tokens = [np.arange(1, n + 2) for n in range(40)]
            source = sh.MinibatchSource(
                sh.ArrayDeserializer({"labels": tokens}), layout=sh.Packed(45)
            )
            for _ in range(3):
                trainer.train_minibatch(source.next_minibatch(200))
            return model.weight.detach()

        assert torch.allclose(train(1), train(3), atol=1e-5)

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
