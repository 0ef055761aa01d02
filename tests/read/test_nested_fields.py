"""Fields of structs and objects at any depth are streams, in every format that has them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.rows import rows

import sweephand as sh
from sweephand.corpus.objects import member_at, splits_of
from sweephand.deserializers.jsonl import PADDING, JsonField, read_ordinary

ROWS: list[dict[str, Any]] = [
    {
        "s": {"b": {"c": list(range(n + 1)), "t": f"é{n}", "x.y": n}, "n": 10 * n},
        "d.e": {"f": n / 2},
        "plain": n,
    }
    for n in range(7)
]
FIELDS = {"c": "s.b.c", "t": "s.b.t", "n": "s.n", "f": "d.e.f", "y": "s.b.x.y", "p": "plain"}
STREAMS = sh.StreamDefs({name: sh.StreamDef(field=field) for name, field in FIELDS.items()})
WANTED = [
    dict(zip(FIELDS, [list(range(n + 1)), [f"é{n}".encode()], *values], strict=True))
    for n in range(7)
    for values in [([10 * n], [n / 2], [n], [n])]
]


def parquet(folder: Path, streams: Any) -> sh.Deserializer:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "x.parquet", row_group_size=3)
    return sh.ParquetDeserializer(folder / "x.parquet", streams)


def arrow_table(folder: Path, streams: Any) -> sh.Deserializer:
    pa = pytest.importorskip("pyarrow")
    sliced = pa.Table.from_pylist([*ROWS[3:], *ROWS]).slice(4)  # at an offset of its own
    return sh.ArrowDeserializer(sliced, streams)


def lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def jsonl(folder: Path, streams: Any) -> sh.Deserializer:
    (folder / "x.jsonl").write_bytes(lines())
    return sh.JSONLDeserializer(folder / "x.jsonl", streams)


def webdataset(folder: Path, streams: Any) -> sh.Deserializer:
    with tarfile.open(folder / "x.tar", "w") as archive:
        for number, line in enumerate(lines().splitlines()):
            member = tarfile.TarInfo(f"{number}.json")
            member.size = len(line)
            archive.addfile(member, io.BytesIO(line))
    within = {name: sh.StreamDef(field=f"json.{one.field}") for name, one in streams.items()}
    return sh.WebDatasetDeserializer(folder / "x.tar", sh.StreamDefs(within))


def items(folder: Path, streams: Any) -> sh.Deserializer:
    return sh.MapDeserializer(ROWS, streams, lengths=range(1, 8))


Make = Callable[[Path, Any], sh.Deserializer]
FORMATS: list[Make] = [parquet, arrow_table, jsonl, webdataset, items]


@pytest.mark.parametrize("make", FORMATS)
def test_fields_at_any_depth_are_streams(make: Make, tmp_path: Path) -> None:
    found = rows(make(tmp_path, STREAMS))
    names = found[0].keys()
    assert names >= {"c", "t", "n", "p"}
    assert found == [{name: row[name] for name in names} for row in WANTED]


@pytest.mark.parametrize("make", [parquet, arrow_table])
def test_a_field_that_is_not_there_is_an_error_that_names_the_columns(
    make: Make, tmp_path: Path
) -> None:
    with pytest.raises(sh.DataError, match=r"no field 's\.b\.z', there are: s, d\.e"):
        rows(make(tmp_path, sh.StreamDefs(p=sh.StreamDef(field="s.b.z"))))


def test_a_null_on_the_way_is_a_damaged_row(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"s": [{"b": {"c": 1}}, {"b": None}, None, {"b": {"c": 4}}]})
    streams = sh.StreamDefs(c=sh.StreamDef(field="s.b.c"))
    found = rows(sh.ArrowDeserializer(table, streams), max_errors=2)
    assert [row["c"] for row in found] == [[1], [4]]
    text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    (tmp_path / "x.jsonl").write_text(text)
    corpus = sh.JSONLDeserializer(tmp_path / "x.jsonl", streams)
    assert [row["c"] for row in rows(corpus, max_errors=2)] == [[1], [4]]
    with pytest.raises(sh.DataError, match=r"'s\.b\.c' lies in 'b', which is null, no object"):
        rows(corpus)


@pytest.mark.parametrize(
    "text",
    [
        '{"s": 3}',
        '{"s": {"b": [1]}}',
        '{"s": {"b": {"c": 1}}, "s": {"b": {"c": 1}}}',
        '{"s": {"b": {"c": 1}, "b": {"d": 1}}}',
        '{"s": {"b": {"c": {}}}}',
    ],
)
def test_what_is_wrong_with_a_nested_field_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"s": {{"b": {{"c": 1}}}}}}\n{text}\n')
    streams = sh.StreamDefs(c=sh.StreamDef(field="s.b.c"))
    with pytest.raises(sh.DataError, match=r"field .s\.b\.c. ") as caught:
        rows(sh.JSONLDeserializer(tmp_path / "x.jsonl", streams))
    assert (caught.value.line, caught.value.stream, caught.value.sequence) == (2, "c", 1)


KEYS = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "", "x"])
VALUES = st.recursive(
    st.integers(0, 9) | st.lists(st.integers(0, 9)) | st.none(),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=3), min_size=1, max_size=4))
def test_the_core_reads_objects_in_objects_as_python_does(
    objects: list[Any],
) -> None:
    """Whatever the core takes for ordinary; the rest is read by Python alone."""
    names = ["a.b.c", "b", "x.a"]
    text = "".join(json.dumps(one) + "\n" for one in objects).encode()
    found = read_ordinary(
        [JsonField(()) for _ in names], names, np.frombuffer(text + bytes(PADDING), np.uint8)
    )
    if found is None:
        return
    for name, column in zip(names, found, strict=True):
        wanted, wrong = JsonField(()).convert([member_at(one, name) for one in objects])
        assert not wrong
        assert column.lengths.tolist() == wanted.lengths.tolist()
        assert column.values is not None
        assert wanted.values is not None
        assert column.values.tolist() == wanted.values.tolist()


def test_a_name_may_mean_the_longest_member_first() -> None:
    assert list(splits_of(".a.")) == [(".a.", None), (".a", "")]
    assert list(splits_of("a..b")) == [("a..b", None), ("a.", "b"), ("a", ".b")]
