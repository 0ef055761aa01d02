"""Integers in few bytes are the same when they are read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand import _core
from sweephand.files.index_arrays import IndexArrays, PackedArray, join_stored, pack

BLOCK = 256

anywhere = st.integers(0, 2**64 - 1)
small = st.integers(0, 300)


def packed_of(values: list[int]) -> _core.index.PackedIntegers:
    packed = _core.index.PackedIntegers()
    packed.extend(np.array(values, np.uint64))
    return packed


def read(packed: _core.index.PackedIntegers, first: int, end: int) -> list[int]:
    found: list[int] = packed.read(first, end - first, 3).tolist()
    return found


@given(
    st.one_of(st.lists(anywhere, max_size=20), st.lists(small, max_size=20)),
    st.sampled_from([0, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]),
    st.integers(0, 2**40),
    st.data(),
)
def test_what_is_packed_is_read_again(
    values: list[int], num_more: int, step: int, data: st.DataObject
) -> None:
    values = values + [(7 + step * n) % 2**64 for n in range(num_more)]
    packed = packed_of(values)
    content = packed.bytes
    again = _core.index.PackedIntegers(content, len(values))
    assert len(packed) == len(again) == len(values)
    first = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(first, len(values)))
    assert read(packed, first, end) == read(again, first, end) == values[first:end]
    np.testing.assert_array_equal(again.bytes, content)


@given(st.lists(st.lists(small, max_size=300), min_size=1, max_size=4), st.integers(0, 9))
def test_parts_are_joined_as_one(parts: list[list[int]], base: int) -> None:
    joined = _core.index.PackedIntegers()
    for part in parts:
        joined.append(packed_of(part), base)
    whole = [value + base for part in parts for value in part]
    assert read(joined, 0, len(whole)) == whole
    np.testing.assert_array_equal(joined.bytes, packed_of(whole).bytes)


def test_what_rises_evenly_or_is_small_takes_few_bytes() -> None:
    count = 100_000
    for values, most in (
        (np.arange(5, 5 + 3 * count, 3), 0.1),
        (np.full(count, 2**40), 0.1),
        (np.arange(count) % 200, 1.1),
        (np.cumsum(np.arange(count) % 250), 1.1),
        (np.cumsum(np.arange(count) % 60_000), 2.1),
    ):
        assert packed_of(values.tolist()).bytes.nbytes <= most * count


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint32, np.uint64, np.int16])
def test_arrays_keep_their_types(dtype: Any) -> None:
    array = (np.arange(1000) % 100 - (50 if np.dtype(dtype).kind == "i" else 0)).astype(dtype)
    packed = packed_of(array.astype(np.uint64).tolist())
    whole = PackedArray.whole(packed, np.dtype(dtype))
    for part in (whole, whole[3:700], join_stored([whole, array[:0], whole[0:9]])):
        assert isinstance(part, PackedArray)
        found = IndexArrays({"a": part})["a"]
        assert found.dtype == array.dtype
        assert len(found) == len(part)
    np.testing.assert_array_equal(whole[3:700].unpack(), array[3:700])
    assert pack(array.astype(np.float32)) is None
    assert pack(array[:1]) is None, "it would take more"


def test_bytes_that_end_too_early_are_refused() -> None:
    content = packed_of([1, 5, 300] * 200).bytes
    for size in range(0, len(content) - 1, 7):
        with pytest.raises(ValueError, match="packed integers end before"):
            _core.index.PackedIntegers(content[:size], 600)
    with pytest.raises(ValueError, match="packed integers end before"):
        _core.index.PackedIntegers(content, 10_000_000)
