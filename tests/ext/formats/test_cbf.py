"""CNTK's binary format: the same as its text, and what is wrong with it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ext.formats.cntk_files import cbf_bytes

import sweephand as sh

STREAMS = {"x": (False, "f", 2), "words": (True, "f", 9), "y": (True, "d", 3)}

dense = st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), min_size=1, max_size=3)
indices = st.dictionaries(st.integers(0, 2), st.integers(1, 9), max_size=3)
sparse = st.lists(indices.map(lambda one: dict(sorted(one.items()))), min_size=1, max_size=3)
sequences = st.fixed_dictionaries({"x": dense, "words": sparse, "y": sparse})


def delivered(corpus: Any, **options: Any) -> list[list[Any]]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        found = [[one[name].as_sequences() for name in one] for one in source.minibatches(7)]
    return [
        [own.toarray().tolist() if hasattr(own, "toarray") else own.tolist() for own in row]
        for columns in found
        for row in zip(*columns, strict=True)
    ]


def as_dense(samples: list[dict[int, int]], dimension: int) -> list[list[int]]:
    return [[one.get(index, 0) for index in range(dimension)] for one in samples]


@given(chunks=st.lists(st.lists(sequences, max_size=4), min_size=1, max_size=3))
def test_sequences_are_those_that_were_written(
    chunks: list[list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [row for chunk in chunks for row in chunk]
    path = tmp_path_factory.mktemp("cbf") / "a.cbf"
    path.write_bytes(cbf_bytes(STREAMS, chunks))
    if not rows:
        with pytest.raises(sh.DataError, match="the corpus is empty"):
            delivered(sh.CBFDeserializer(path))
        return
    wanted = [[row["x"], as_dense(row["words"], 9), as_dense(row["y"], 3)] for row in rows]
    assert delivered(sh.CBFDeserializer(path)) == wanted
    assert delivered(sh.open(path, ["y", "x"])) == [[y, x] for x, _, y in wanted]
    named = sh.StreamDefs(z=sh.StreamDef(field="words", shape=9, is_sparse=True))
    assert delivered(sh.CBFDeserializer(path, named)) == [[words] for _, words, _ in wanted]


def test_types_are_those_of_the_file(tmp_path: Path) -> None:
    row = {"x": [[1, 2]], "words": [{1: 1}], "y": [{0: 2}]}
    path = tmp_path / "a.cbf"
    path.write_bytes(cbf_bytes(STREAMS, [[row]]))
    told = sh.MinibatchSource(sh.CBFDeserializer(path)).streams
    assert [(one.dtype, one.shape, one.is_sparse) for one in told.values()] == [
        (np.float32, (2,), False),
        (np.float32, (9,), True),
        (np.float64, (3,), True),
    ]
    with pytest.raises(sh.DataError, match="there is no field 'z', there are: x, words, y"):
        delivered(sh.CBFDeserializer(path, ["z"]))


def test_a_damaged_chunk_within_the_budget_leaves_the_rest(tmp_path: Path) -> None:
    rows = [{"x": [[n, n]], "words": [{n: 1}], "y": [{}]} for n in range(4)]
    content = bytearray(cbf_bytes(STREAMS, [rows[:2], rows[2:]]))
    at = content.index(struct.pack("<fi", 1, 3))
    content[at + 4] = 9  # an index beyond the dimension
    path = tmp_path / "a.cbf"
    path.write_bytes(content)
    with pytest.raises(
        sh.DataError, match="an index is 9, of a stream of the dimension 9"
    ) as e:
        delivered(sh.CBFDeserializer(path))
    assert (e.value.offset, e.value.stream, e.value.sequence) == (at + 4, "words", 3)
    found = delivered(sh.CBFDeserializer(path), max_errors=1)
    assert [row[0] for row in found] == [[[0, 0]], [[1, 1]]]


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (0, b"x", "does not begin as CNTK's binary format"),
        (8, b"\2", "of version 2"),
        (-8, b"\3\0\0\0", "the header is not where"),
    ],
)
def test_a_header_that_is_wrong_is_an_error(
    tmp_path: Path, place: int, value: bytes, told: str
) -> None:
    row = {"x": [[1, 2]], "words": [{1: 1}], "y": [{0: 2}]}
    content = bytearray(cbf_bytes(STREAMS, [[row]]))
    place %= len(content)
    content[place : place + len(value)] = value
    (tmp_path / "a.cbf").write_bytes(content)
    with pytest.raises(sh.DataError, match=told):
        sh.CBFDeserializer(tmp_path / "a.cbf")
