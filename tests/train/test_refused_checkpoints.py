"""Checkpoints of something else are refused with what differs, and none is ever code."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.small import Line, line_trainer, squared_error
from tests.train.small_torch import torch_error, torch_trainer
from tests.train.stores import rewrite_manifest
from torch import nn

import sweephand as sh
import sweephand.torch
from sweephand.train.checkpoint import CheckpointStore


class TestRefusal:
    def test_another_model_is_refused_with_what_differs(self, tmp_path: Path) -> None:
        _, trainer = torch_trainer(model=nn.Linear(2, 1))
        trainer.save_checkpoint(tmp_path)
        for other, text in (
            (nn.Linear(2, 1, bias=False), "bias is absent here and float32 \\[1\\] there"),
            (nn.Linear(2, 3), "weight is float32 \\[3, 2\\] here and float32 \\[1, 2\\] there"),
            (nn.Linear(2, 1).double(), "weight is float64 \\[1, 2\\] here and float32"),
        ):
            _, again = torch_trainer(model=other)
            before = [p.detach().clone() for p in other.parameters()]
            with pytest.raises(sh.StateError, match=text):
                again.restore_from_checkpoint(tmp_path)
            assert all(map(torch.equal, before, other.parameters()))

    def test_another_optimizer_is_refused(self, tmp_path: Path) -> None:
        model, trainer = torch_trainer()
        trainer.save_checkpoint(tmp_path)
        learner = sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.1), 0.1)
        with pytest.raises(sh.StateError, match=r"of the optimizers .*Adam.*here are .*SGD"):
            sh.Trainer(model, torch_error, learner).restore_from_checkpoint(tmp_path)

    def test_another_numpy_learner_is_refused_and_a_loss_scale_that_is_gone(
        self, tmp_path: Path
    ) -> None:
        line_trainer().save_checkpoint(tmp_path)
        model = Line()
        adam = sh.Trainer(model, squared_error, sh.numpy.Adam([model.w], 0.1))
        with pytest.raises(sh.StateError, match=r"MomentumSGD.*here are .*Adam"):
            adam.restore_from_checkpoint(tmp_path)
        inner = sh.numpy.MomentumSGD([model.w], 0.1)
        scaled = sh.Trainer(model, squared_error, sh.LossScaleOptimizer(inner))
        scaled.save_checkpoint(tmp_path / "scaled")
        with pytest.raises(
            sh.StateError, match=r"has 1 loss scales, here are 0.*dynamic=False"
        ):
            line_trainer().restore_from_checkpoint(tmp_path / "scaled")

    def test_torch_and_numpy_do_not_mix(self, tmp_path: Path) -> None:
        line_trainer().save_checkpoint(tmp_path / "numpy")
        torch_trainer()[1].save_checkpoint(tmp_path / "torch")
        with pytest.raises(sh.StateError, match="another kind of model"):
            line_trainer().restore_from_checkpoint(tmp_path / "torch")
        with pytest.raises(sh.StateError, match="another kind of model"):
            torch_trainer()[1].restore_from_checkpoint(tmp_path / "numpy")


class Malice:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


class TestNoCode:
    @pytest.mark.parametrize("name", ["optimizer_0.pt", "state.json", "model.npz"])
    def test_a_pickle_in_the_place_of_any_file_is_never_executed(
        self, tmp_path: Path, name: str
    ) -> None:
        _, trainer = torch_trainer()
        trainer.save_checkpoint(tmp_path)
        folder = CheckpointStore(tmp_path).path(0)
        made = tmp_path / "made"
        for write in (
            lambda path: path.write_bytes(pickle.dumps(Malice(made), 2)),
            lambda path: torch.save({"state": Malice(made)}, path),
        ):
            write(folder / name)
            rewrite_manifest(folder)
            with pytest.raises(sh.StateError, match=name.replace(".", r"\.")):
                torch_trainer()[1].restore_from_checkpoint(tmp_path)
            assert not made.exists()
