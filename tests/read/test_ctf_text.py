"""What is written in CNTK's text is read as the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import sweephand as sh


def test_a_shorter_stream_stops_appearing() -> None:
    text = sh.sequence_to_cntk_text_format(
        12, {"B": [{7: 1.5, 2: -1}, {}], "A": np.arange(6).reshape(3, 1, 2)}
    )
    assert text == "12\t|A 0 1 |B 2:-1 7:1.5\n12\t|A 2 3 |B\n12\t|A 4 5"


def test_nothing_is_no_line() -> None:
    assert sh.sequence_to_cntk_text_format(0, {"A": [], "B": np.empty((0, 3))}) == ""


def test_rows_of_a_sparse_matrix_are_samples() -> None:
    matrix = csr_array(np.array([[0, 0.25], [0, 0], [1, 2]], np.float32))
    text = sh.sequence_to_cntk_text_format(1, {"x": matrix})
    assert text == "1\t|x 1:0.25\n1\t|x\n1\t|x 0:1 1:2"


@pytest.mark.parametrize(
    ("number", "streams", "reason"),
    [
        (-1, {"A": [1]}, "must be at least 0, got -1"),
        (0, {"A": ["x"]}, "'A' must hold numbers"),
        (0, {"A": [[1, [2]]]}, "A"),
        (0, {"A b": [1]}, "cannot be called 'A b'"),
        (0, {"A": [{-1: 2}]}, "negative index -1"),
        (0, {"A": [{1: [2, 3]}]}, "one number at an index, got '1:2 3'"),
        (0, {"A": [1j]}, "'A' must hold numbers, got complex128"),
    ],
)
def test_what_cannot_be_written_is_refused(
    number: int, streams: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        sh.sequence_to_cntk_text_format(number, streams)


@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_come_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, dtype: str, bits: list[int]
) -> None:
    values = np.array(bits, np.uint64).view(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(dtype)
    values = np.where(np.isfinite(values), values, np.array(-0.0, dtype))
    path = Path(tmp_path_factory.mktemp("text")) / "x.ctf"
    path.write_text(sh.sequence_to_cntk_text_format(3, {"A": values[:, None]}))
    streams = sh.StreamDefs(A=sh.StreamDef(field="A", shape=1, dtype=dtype))
    source = sh.MinibatchSource(
        sh.CTFDeserializer(path, streams), randomize=False, num_threads=0
    )
    found = source.next_minibatch(len(values))["A"].values[:, 0]
    assert found.tobytes() == values.tobytes()
