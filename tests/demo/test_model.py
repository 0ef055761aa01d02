"""The model of the demonstration learns, and is the same to the last bit in any process."""

import os
import subprocess
import sys

import numpy as np
import pytest

import sweephand as sh
from sweephand.demo.model import NextByteModel, contexts_of, sum_by_row

TEXT = np.frombuffer(b"def f(x):\n    return x + 1\n" * 8, np.uint8)
OFFSETS = np.arange(0, len(TEXT) + 1, len(TEXT) // 8)


def train(steps: int) -> list[float]:
    """Return the mean loss of every step."""
    model, losses = NextByteModel(), []
    learner = sh.numpy.Adam(model.parameters, 0.1)
    for _ in range(steps):
        loss, gradients = model.differentiate(TEXT, OFFSETS)
        learner.update(gradients, len(TEXT))
        losses.append(loss / len(TEXT))
    return losses


def test_the_loss_begins_at_chance_and_falls() -> None:
    losses = train(20)
    assert losses[0] == pytest.approx(np.log(128), rel=1e-6)
    assert losses[-1] < 0.2


def test_a_context_does_not_reach_into_the_sequence_before() -> None:
    symbols = np.array([7, 8, 9, 10, 11, 12])
    last, second, third, *_ = contexts_of(symbols, np.array([0, 4]))
    assert last.tolist() == [0, 7, 8, 9, 0, 11]
    assert second.tolist() == [0, 0, 7, 8, 0, 0]
    assert third.tolist() == [0, 0, 0, 7, 0, 0]


def test_sums_by_row_are_those_of_numpy() -> None:
    random = np.random.default_rng(0)
    rows, values = random.integers(0, 20, 500), random.standard_normal((500, 4))
    wanted = np.zeros((20, 4))
    np.add.at(wanted, rows, values)
    found = np.zeros((20, 4))
    chosen, sums = sum_by_row(rows, values)
    found[chosen] = sums
    assert np.allclose(found, wanted)


@pytest.mark.parametrize("scale", [1.0, 64.0])
def test_gradients_are_the_slopes_of_the_scaled_loss(scale: float) -> None:
    model = NextByteModel()
    random = np.random.default_rng(1)
    for table in model.parameters.values():
        table[...] = random.standard_normal(table.shape)
    loss, gradients = model.differentiate(TEXT, OFFSETS, scale)
    contexts = contexts_of(TEXT.astype(np.int64), OFFSETS[:-1])
    for table, gradient, context in zip(
        model.parameters.values(), gradients, contexts, strict=True
    ):
        place = int(context[5]), int(TEXT[5])
        step = np.float16(2**-4)
        table[place] += step
        higher, _ = model.differentiate(TEXT, OFFSETS, scale)
        table[place] -= 2 * step
        lower, _ = model.differentiate(TEXT, OFFSETS, scale)
        table[place] += step
        slope = (higher - lower) / (2 * float(step))
        assert gradient[place] == pytest.approx(scale * slope, rel=0.05)
    assert model.differentiate(TEXT, OFFSETS)[0] == pytest.approx(loss, rel=1e-3)


def test_a_gradient_too_large_for_16_bits_is_infinite() -> None:
    _, gradients = NextByteModel().differentiate(TEXT, OFFSETS, 2.0**20)
    assert all(np.isinf(gradient).any() for gradient in gradients)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_another_process_with_other_threads_gives_the_same_bits(threads: str) -> None:
    code = "from tests.demo.test_model import train; print([loss.hex() for loss in train(5)])"
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, threads)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == str([loss.hex() for loss in train(5)])
