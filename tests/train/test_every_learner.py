"""The learners of arrays beside those of torch, and what all of them share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import sweephand as sh

Make = Callable[[list[Any]], Any]

# Ours and torch's with the same constants.
PAIRS: dict[str, tuple[Make, Make]] = {
    "Adam": (
        lambda params: sh.numpy.Adam(params, 0.002),
        lambda params: torch.optim.Adam(params, 0.002),
    ),
    "Adam with other constants": (
        lambda params: sh.numpy.Adam(params, 0.1, (0.5, 0.9), 1e-3),
        lambda params: torch.optim.Adam(params, 0.1, (0.5, 0.9), 1e-3),
    ),
    "AdamW": (
        lambda params: sh.numpy.AdamW(params, 0.01),
        lambda params: torch.optim.AdamW(params, 0.01),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_a_learner_moves_as_torchs_does(name: str, dtype: type, rtol: float) -> None:
    ours, theirs = PAIRS[name]
    random = np.random.default_rng(0)
    weights = [random.standard_normal(n).astype(dtype) for n in (3, 500)]
    tensors = [torch.tensor(one, requires_grad=True) for one in weights]
    learner, optimizer = ours(weights), theirs(tensors)
    for step in range(30):
        num_samples = 1 + step % 5
        gradients = [random.standard_normal(one.shape).astype(dtype) for one in weights]
        learner.update([gradient * dtype(num_samples) for gradient in gradients], num_samples)
        for tensor, gradient in zip(tensors, gradients, strict=True):
            tensor.grad = torch.tensor(gradient)
        optimizer.step()
    for one, tensor in zip(weights, tensors, strict=True):
        np.testing.assert_allclose(one, tensor.detach().numpy(), rtol=rtol, atol=rtol / 10)
