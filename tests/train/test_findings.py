"""The one pass over gradients, against plain NumPy."""

import math

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from sweephand.train.learners.arrays import (
    Cause,
    Findings,
    check_gradients,
    core_array,
)

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
SCALES = [1.0, 1024.0, 2.0**15, 3.0, 0.25, 41.0]
SMALLEST = 2.0**-14


def wide(dtype: np.dtype) -> type:
    return np.float64 if dtype == np.float64 else np.float32


def pass_over(array: NDArray, scale: float, *, in_place: bool) -> Findings:
    return check_gradients(["w"], [core_array(array, "w")], scale, in_place=in_place)


def bits(array: NDArray) -> NDArray:
    return array.view(f"u{array.dtype.itemsize}")


def check(array: NDArray, scale: float) -> None:
    before = array.copy()
    with np.errstate(all="ignore"):
        exact = before.astype(wide(array.dtype)) / wide(array.dtype)(scale)
        quotient = exact.astype(array.dtype)
        values = before.astype(np.float64)
        norm = float(np.linalg.norm(values / scale))
    kept = np.isnan(values) | (np.abs(values) >= SMALLEST)

    seen = pass_over(array, scale, in_place=False)
    assert np.array_equal(bits(array), bits(before)), "it only looks"
    assert (seen.num_nan, seen.num_inf) == (np.isnan(exact).sum(), np.isinf(exact).sum())
    assert seen.small.sum() == (~kept).sum()

    done = pass_over(array, scale, in_place=True)
    nan = np.isnan(quotient)
    assert np.array_equal(np.isnan(array), nan)
    assert np.array_equal(array[~nan], quotient[~nan])
    assert (done.num_nan, done.num_inf) == (nan.sum(), np.isinf(quotient).sum())
    vanished = (quotient == 0) & kept
    assert done.small.sum() == seen.small.sum() + vanished.sum()
    for findings in (seen, done):
        assert findings.norms[0] == pytest.approx(norm, rel=1e-6, nan_ok=True)
        worst = Cause.NAN if findings.num_nan else Cause.INF if findings.num_inf else Cause.OK
        assert findings.cause is worst
        assert findings.bad_parameters == (() if worst is Cause.OK else ("w",))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_16_bit_value_is_divided_and_counted_as_numpy_does(
    dtype: type, scale: float
) -> None:
    check(np.arange(65536, dtype=np.uint16).view(dtype), scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [1, 15, 16, 17, 63, 64, 65, 70_000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_any_size_are_divided_and_counted_as_numpy_does(
    dtype: type, size: int, scale: float
) -> None:
    random = np.random.default_rng(size)
    spread = 10.0 ** random.integers(-8, 5, size)
    check((random.standard_normal(size) * spread).astype(dtype), scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 65_535, 65_536, 99_999])
def test_one_bad_element_is_found_wherever_it_stands(
    place: int, bad: float, dtype: type
) -> None:
    fine, array = np.ones(10, dtype), np.ones(100_000, dtype)
    array[place] = bad
    arrays = [core_array(fine, "a"), core_array(array, "b")]
    findings = check_gradients(["a", "b"], arrays, 4.0, in_place=True)
    assert findings.cause is (Cause.NAN if math.isnan(bad) else Cause.INF)
    assert findings.bad_parameters == ("b",)
    assert findings.num_nan + findings.num_inf == 1
    assert not math.isfinite(findings.gradient_norm)


def test_the_norm_is_that_of_all_tensors_and_does_not_depend_on_threads() -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(n).astype(np.float32) for n in (1, 100_000, 65_536, 3)]
    findings = [
        check_gradients([""] * 4, arrays, 8.0, in_place=False, num_threads=threads)
        for threads in (1, 2, 7)
    ]
    whole = np.concatenate(arrays).astype(np.float64) / 8
    assert findings[0].gradient_norm == pytest.approx(np.linalg.norm(whole), rel=1e-12)
    assert len({one.gradient_norm for one in findings}) == 1


@pytest.mark.parametrize("scale", [1.0, 0.25, 3.0])
@pytest.mark.parametrize("largest", [3e150, 3e200, 3e307])
def test_norms_of_float64_whose_squares_overflow_are_finite(
    largest: float, scale: float
) -> None:
    array = np.array([largest, 4 / 3 * largest, 0, 1e-300] * 2**15) / 1000
    norm = 5 / 3 * largest / 1000 * math.sqrt(2**15) / scale
    for in_place in (False, True):
        findings = pass_over(array, scale, in_place=in_place)
        assert findings.cause is Cause.OK
        assert findings.gradient_norm == pytest.approx(norm, rel=1e-12)


def test_underflow_is_the_share_of_what_float16_cannot_hold_well() -> None:
    scaled = np.array([0, 2.0**-15, 2.0**-14, 1], np.float32)
    assert pass_over(scaled, 2.0**10, in_place=True).underflow == 0.5
    halves = np.array([2.0**-14, 1], np.float16)  # the first becomes 0 when it is divided
    assert pass_over(halves.copy(), 2.0**12, in_place=True).underflow == 0.5
    assert pass_over(halves.copy(), 2.0**12, in_place=False).underflow == 0.0


def test_no_elements_have_no_norm_and_no_underflow() -> None:
    findings = pass_over(np.ones((0, 3), np.float32), 8.0, in_place=True)
    assert (findings.gradient_norm, findings.underflow, findings.cause) == (0.0, 0.0, Cause.OK)
