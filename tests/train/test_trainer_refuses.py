"""What a trainer refuses or warns of, and says where."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import (
    Line,
    line_trainer,
)
from tests.train.small_torch import minibatch, parameters, torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch


class TestBadInput:
    def test_a_loss_that_is_not_finite_changes_nothing_and_tells_where(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            return torch_error(model, one) * math.nan

        model, trainer = torch_trainer(criterion=criterion)
        line = line_trainer(criterion=lambda m, b: (math.inf, [np.ones(2)]))
        before = parameters(model)
        for one in (trainer, line):
            with pytest.raises(FloatingPointError, match=r"step 1, .* time 0 of array__\d"):
                one.train_minibatch(minibatch(6))
        assert all(map(torch.equal, before, parameters(model)))
        assert not line.model.learners[0].parameters["0"].any()

    def test_a_run_of_skips_ends_with_the_ids_of_the_minibatch(self) -> None:
        def criterion(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
            return torch_error(model, one) * math.inf

        _, trainer = torch_trainer(criterion=criterion, loss_scale={"max_consecutive_skips": 2})
        one = minibatch(6)
        trainer.train_minibatch(one)
        with pytest.raises(sh.LossScaleError, match="nominal time 0") as caught:
            trainer.train_minibatch(one)
        assert caught.value.minibatch_ids == tuple(one.ids)
        assert (trainer.consumed.steps, trainer.applied.steps) == (2, 0)

    def test_a_frozen_parameter_needs_no_learner_and_may_have_one(self) -> None:
        model = nn.Linear(2, 1)
        model.bias.requires_grad = False
        for learned in ([model.weight], list(model.parameters())):
            learner = sh.torch.Learner(torch.optim.SGD(learned, 0.1), 0.1)
            sh.Trainer(model, torch_error, learner).train_minibatch(minibatch())

    def test_parameters_without_gradient_are_told_once(self) -> None:
        model = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
        _, trainer = torch_trainer(
            model=model, criterion=lambda m, one: torch_error(m["used"], one)
        )
        one = minibatch()
        with pytest.warns(UserWarning, match=r"2 parameters no gradient.*unused\.") as caught:
            trainer.train_minibatch(one)
        assert caught[0].filename == __file__
        trainer.train_minibatch(minibatch())

    @pytest.mark.parametrize(
        ("returned", "text"),
        [
            (1.0, "must return"),
            ((1.0,), "must return"),
            ((1.0, 2.0, 3.0, [None]), "must return"),
            ((1.0, []), "each of the 1 parameters"),
        ],
    )
    def test_a_numpy_criterion_must_return_gradients(self, returned: Any, text: str) -> None:
        with pytest.raises(ValueError, match=text):
            line_trainer(criterion=lambda m, one: returned).train_minibatch(minibatch())

    def test_learners_must_fit_the_model(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        own, last = list(model.parameters()), model[1].bias
        arrays = {"w": np.zeros(2), "b": np.zeros(1)}
        foreign = list(nn.Linear(2, 1).parameters())

        def learner(some: Any, wrap: Any = lambda optimizer: optimizer) -> Any:
            return sh.torch.Learner(wrap(torch.optim.SGD(some, 0.1)), 0.1)

        half = [learner(some, sh.LossScaleOptimizer) for some in (own[:2], own[2:])]
        sgd = torch.optim.SGD(own, 0.1)
        some = sh.numpy.SGD([arrays["w"]], 0.1)
        refused: dict[str, tuple[type[Exception], Any, Any]] = {
            "no learner has the parameters 1.weight, 1.bias": (
                ValueError,
                model,
                learner(own[:2]),
            ),
            "no learner has the parameters b": (ValueError, arrays, some),
            "has the parameters 1.bias": (ValueError, model, [learner(own), learner([last])]),
            "2 parameters that are not": (ValueError, model, learner([*own, *foreign])),
            "must hold for all parameters": (ValueError, model, half),
            "at least one learner": (ValueError, model, []),
            "must be sweephand.torch.Learner": (TypeError, model, sgd),
            "must be of sweephand": (TypeError, Line(), sgd),
        }
        for words, (error, of, learners) in refused.items():
            with pytest.raises(error, match=re.escape(words)):
                sh.Trainer(of, torch_error, learners)
