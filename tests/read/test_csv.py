"""Tables of text: what Python's csv reads in them, and rows that are damaged."""

from __future__ import annotations

import csv
import gzip
import io
import os
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.extent import sample

import sweephand as sh
from sweephand import _core
from sweephand.deserializers import csv_files
from sweephand.deserializers.units import line_units


def rows(corpus: sh.Deserializer, **options: Any) -> list[tuple[Any, ...]]:
    options = {"randomize": False, "max_sweeps": 1, **options}
    with sh.MinibatchSource(corpus, **options) as source:
        return [
            row
            for one in source.minibatches(7)
            for row in zip(*(one[name].values.tolist() for name in one), strict=True)
        ]


cell = st.text(st.sampled_from('a,"\n\ré '), max_size=6)


@given(
    table=st.lists(st.tuples(st.integers(-9, 9), cell), min_size=1, max_size=12),
    unit=st.sampled_from([1, 20, 1 << 20]),
    is_packed=st.booleans(),
)
def test_values_are_those_that_csv_wrote(
    table: list[tuple[int, str]], unit: int, is_packed: bool, tmp_path_factory: Any
) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(["n", "text"])
    writer.writerows(table)
    content = out.getvalue().encode()
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    streams = {"n": sh.StreamDef(dtype="int64"), "text": sh.StreamDef(dtype=object)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_units, "UNIT_BYTES", unit)
        patch.setattr(os, "fsync", lambda _: None)
        for _ in range(2):  # without an index, and with one
            found = rows(sh.CSVDeserializer(path, streams))
            assert found == [(n, text.encode()) for n, text in table]


def test_columns_are_what_the_first_rows_tell(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\ufeffi\tf\tb\tt\td\n1\t1.5\ttrue\tx\t2026-01-02\n\n2\t2\tfalse\t\t-\n")
    corpus = sh.open(path)
    assert isinstance(corpus, sh.CSVDeserializer)
    with sh.MinibatchSource(corpus) as source:
        kinds = [info.dtype.name for info in source.streams.values()]
    assert kinds == ["int64", "float64", "bool", "object", "object"]
    assert rows(corpus) == [(1, 1.5, True, b"x", b"2026-01-02"), (2, 2.0, False, b"", b"-")]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "18446744073709551615"], [1, 2**64 - 1]),
        (["-1", "18446744073709551615"], [-1, "which does not fit int64"]),
        (["1", "123456789012345678901"], [1, "which does not fit int64"]),
        (["1.5", "9007199254740993"], [1.5, "an integer that float64 cannot hold"]),
        (["true", "1"], [b"true", b"1"]),
        (["1", "0x10"], [b"1", b"0x10"]),
        (["nan", "1", "-Infinity"], ["nan", 1.0, -np.inf]),
        (["1.5", ""], [1.5, "is empty: fill it"]),
        (["true", "False", ""], [True, False, "is empty: fill it"]),
        ([" 1", "+2\t"], [1, 2]),
        ([".5", "5."], [0.5, 5.0]),
    ],
)
def test_a_cell_is_its_own_value_or_an_error_whatever_lies_beside_it(
    tmp_path: Path, cells: list[str], values: list[Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{cell},.\n" for cell in ["x", *cells]))
    wrong = {n: one for n, one in enumerate(values) if isinstance(one, str) and one != "nan"}
    corpus = sh.CSVDeserializer(path)
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=9) as source:
        found = source.next_minibatch(9)["x"].values.tolist()
        told = {error.sequence: error.reason for error in source.errors}
    good = [
        float(one) if one == "nan" else one for n, one in enumerate(values) if n not in wrong
    ]
    np.testing.assert_equal(found, good)
    assert told.keys() == wrong.keys()
    for row, reason in wrong.items():
        assert reason in told[row]
        assert "the field 'x'" in told[row]


def test_damaged_rows_are_told_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,t\n1,a\n2,b,c\nx,d\n4,e\n,f\n6,g\n")
    streams = {"n": sh.StreamDef(dtype="int64"), "t": sh.StreamDef()}
    with pytest.raises(sh.DataError, match="the row is damaged: it has 3 values") as caught:
        rows(sh.CSVDeserializer(path, streams))
    assert (caught.value.file, caught.value.sequence, caught.value.line) == (str(path), 1, 3)
    corpus = sh.CSVDeserializer(path, streams)
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=3) as source:
        minibatch = source.next_minibatch(9)
        assert minibatch["n"].values.tolist() == [1, 4, 6]
        assert [error.line for error in source.errors] == [3, 4, 6]
        assert "the field 'n' is empty" in source.errors[2].reason


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("b,a\n1,2\n")
    with pytest.raises(sh.DataError, match="the columns are b, a here and a, b in") as caught:
        rows(sh.open(tmp_path))
    assert caught.value.file == str(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,a\n1,2\n", "several columns 'a'"),
        (b",\n1,2\n", "does not name the columns"),
        (b'a,"b\n1,2\n', "names no columns: unexpected end of data"),
        (b"\n1,2\n", "does not name the columns"),
        (b"a,b\n", "empty"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
    ],
)
def test_a_file_without_a_table_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(sh.DataError, match=reason) as caught:
        rows(sh.CSVDeserializer(path))
    assert caught.value.file == str(path)


# -- as Python's csv reads it --


def rows_of_csv(text: str, num_columns: int, **how: Any) -> list[tuple[str, ...] | None]:
    """Return the rows that Python's csv reads; None: a damaged one."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, **how)
    found: list[tuple[str, ...] | None] = []
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return found
        except csv.Error:
            found.append(None)
            continue
        if row:
            found.append(tuple(row) if len(row) == num_columns else None)


def rows_in_pieces(
    corpus: sh.CSVDeserializer, text: bytes, unit: int, piece: int
) -> list[tuple[str, ...] | None]:
    """Return the rows of a text that is read `unit` and parsed `piece` bytes at a time."""
    found: list[tuple[str, ...] | None] = []
    place = line_units.LinePlace(0, 0, 1, 0)
    source = io.BufferedReader(io.BytesIO(text), buffer_size=max(1, unit // 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_units, "UNIT_BYTES", unit)
        patch.setattr(csv_files, "_PIECE_BYTES", piece)
        finder = _core.formats.RowFinder(corpus._form)
        for part, _ in csv_files.rows_of(source, corpus.first_file, 0, finder):
            place = place._replace(end=place.end + len(part))
            columns, wrong = corpus.converter().convert(
                np.frombuffer(part, np.uint8), corpus.first_file, place
            )
            cells = [[bytes(one).decode() for one in texts_of(column)] for column in columns]
            rows = zip(*cells, strict=True)
            found += [None if n in wrong else row for n, row in enumerate(rows)]
            assert {one.sequence for one in wrong.values()} == {place.row + n for n in wrong}
            lines, num_rows = part.count(b"\n"), columns[0].num_sequences
            place = line_units.LinePlace(
                place.end, place.end, place.line + lines, place.row + num_rows
            )
    return found


def texts_of(column: Any) -> list[Any]:
    return [column.values[begin:end] for begin, end in pairwise(column.element_offsets)]


@pytest.mark.parametrize("quoting", ['"', None])
def test_rows_are_those_of_csv_in_pieces_of_any_size(
    quoting: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("-")
    how: dict[str, Any] = {} if quoting else {"quoting": csv.QUOTE_NONE}
    texts = {
        num_columns: sh.CSVDeserializer(
            path,
            {f"{n}": sh.StreamDef(dtype=object) for n in range(num_columns)},
            quoting=quoting,
            columns=[f"{n}" for n in range(num_columns)],
        )
        for num_columns in (1, 2, 3)
    }
    for seed in sample(range(100_000), 2_000):
        draw = Random(seed)
        size = draw.choice([20, 60, 60, 400]) if seed % 100 else 10_000
        text = "".join(draw.choices('",\n\r a5', k=draw.randrange(size)))
        num_columns = draw.randrange(1, 4)
        unit, piece = draw.randrange(16, 4097), draw.randrange(16, 4097)
        if draw.randrange(2):
            unit, piece = draw.randrange(1, 40), draw.randrange(1, 40)
        found = rows_in_pieces(texts[num_columns], text.encode(), unit, piece)
        assert found == rows_of_csv(text, num_columns, **how), (text, unit, piece)


def test_quotes_are_letters_and_columns_have_names_where_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('1,"Hello\n2,x"\n3,""\n')
    corpus = sh.CSVDeserializer(path, quoting=None, columns=["n", "text"], ids="n")
    assert rows(corpus) == [(1, b'"Hello'), (2, b'x"'), (3, b'""')]
    assert [info.dtype.name for info in sh.MinibatchSource(corpus).streams.values()] == [
        "int64",
        "object",
    ]
    for wrong in ({"columns": "n"}, {"columns": []}, {"quoting": ","}, {"quoting": ""}):
        with pytest.raises(ValueError, match=r"columns|quoting"):
            sh.CSVDeserializer(path, **wrong)


def test_an_open_quote_ends_the_file_as_one_row_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,2\n3,"x\n' + "4,5\n" * 30_000)
    monkeypatch.setattr(csv_files, "_MOST_ROW_BYTES", 1000)
    monkeypatch.setattr(line_units, "UNIT_BYTES", 64)
    with pytest.raises(sh.DataError, match=r"more than 1000 bytes; .* quoting=None") as caught:
        rows(sh.CSVDeserializer(path, index=None))
    assert caught.value.offset == 8


# -- the first rows --


def test_columns_without_a_name_of_their_own_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",a,b,b\n0,1,2,3\n1,4,5,6\n")
    with pytest.warns(UserWarning, match="'column 1': it has no name; 'b': several have"):
        corpus = sh.CSVDeserializer(path)
    assert rows(corpus) == [(1,), (4,)]
    assert rows(sh.CSVDeserializer(path, ["a"])) == [(1,), (4,)]
    with pytest.raises(sh.DataError, match="several columns 'b'"):
        sh.CSVDeserializer(path, ["a", "b"])
