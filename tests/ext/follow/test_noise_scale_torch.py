"""The gradient noise scale of torch models: that of NumPy ones, of one worker or several."""

from typing import Any

import numpy as np
import pytest
from tests.train.small import Line, source_of_lengths, squared_error

import sweephand as sh

torch = pytest.importorskip("torch")
from tests.train.small_torch import torch_trainer  # noqa: E402

import sweephand.torch  # noqa: E402


def noise() -> list[Any]:
    return [sh.train.GradientNoiseScale()]


def noise_scale(trainer: sh.Trainer) -> float:
    [found] = trainer.writers
    return float(found.value)


def line() -> Any:
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model


@pytest.mark.parametrize("loss_scale", [None, {"initial_scale": 256.0}])
def test_it_is_that_of_numpy(loss_scale: dict[str, Any] | None) -> None:
    model = Line()
    plain = sh.Trainer(
        model,
        squared_error,
        sh.numpy.SGD([model.w], 0.0),
        noise(),
        sub_minibatches=3,
    )
    _, trainer = torch_trainer(
        noise(),
        model=line(),
        rate=0.0,
        loss_scale=loss_scale,
        sub_minibatches=3,
    )
    source = source_of_lengths([1, 2, 3] * 20)
    for _ in range(8):
        minibatch = source.next_minibatch(14)
        plain.train_minibatch(minibatch)
        trainer.train_minibatch(minibatch)
    assert noise_scale(trainer) == pytest.approx(noise_scale(plain), rel=1e-5)


def test_shared_sparse_and_missing_gradients_are_counted_once() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(3, 1, sparse=True)
            self.unused = torch.nn.Parameter(torch.zeros(1))

    def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
        x = minibatch["x"].torch().long()
        return (model.table(x) + model.table(x)).sum()  # its gradient counts every x twice

    x = np.array([0, 0, 0, 1], np.int64)
    corpus = sh.ArrayDeserializer({"x": x})
    model = Odd()
    trainer = sh.Trainer(
        model,
        criterion,
        sh.torch.Learner(torch.optim.SGD(model.parameters(), 0.0), 0.0),
        noise(),
        sub_minibatches=2,
    )
    with pytest.warns(UserWarning, match="no gradient, they stay as they are: unused"):
        trainer.train_minibatch(sh.MinibatchSource(corpus, randomize=False).next_minibatch(4))
    # Mean gradients are (2, 0), (1, 1) and together (3/2, 1/2): S = (3 - 5/2) * 4, and of the
    # gradient 5/2 - S / 4 is left.
    assert noise_scale(trainer) == pytest.approx(1.0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_gradient_that_comes_in_pieces_is_not_measured(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    def criterion(model: Any, minibatch: sh.Minibatch) -> Any:
        x = minibatch["x"].torch().requires_grad_()
        once = checkpoint(model, x, use_reentrant=reentrant)
        twice = checkpoint(model, 2 * x, use_reentrant=reentrant)
        return (once + twice).square().sum()

    _, trainer = torch_trainer(noise(), criterion=criterion, sub_minibatches=2)
    source = source_of_lengths([1] * 8)
    for _ in range(3):
        trainer.train_minibatch(source.next_minibatch(8))
    assert np.isnan(noise_scale(trainer)) == reentrant


def test_parameters_that_are_computed_in_parts_are_refused() -> None:
    model = line()
    model.weight.device_mesh = object()  # as those of tensor parallelism have it
    with pytest.raises(ValueError, match="are computed in parts, as weight is"):
        torch_trainer(noise(), model=model, sub_minibatches=2)
