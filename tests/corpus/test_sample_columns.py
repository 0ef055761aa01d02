"""What the core lays of a function's results is what looking at each by itself gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweephand.corpus.given_data import SampleForm, WrongSamples
from sweephand.corpus.stream_defs import StreamDef, StreamDefs


class OwnArray(np.ndarray):
    pass


class OwnNumber(np.int64):
    def __index__(self) -> int:
        raise AssertionError("is called in the middle of laying")


PAIRS = np.arange(6, dtype=np.int32).reshape(3, 2)
LIKES: list[Any] = [
    *(np.zeros(2, dtype) for dtype in ("i1", "i4", "i8", "u1", "u8", "f4", "f8", "f2", "?")),
    PAIRS,
    PAIRS.astype(np.float64),
    [b"a", b"b"],
]
NUMBERS: list[Any] = [
    *(0, 1, -1, 127, 128, 255, 256, 2**31, 2**63 - 1, 2**63, 2**64, True, False),
    *(0.0, 0.1, -2.5, float("inf"), 1e300, 3 + 0j),
    *(np.int8(3), np.int32(-4), np.int64(5), np.uint8(200), np.uint64(2**63), np.bool_(True)),
    *(np.float16(0.5), np.float32(0.1), np.float64(0.1), OwnNumber(7)),
]
ODD: list[Any] = [
    *(PAIRS, PAIRS[:1], PAIRS[0], PAIRS[:0], PAIRS[:, ::-1], PAIRS[::-1], PAIRS.T, PAIRS[None]),
    *(PAIRS.astype(">i4"), PAIRS.astype(np.int64), PAIRS.view(OwnArray), PAIRS.tolist()),
    *(np.asfortranarray(PAIRS), np.array(5), np.arange(3), np.arange(3.0), np.ones(2, bool)),
    *(b"x", "y", "\ud800", ["a", b"b"], ("c",), [], (), [b"a", 1], np.array(["t"]), None),
    *({"a": 1}, [[1, 2]], [[1], [2, 3]], [None], object()),
]
values = st.one_of(
    st.sampled_from([*NUMBERS, *ODD]),
    st.lists(st.sampled_from(NUMBERS), max_size=3),
    st.lists(st.integers(-(2**40), 2**40), max_size=3).map(tuple),
)


def form_like(like: Any) -> SampleForm:
    form = SampleForm(StreamDefs(x=StreamDef()), "sequence", "map")
    form.like = {"x": like}
    return form


@given(st.sampled_from(LIKES), st.lists(values, max_size=4))
def test_what_is_laid_at_once_is_what_a_look_at_it_gives(like: Any, found: list[Any]) -> None:
    form = form_like(like)
    looked_at, laid = [], []
    for one in found:
        try:
            samples = form.convert({"x": one})
        except WrongSamples:
            samples = None
        columns = form.begin_columns([1 if samples is None else form.size(samples)])
        if columns.append({"x": one}):
            assert samples is not None, one
            looked_at.append(samples)
            laid.append(form.end_columns(columns)[0])
    for samples, column in zip(looked_at, laid, strict=True):
        (wanted,) = form.to_columns([samples]).values()
        for name in ("values", "lengths", "element_offsets"):
            same = getattr(column, name), getattr(wanted, name)
            assert np.array_equal(*same), name
        assert (column.dtype, column.shape) == (wanted.dtype, wanted.shape)


@pytest.mark.parametrize(
    ("like", "usual"),
    [
        (np.zeros(1, np.int64), 5),
        (np.zeros(1, np.uint64), 2**63 - 1),
        (np.zeros(2, np.int32), [1, 2, 3]),
        (np.zeros(2, np.int64), np.arange(4)),
        (np.zeros(2, np.int64), np.arange(8)[::2]),
        (np.zeros(1, np.int64), np.int64(4)),
        (np.zeros(1), 0.25),
        (np.zeros(1, np.float32), np.float32(0.25)),
        (np.zeros(1, np.bool_), False),
        (PAIRS, PAIRS),
        (PAIRS, PAIRS[0]),
        (PAIRS, [1, 2]),
        ([b"a"], b"b"),
        ([b"a"], ["b", b"c"]),
    ],
)
def test_the_usual_is_laid_at_once(like: Any, usual: Any) -> None:
    form = form_like(like)
    size = form.size(form.convert({"x": usual}))
    columns = form.begin_columns([size] * 3)
    assert all(columns.append({"x": usual}) for _ in range(3))
    (column,) = form.end_columns(columns)
    assert column.lengths.tolist() == [size] * 3


def test_a_sequence_is_laid_as_a_whole_or_not_at_all() -> None:
    streams = StreamDefs(a=StreamDef(), b=StreamDef(field="B"), t=StreamDef())
    form = SampleForm(streams, "sequence", "map")
    form.like = form.convert({"a": [1, 2], "B": 0.5, "t": "x"})
    good = {"a": [1, 2], "B": 0.25, "t": ["y", "z"], "more": None}
    columns = form.begin_columns([2, 2, 2])
    assert columns.append(good)
    for change in ({"a": [1], "t": "y"}, {"a": [1, 2, 3]}, {"B": 1}, {"t": 5}, {"a": "text"}):
        assert not columns.append(good | change), change
    assert not columns.append({"a": [1, 2], "t": "y"})
    assert not columns.append([1])
    assert columns.append(good | {"a": [3, 4]})
    columns.append_checked(form.checked(form.convert(good | {"B": 1})))
    assert not columns.append(good)  # there are no more
    a, b, t = form.end_columns(columns)
    assert a.values is not None
    assert b.values is not None
    assert a.values.tolist() == [1, 2, 3, 4, 1, 2]
    assert b.values.tolist() == [0.25, 0.25, 1.0]
    assert t.lengths.tolist() == [2, 2, 2]


def test_samples_of_another_kind_are_no_samples_that_were_looked_at() -> None:
    columns = form_like(np.zeros(1)).begin_columns([1])
    with pytest.raises(RuntimeError, match="stream 0"):
        columns.append_checked([object()])
