"""Arrays that cannot be a corpus: an error that names the stream and what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sweephand as sh

F8 = np.arange(6.0)


def csr(indices: Any, indptr: Any, columns: int = 3) -> Any:
    matrix = scipy.sparse.csr_matrix((len(indptr) - 1, columns))
    matrix.data, matrix.indices = np.ones(len(indices)), np.array(indices)
    matrix.indptr = np.array(indptr)
    return matrix


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([1, "a", None], object), "'x' holds Python objects .dtype object"),
        ([{}, {}], "'x' holds Python objects"),
        (np.zeros(2, [("a", "O")]), "'x' holds Python objects"),
        (np.float64(1), "'x' must have a first axis of samples"),
        ((F8, [0, 6], 3), "a tuple is .values, offsets., got 3 items"),
        ([[1, 2], [[3, 4]]], r"sequence 1 has .* of shape \(2,\)"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], r"shape \(4,\), sequence 0 has"),
        ([np.zeros(2), np.zeros(2, "i4")], "sequence 1 has int32"),
        ([[[1], [1, 2]]], "'x' cannot be read as an array"),
        ([b"a", 1], "sample 1 is int, where the first is bytes or str"),
        ((F8, [0, 3, 2, 6]), "offsets of sequence 1 are .*they must not descend"),
        ((F8, [0, 3, 7]), "offsets"),
        ((F8, [1, 3, 6]), "offsets"),
        ((F8, []), "offsets"),
        ((F8, [0.0, 6.0]), "offsets must be one row of integers, got float64"),
        ((F8, [[0, 6]]), r"one row of integers, got int64 of shape \(1, 2\)"),
        ((F8, [0, 3, 3, 6]), "sequence 1 has no sample in stream 'x'"),
        ([[1.0], [], [2.0]], "sequence 1 has no sample in stream 'x'"),
        (np.empty(0), "the corpus is empty: no sequences"),
        (csr([0, 5], [0, 1, 2]), r"'x' has a column index outside \[0, 3\)"),
        (csr([0, 1], [0, 2, 1, 2]), "row offsets .* must not descend"),
        ([csr([0], [0, 1]), csr([0], [0, 1], 4)], "sequence 1 has 4 columns"),
        (np.ndarray((3,), "V0", buffer=b""), "'x' has elements of no bytes"),
        (np.ndarray((3,), "U0", buffer=b""), "'x' has elements of no bytes"),
        (np.empty((2**59, 0)), "of no elements"),
        ((np.empty((2**59, 0)), np.arange(0, 2**59 + 1, 2**58)), r"at most 2\^32"),
        ([np.empty((2**59, 0))], r"of no elements|at most 2\^32"),
    ],
    ids=range(27),
)
def test_data_that_are_no_sequences_are_refused_by_name(data: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        sh.MinibatchSource(sh.ArrayDeserializer({"x": data}))


def test_streams_with_different_numbers_of_sequences_are_told_apart() -> None:
    with pytest.raises(ValueError, match="'x' has 4, 'y' has 3"):
        sh.ArrayDeserializer({"x": np.arange(4), "y": [[1, 2], [3], [4]]})


@pytest.mark.parametrize("wrong", [0, -1, 1.5, float("nan"), "4", True])
def test_a_chunk_size_that_is_no_positive_int_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="chunk_size must be"):
        sh.ArrayDeserializer({"x": F8}, chunk_size=wrong)


def test_a_corpus_without_streams_or_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="give at least one stream"):
        sh.ArrayDeserializer({})
    with pytest.raises(ValueError, match="no data for stream 'z', there are: x"):
        sh.ArrayDeserializer({"x": F8}, sh.StreamDefs(y=sh.StreamDef(field="z")))


def test_an_array_with_gaps_between_its_elements_is_served_as_it_looks() -> None:
    x = np.arange(40).reshape(10, 4)
    for view in (x[::2], x[:, ::2], x[::-1], np.asfortranarray(x)):
        with sh.MinibatchSource(sh.ArrayDeserializer({"x": view}), randomize=False) as source:
            values = source.next_minibatch(len(view))["x"].values
        assert np.array_equal(values, view)
