"""Branches of torch models leave no trace, of one worker or several."""

import io
import json
from typing import Any

import numpy as np
import pytest
from tests.train.small import Heard, source_of_lengths

import sweephand as sh

torch = pytest.importorskip("torch")
from tests.train.small_torch import torch_trainer  # noqa: E402

import sweephand.torch  # noqa: E402


def moment(model: Any, trainer: sh.Trainer, source: sh.MinibatchSource) -> Any:
    """Return all bits of a model and its optimizer, and all that would be saved besides."""
    bits = {name: value.numpy().tobytes() for name, value in model.state_dict().items()}
    [optimizer] = trainer.model.learners[0].optimizers  # type: ignore[attr-defined]
    moments = io.BytesIO()
    torch.save(optimizer.state_dict()["state"], moments)
    groups = optimizer.state_dict()["param_groups"]
    state = json.dumps([trainer.capture().state, source.get_checkpoint_state(), groups])
    told = trainer.previous_minibatch_loss_average, trainer.writers[0].records  # type: ignore[attr-defined]
    return bits, moments.getvalue(), state, repr(told)


@pytest.mark.parametrize("loss_scale", [None, {"initial_scale": 256.0}])
def test_branches_leave_no_trace(loss_scale: Any) -> None:
    def run(measures: bool) -> Any:
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(2, 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(8, 1),
        )
        _, trainer = torch_trainer(
            [Heard(), sh.train.GradientNoiseScale()],
            model=model,
            loss_scale=loss_scale,
            rate=0.01,
            sub_minibatches=2,
        )
        source = source_of_lengths([2, 3] * 16, randomization_seed=3)
        for i in range(6):
            trainer.train_minibatch(source.next_minibatch(8))
            if measures and i in (0, 3):
                before = moment(model, trainer, source)
                found = sh.train.CriticalBatchSize(160, tolerance=9.0).measure(
                    trainer, source, 8
                )
                assert [one.minibatch_size for one in found.branches] == [8, 16]
                assert found.branches[1].rate_factor == 2**0.5
                assert moment(model, trainer, source) == before
        return moment(model, trainer, source)

    assert run(measures=True) == run(measures=False)
