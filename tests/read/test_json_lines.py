"""Ordinary lines of JSON are read by the core as Python reads them, all others by Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.extent import sample

from sweephand.corpus.columns import ColumnData
from sweephand.deserializers.jsonl import (
    LACKING,
    PADDING,
    JsonField,
    parse_object,
    read_ordinary,
)

KEYS = ["a", "b"]

ORDINARY = [
    '{"a": [1, 2, 3], "b": 4}',
    '{"a":[-0,0,-7,123456789012345678],"b":[]}',
    '{"a": [1, 2.5, 3], "b": -0.0}\n{"a": 5, "b": 1e-7}',
    '{"a": "text", "b": ["x", ""]}\n\n  \t\n{"a": ["\\u00e9\\ud83d\\ude00\\n\\"", "é😀"]}\n{}',
    '\t{ "a" : [ true , false ] , "other" : {"a": [null, {"x": "\\ud800"}], "b": 1e999} } \r\n',
    '{"a": 0.1, "b": 4.9406564584124654e-324}\n{"a": 1.7976931348623157e308, "b": 12e2}',
    '{"a": 9007199254740991, "b": 1}\n{"a": 0.5}',
    "{}",
    "",
]
ODD = [
    '{"a": null}',
    '{"a": {}}',
    '{"a": [[1]]}',
    '{"a": [1, "x"]}',
    '{"a": [true, 1]}',
    '{"a": "x"}\n{"a": 1}',
    '{"a": 1, "a": 2}',
    '{"\\u0061": 1}',
    '{"a": 9223372036854775808}',
    '{"a": 1e999}',
    '{"a": 9007199254740993}\n{"a": 0.5}',
    '{"a": 0.5}\n{"a": 9007199254740993}',
    '{"a": "\\ud800"}',
    '{"a": NaN}',
    "[1]",
    "\ufeff{}",
]
WRONG = [
    '{"a": 01}',
    '{"a": .5}',
    '{"a": 1,}',
    '{"a": [1,]}',
    '{"a": [1 2]}',
    '{"a": 1} x',
    '{"a": "\\x"}',
    '{"a": "\\u12g4"}',
    '{"a": "\t"}',
    '{"a": "',
    '{"z": [1, {"y": 02}]}',
]


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + bytes(PADDING), np.uint8)


def fields() -> list[JsonField]:
    return [JsonField(()), JsonField(())]


def by_python(text: bytes) -> list[ColumnData] | None:
    """Return the columns as the slow way reads them; None if something is wrong."""
    try:
        objects = [
            parse_object(line) for line in text.split(b"\n") if line and not line.isspace()
        ]
    except (ValueError, RecursionError):
        return None
    found = [
        field.convert([one.get(key, LACKING) for one in objects])
        for key, field in zip(KEYS, fields(), strict=True)
    ]
    return None if any(wrong for _, wrong in found) else [column for column, _ in found]


def assert_same(text: bytes) -> None:
    ordinary = read_ordinary(fields(), KEYS, padded(text))
    if ordinary is None:
        return
    wanted = by_python(text)
    assert wanted is not None
    for one, other in zip(ordinary, wanted, strict=True):
        assert (one.dtype, one.shape, one.num_samples) == (
            other.dtype,
            other.shape,
            other.num_samples,
        )
        for name in ("values", "sample_offsets", "element_offsets"):
            left, right = getattr(one, name), getattr(other, name)
            assert (left is None) == (right is None)
            if left is not None:
                assert left.tobytes() == right.tobytes()  # also the sign of a zero


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_lines_are_read_by_the_core(text: str) -> None:
    assert read_ordinary(fields(), KEYS, padded(text.encode())) is not None
    assert_same(text.encode())


@pytest.mark.parametrize("text", ODD + WRONG)
def test_all_others_are_left_to_python(text: str) -> None:
    assert read_ordinary(fields(), KEYS, padded(text.encode())) is None


@pytest.mark.parametrize("text", ORDINARY)
def test_a_line_that_is_cut_or_flipped_anywhere_is_read_alike(text: str) -> None:
    good = text.encode()
    for place in sample(range(len(good)), 64):
        assert_same(good[:place])
        for byte in b'\0\n"\\,:[]{}0-.e \x80\xc3\xff':
            assert_same(good[:place] + bytes([byte]) + good[place + 1 :])


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=5)
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans(), st.none())
VALUES: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.lists(NUMBERS),
    st.lists(TEXTS),
    st.lists(st.integers(-9, 99)),
    st.lists(SCALARS),
)
OBJECTS = st.dictionaries(st.sampled_from([*KEYS, "c", "é"]) | TEXTS, VALUES, max_size=4)


@given(st.lists(OBJECTS, max_size=4), st.booleans(), st.booleans())
def test_any_objects_are_read_alike(objects: list[Any], ascii: bool, tight: bool) -> None:
    separators = (",", ":") if tight else None
    lines = [json.dumps(one, ensure_ascii=ascii, separators=separators) for one in objects]
    assert_same("\n".join(lines).encode(errors="surrogatepass"))


def test_a_field_that_was_text_before_is_not_turned_into_numbers() -> None:
    text, number = padded(b'{"a": "x"}'), padded(b'{"a": 1}')
    field = JsonField(())
    assert read_ordinary([field], ["a"], text) is not None
    assert read_ordinary([field], ["a"], number) is None
