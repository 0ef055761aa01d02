"""What a user writes to parameters of 16 bits is not undone by the next update."""

from typing import Any

import numpy as np
import pytest

import sweephand as sh

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def array(dtype: str, size: int) -> Any:
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return np.linspace(-2, 2, size).astype(ml_dtypes.bfloat16)
    return np.linspace(-2, 2, size).astype(dtype)


def update(learner: Any, gradient: float) -> None:
    [parameter] = learner.parameters.values()
    learner.update([np.full(parameter.shape, gradient, np.float32)], 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 2048, 70_001])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_update_goes_on_from_what_was_written(dtype: str, size: int, threads: int) -> None:
    w = array(dtype, size)
    learner = sh.numpy.SGD([w], 1.0, num_threads=threads)
    update(learner, 1e-5)  # less than 16 bits can tell, and not lost
    untouched = w.copy()
    w[::3] = 5  # a pruned, clipped or loaded parameter
    update(learner, 1.0)
    # Nothing beside a bfloat16 tells that it was written: half a unit of what it was stays.
    assert np.allclose(w[::3].astype(np.float32), 4, atol=2**-5 if dtype == "bfloat16" else 0)
    for _ in range(3):
        update(learner, 1e-5)
    other = array(dtype, size)
    alone = sh.numpy.SGD([other], 1.0)
    for gradient in (1e-5, 1.0, 1e-5, 1e-5, 1e-5):
        update(alone, gradient)
    kept = np.ones(size, bool)
    kept[::3] = False
    assert np.array_equal(w[kept], other[kept])  # the others lost no precision
    assert untouched.shape == w.shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_state_holds_what_was_written(dtype: str) -> None:
    w = array(dtype, 9)
    learner = sh.numpy.Adam([w], 0.01)
    update(learner, 1.0)
    w[2:5] = [3, -np.inf, np.nan]
    state = learner.state_dict()
    again = w.copy()
    other = sh.numpy.Adam([again], 0.01)
    other.load_state_dict(state)
    assert np.array_equal(again, w, equal_nan=True)
    for each in (learner, other):
        update(each, 1.0)
    assert np.array_equal(again, w, equal_nan=True)
    assert float(w[2]) < 3 or dtype == "bfloat16"  # its master moved, too little to be seen
    assert np.isnan(float(w[4]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_beyond_what_16_bits_can_tell_stay(dtype: str) -> None:
    w = array(dtype, 4)
    w[...] = [1, 6e4, -6e4, 1e-7]
    learner = sh.numpy.SGD([w], 1.0)
    update(learner, -(2.0**16))  # an overflow of float16: its image is infinite
    update(learner, 2.0**16)
    assert np.isfinite(w.astype(np.float32)).all()
    assert float(w[1]) == pytest.approx(6e4, rel=0.01)
