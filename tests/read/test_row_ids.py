"""Ids of rows in files: a field of theirs or a list, by which they are found and joined."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

NAMES = ["c", "a", "ü", "b", "e", "d"]
ROWS = [
    {"tokens": list(range(1 + n % 3)), "name": name, "number": 7 * n}
    for n, name in enumerate(NAMES)
]
TOKENS = sh.StreamDefs(tokens=sh.StreamDef(dtype="int32"))


def jsonl(folder: Path, rows: list[Any], **options: Any) -> sh.Deserializer:
    half = len(rows) // 2
    for name, part in (("a", rows[:half]), ("b", rows[half:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in part))
    return sh.JSONLDeserializer(str(folder / "*.jsonl"), TOKENS, **options)


def tfrecord(folder: Path, rows: list[Any], **options: Any) -> sh.Deserializer:
    sh.tfrecord.write(folder / "a.tfrecord", rows)
    return sh.TFRecordDeserializer(folder / "a.tfrecord", TOKENS, **options)


def parquet(folder: Path, rows: list[Any], **options: Any) -> sh.Deserializer:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet", row_group_size=2)
    return sh.ParquetDeserializer(folder / "a.parquet", TOKENS, **options)


def arrow(folder: Path, rows: list[Any], **options: Any) -> sh.Deserializer:
    pa, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.ipc")
    table = pa.Table.from_pylist(rows)
    with ipc.new_stream(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sh.ArrowDeserializer(folder / "a.arrow", TOKENS, **options)


Make = Callable[..., sh.Deserializer]
FORMATS: list[Make] = [jsonl, tfrecord, parquet, arrow]
formats = pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)


@formats
@pytest.mark.parametrize("ids", ["name", "number", NAMES, np.arange(6)], ids=str)
def test_rows_are_known_by_a_field_or_a_list(make: Make, ids: Any, tmp_path: Path) -> None:
    wanted = [str(one) for one in (ids if not isinstance(ids, str) else [r[ids] for r in ROWS])]
    corpus = pickle.loads(pickle.dumps(make(tmp_path, ROWS, ids=ids)))
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        found = {}
        for minibatch in source.minibatches(3):
            found |= dict(zip(minibatch.ids, minibatch["tokens"].as_sequences(), strict=True))
        assert {name: one.tolist() for name, one in found.items()} == {
            name: row["tokens"] for name, row in zip(wanted, ROWS, strict=True)
        }
        assert source.sequence_ids(source.find(wanted[3]), source.find(wanted[3]) + 1) == [
            wanted[3]
        ]


@formats
def test_files_are_joined_by_their_ids(make: Make, tmp_path: Path) -> None:
    labels = sh.ArrayDeserializer({"label": np.arange(5)}, ids=["a", "b", "c", "d", "ü"])
    members = [make(tmp_path, ROWS, ids="name"), labels]
    with pytest.raises(ValueError, match=r"1 of 6 sequences are missing .* 'e'"):
        sh.MinibatchSource(members)
    with sh.MinibatchSource(members, missing="drop", max_sweeps=1) as source:
        minibatch = source.next_minibatch(100)
        assert dict(zip(minibatch.ids, minibatch["label"].values.tolist(), strict=True)) == {
            "a": 0, "b": 1, "c": 2, "d": 3, "ü": 4,
        }  # fmt: skip


@formats
def test_ids_that_are_none_are_refused(make: Make, tmp_path: Path) -> None:
    twice = [*ROWS[:5], ROWS[0]]
    with pytest.raises(ValueError, match="'c' is there more than once"):
        sh.MinibatchSource(make(tmp_path, twice, ids="name"))
    with pytest.raises(ValueError, match="4 ids are given for 6 sequences"):
        sh.MinibatchSource(make(tmp_path, ROWS, ids=NAMES[:4]))
    lists = [row | {"name": [n, n]} for n, row in enumerate(ROWS)]
    with pytest.raises(sh.DataError, match="one integer or text in 'name'"):
        sh.MinibatchSource(make(tmp_path, lists, ids="name"))
    with pytest.raises(sh.DataError, match="elsewhere"):
        sh.MinibatchSource(make(tmp_path, ROWS, ids="elsewhere"))


def test_an_id_is_the_text_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    wanted = ["004", "3", "1e2", "1.0", "+7", "18446744073709551616"]
    path.write_text("key,x\n" + "".join(f"{one},1\n" for one in wanted))
    corpus = sh.CSVDeserializer(path, ["x"], ids="key")
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        assert source.next_minibatch(100).ids == wanted


def test_a_damaged_line_keeps_the_name_of_its_place(tmp_path: Path) -> None:
    jsonl(tmp_path, ROWS)
    path = tmp_path / "a.jsonl"
    path.write_text(path.read_text().replace('"a"', "a"))
    corpus = sh.JSONLDeserializer(str(tmp_path / "*.jsonl"), TOKENS, ids="name")
    with pytest.raises(sh.DataError, match="no JSON"):
        sh.MinibatchSource(corpus)
    with sh.MinibatchSource(corpus, max_errors=1, randomize=False, max_sweeps=1) as source:
        assert source.next_minibatch(100).ids == ["c", "ü", "b", "e", "d"]
        assert source.sequence_ids(0, 2) == ["c", "a.jsonl__1"]
        assert len(source.errors) == 1
