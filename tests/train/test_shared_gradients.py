"""Gradients that share memory, as autograd makes them, are each divided once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sweephand as sh

torch = pytest.importorskip("torch")
import sweephand.torch  # noqa: E402

WEIGHTS = torch.arange(1.0, 5.0)
# By what kind of gradients autograd gives for them.
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "expanded": lambda a, b: a.sum() + 2 * b.sum(),
    "the same for both": lambda a, b: ((a + b) * WEIGHTS).sum(),
    "the same, expanded": lambda a, b: (a + b).sum(),
    "mean": lambda a, b: (a + b).mean(),
    "views of one": lambda a, b: (torch.cat([a, b]) * torch.arange(8.0)).sum(),
    "overlapping views": lambda a, b: (torch.cat([a, b])[2:6] * WEIGHTS).sum(),
    "transposed": lambda a, b: (a.view(2, 2).T * WEIGHTS.view(2, 2)).sum() + b.sum(),
    "flipped": lambda a, b: (a.flip(0) * WEIGHTS).sum() + b.square().sum(),
    "a stack": lambda a, b: torch.stack([a, b], 1).sum(1).square().sum(),
    "only one": lambda a, b: a.sum() + 0 * b.sum(),
}


def two() -> list[Any]:
    return [torch.nn.Parameter(torch.full((4,), value)) for value in (0.5, 0.25)]


def by_gradients(loss: Any) -> list[Any]:
    pair = two()
    opt = sh.LossScaleOptimizer(torch.optim.SGD(pair, 1.0), initial_scale=8.0)
    gradients = torch.autograd.grad(opt.get_scaled_loss(loss(*pair)), pair)
    opt.apply_gradients(zip(opt.get_unscaled_gradients(gradients), pair, strict=True))
    return pair


def by_backward(loss: Any) -> list[Any]:
    pair = two()
    opt = sh.LossScaleOptimizer(torch.optim.SGD(pair, 1.0), initial_scale=8.0)
    opt.get_scaled_loss(loss(*pair)).backward()
    opt.step()
    return pair


def by_learner(loss: Any, scale: float | None = None) -> list[Any]:
    pair = two()
    optimizer: Any = torch.optim.SGD(pair, 1.0)
    if scale is not None:
        optimizer = sh.LossScaleOptimizer(optimizer, initial_scale=scale)
    learner = sh.torch.Learner(optimizer, 1.0)
    value = 4 * loss(*pair)  # a sum over four samples
    if scale is not None:
        value = optimizer.get_scaled_loss(value)
    learner.update(torch.autograd.grad(value, pair), 4)
    return pair


WAYS = {
    "get_unscaled_gradients": by_gradients,
    "backward": by_backward,
    "Learner": by_learner,
    "Learner with a scale": lambda loss: by_learner(loss, 8.0),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_memory_gradients_have_each_is_divided_once(name: str, way: str) -> None:
    wanted = two()
    plain = torch.optim.SGD(wanted, 1.0)
    LOSSES[name](*wanted).backward()
    plain.step()
    for mine, parameter in zip(WAYS[way](LOSSES[name]), wanted, strict=True):
        assert torch.equal(mine, parameter)


def test_sparse_gradients_that_are_one_are_each_divided_once() -> None:
    tables = [torch.nn.Parameter(torch.zeros(4, 2)) for _ in range(2)]
    opt = sh.LossScaleOptimizer(torch.optim.SGD(tables, 1.0), initial_scale=8.0)
    opt.get_scaled_loss(torch.zeros(()))
    one = torch.sparse_coo_tensor(
        [[1, 1, 3]], torch.full((3, 2), 8.0), (4, 2), check_invariants=True
    )
    gradients = opt.get_unscaled_gradients([one, one])
    for gradient in gradients:
        assert gradient.to_dense().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def test_gradients_with_memory_of_their_own_stay_the_same_objects() -> None:
    pair = two()
    opt = sh.LossScaleOptimizer(torch.optim.SGD(pair, 1.0), initial_scale=8.0)
    opt.get_scaled_loss(torch.zeros(()))
    flat = torch.full((8,), 8.0)
    gradients = [flat[:4], flat[4:]]  # as buckets of replicas are
    found = opt.get_unscaled_gradients(gradients)
    assert all(one is other for one, other in zip(found, gradients, strict=True))
    assert flat.tolist() == [1.0] * 8


def test_numpy_gradients_that_share_memory_are_refused() -> None:
    arrays = [np.ones(4, np.float32), np.ones(4, np.float32)]
    opt = sh.LossScaleOptimizer(sh.numpy.SGD(arrays, 1.0), initial_scale=8.0)
    flat = np.full(8, 8, np.float32)
    for pair in ([flat[:4], flat[:4]], [flat[:4], flat[3:7]], [flat[3:7], flat[:4]]):
        opt.get_scaled_loss(0.0)
        with pytest.raises(ValueError, match=r"gradients of . and . share memory"):
            opt.get_unscaled_gradients(pair)
        assert flat.tolist() == [8.0] * 8
        opt.get_scaled_loss(0.0)
        opt.update(pair, 1)  # divides nothing in place
    opt.get_scaled_loss(0.0)
    found = opt.get_unscaled_gradients([flat[:4], flat[4:]])
    assert np.concatenate(found).tolist() == [1.0] * 8
