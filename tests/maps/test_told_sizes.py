"""Sizes that functions of the user tell are whole numbers, by the rule of casts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import sweephand as sh

WHOLE = [2, 2.0, np.int8(2), np.uint64(2), np.float32(2), np.array(2)]
WRONG = [2.5, None, True, np.True_, "2", [2], np.array([2]), float("inf"), float("nan"), -1]
WRONG += [2**32, 2**70, 1e300, Decimal(2), 2 + 0j]


def first_two(sequence: Mapping[str, Any]) -> dict[str, Any]:
    return {"x": sequence["x"][:2]}


def cut(told: object) -> sh.Deserializer:
    corpus = sh.ArrayDeserializer({"x": [np.arange(5)] * 4})
    return corpus.map(first_two, name="cut", size=lambda sizes, key: told)


def test_a_size_is_a_whole_number_or_refused_with_map_and_sequence() -> None:
    for told in WHOLE:
        with sh.MinibatchSource(cut(told), max_sweeps=1) as source:
            assert source.next_minibatch(9).num_samples == 8
    for told in WRONG:
        with pytest.raises(ValueError, match=r"map 'cut' must return.*for 'array__0'"):
            sh.MinibatchSource(cut(told))


def test_an_error_of_a_size_function_names_map_and_sequence() -> None:
    corpus = sh.ArrayDeserializer({"x": [np.arange(5)] * 4})
    with pytest.raises(KeyError) as caught:
        sh.MinibatchSource(corpus.map(first_two, size=lambda sizes, key: sizes["y"]))
    assert caught.value.__notes__ == [
        "raised by size= of map 'first_two', at sequence 'array__0'"
    ]


def test_lengths_of_items_are_integers_that_fit() -> None:
    masked = np.ma.array([3, 3], mask=[False, True])
    for lengths in ([True, 3], [3, 2**32 + 3], [3, None], [3, 2.5], masked):
        with pytest.raises((ValueError, TypeError), match="lengths"):
            sh.MinibatchSource(sh.MapDeserializer([{"x": np.arange(3)}] * 2, lengths=lengths))
