"""The model of the demonstration learns, and is the same to the last bit in any process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sweephand.demo.model import NextByteModel, contexts_of, sum_by_row

TEXT = np.frombuffer(b"def f(x):\n    return x + 1\n" * 8, np.uint8)
OFFSETS = np.arange(0, len(TEXT) + 1, len(TEXT) // 8)


def test_the_loss_begins_at_chance_and_falls() -> None:
    model = NextByteModel()
    losses = [model.update(TEXT, OFFSETS) for _ in range(20)]
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


def test_the_update_goes_down_the_gradient() -> None:
    model = NextByteModel()
    for _ in range(3):
        model.update(TEXT, OFFSETS)
    symbols = TEXT.astype(np.int64)
    contexts = contexts_of(symbols, OFFSETS[:-1])

    def loss() -> float:
        predicted = model._predict(contexts)[np.arange(len(symbols)), symbols]
        return float(-np.log(predicted.astype(np.float64)).mean())

    row, column = int(contexts[0][5]), int(symbols[5])
    before = model.tables[0][row, column]
    step = np.float32(1e-2)
    model.tables[0][row, column] = before + step
    higher = loss()
    model.tables[0][row, column] = before - step
    slope = (higher - loss()) / (2 * step)
    model.tables[0][row, column] = before
    model.update(TEXT, OFFSETS)
    assert slope != 0
    assert np.sign(model.tables[0][row, column] - before) == -np.sign(slope)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_another_process_with_other_threads_gives_the_same_bits(threads: str) -> None:
    code = (
        "from tests.demo.test_model import *; model = NextByteModel();"
        "print([model.update(TEXT, OFFSETS).hex() for _ in range(5)])"
    )
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, threads)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    model = NextByteModel()
    assert run.stdout.strip() == str([model.update(TEXT, OFFSETS).hex() for _ in range(5)])
