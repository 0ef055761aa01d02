"""Training goes on from a checkpoint as if it had not stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.small import LENGTHS, line_trainer, source_of_lengths
from tests.train.small_torch import torch_error, torch_trainer
from torch import nn

import sweephand as sh
import sweephand.torch


class Stateful:
    """A generator of torch with a state that JSON can hold."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def state_dict(self) -> list[int]:
        return self.generator.get_state().tolist()

    def load_state_dict(self, state: list[int]) -> None:
        self.generator.set_state(torch.tensor(state, dtype=torch.uint8))


class TestExactResume:
    @pytest.mark.parametrize("loss_scale", [None, {"dynamic_growth_steps": 3}])
    def test_torch_training_goes_on_as_if_it_had_not_stopped(
        self, tmp_path: Path, loss_scale: dict[str, Any] | None
    ) -> None:
        def make() -> tuple[nn.Module, sh.Trainer, sh.MinibatchSource, torch.Generator]:
            generator = torch.Generator().manual_seed(5)

            def jittery(model: nn.Module, one: sh.Minibatch) -> torch.Tensor:
                weight = 1 + torch.rand((), generator=generator)
                return torch_error(model, one) * weight

            model = nn.Sequential(
                nn.Linear(2, 8), nn.Dropout(), nn.BatchNorm1d(8), nn.Linear(8, 1)
            )
            _, trainer = torch_trainer(
                model=model,
                criterion=jittery,
                loss_scale=loss_scale,
                rate=0.01,
                stateful={"generator": Stateful(generator)},
            )
            return model, trainer, source_of_lengths(LENGTHS), generator

        def run(trainer: sh.Trainer, source: sh.MinibatchSource, steps: int) -> None:
            for _ in range(steps):
                trainer.train_minibatch(source.next_minibatch(7))

        torch.set_num_threads(1)
        model, trainer, source, _ = make()
        run(trainer, source, 9)
        trainer.save_checkpoint(tmp_path, {"source": source.get_checkpoint_state()})
        run(trainer, source, 9)
        torch.rand(100)
        other, again, its_source, generator = make()
        generator.manual_seed(77)
        its_source.restore_from_checkpoint(again.restore_from_checkpoint(tmp_path)["source"])
        run(again, its_source, 9)
        for name, wanted in model.state_dict().items():
            assert torch.equal(other.state_dict()[name], wanted), name
        assert again.previous_minibatch_loss_average == trainer.previous_minibatch_loss_average
        assert [s.state_dict() for s in again.model.guards] == [
            s.state_dict() for s in trainer.model.guards
        ]

    def test_a_snapshot_can_be_restored_again_and_again(self) -> None:
        model, trainer = torch_trainer()
        source = source_of_lengths(LENGTHS)
        trainer.train_minibatch(source.next_minibatch(7))
        snapshot = trainer.capture()
        one = source.next_minibatch(7)
        ends = []
        for _ in range(3):
            trainer.restore(snapshot)
            trainer.train_minibatch(one)
            trainer.train_minibatch(one)
            ends.append([p.detach().clone() for p in model.parameters()])
        assert all(map(torch.equal, ends[0], ends[1]))
        assert all(map(torch.equal, ends[0], ends[2]))

    def test_tied_parameters_are_saved_and_stay_tied(self, tmp_path: Path) -> None:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(2, 2)
                self.second = nn.Linear(2, 2)
                self.second.weight = self.first.weight

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.second(self.first(x)).sum(-1)

        model, trainer = torch_trainer(model=Tied())
        trainer.train_minibatch(source_of_lengths(LENGTHS).next_minibatch(9))
        trainer.save_checkpoint(tmp_path)
        other, again = torch_trainer(model=Tied())
        again.restore_from_checkpoint(tmp_path)
        assert other.second.weight is other.first.weight
        assert torch.equal(other.first.weight, model.first.weight)

    @pytest.mark.parametrize(
        "make_extra",
        [
            lambda: torch.empty(0, 3, dtype=torch.bfloat16),
            lambda: nn.Parameter(torch.empty(0, 4)),
            lambda: torch.ones(2, dtype=torch.bfloat16),
        ],
        ids=["empty buffer", "empty parameter", "bfloat16"],
    )
    def test_empty_tensors_and_bfloat16_are_saved(
        self, tmp_path: Path, make_extra: Any
    ) -> None:
        class WithExtra(nn.Module):
            def __init__(self, factor: int) -> None:
                super().__init__()
                self.line = nn.Linear(2, 1)
                self.rows = nn.Embedding(2, 1, sparse=True)
                extra = make_extra()
                if isinstance(extra, nn.Parameter):
                    self.extra = extra
                else:
                    self.register_buffer("extra", extra * factor)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                rows = self.rows(torch.ones(len(x), dtype=torch.int64))
                return self.line(x) + rows + self.extra.sum()

        def make(factor: int) -> tuple[nn.Module, sh.Trainer]:
            model = WithExtra(factor)
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
            return model, sh.Trainer(model, torch_error, sh.torch.Learner(optimizer, 0.01))

        (model, trainer), (restored, other) = make(2), make(1)
        one = source_of_lengths(LENGTHS).next_minibatch(7)
        trainer.train_minibatch(one)
        trainer.save_checkpoint(tmp_path)
        other.restore_from_checkpoint(tmp_path)
        again, copied = make(1)
        copied.load_state_dict(trainer.state_dict())
        for module in (restored, again):
            for name, tensor in module.state_dict().items():
                assert torch.equal(tensor, model.state_dict()[name])

    def test_a_state_that_cannot_be_saved_is_refused_before_training(
        self, tmp_path: Path
    ) -> None:
        model, trainer = torch_trainer()
        model.register_buffer("phase", torch.eye(2).to_sparse())
        config = sh.CheckpointConfig(tmp_path)
        source = source_of_lengths(LENGTHS, max_sweeps=1)
        with pytest.raises(TypeError, match=r"phase .* torch\.sparse_coo"):
            sh.training_session(trainer, source, 4, checkpoint_config=config).train()
        assert trainer.consumed.steps == 0

    @pytest.mark.parametrize("state", [{1: 2}, {"a": (1, 2)}, {"a": np.float32(1)}, {"a": {3}}])
    def test_external_state_that_would_change_is_refused(
        self, tmp_path: Path, state: dict[Any, Any]
    ) -> None:
        with pytest.raises(TypeError, match="external_state"):
            line_trainer().save_checkpoint(tmp_path, state)
