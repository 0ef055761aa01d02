"""What is whole but not what was asked for: columns, types, and files that disagree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sweephand as sh


def write_jsonl(path: Path, value: object) -> None:
    path.write_text(json.dumps({"x": value}) + "\n")


def write_tfrecord(path: Path, value: Any) -> None:
    sh.tfrecord.write(path, [{"x": value}])


def write_parquet(path: Path, value: object) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": [value]}), path)


def write_arrow(path: Path, value: object) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import ipc

    table = pa.table({"x": [value]})
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


Write = Callable[[Path, Any], None]

FORMATS: dict[str, tuple[Write, Callable[..., sh.Deserializer]]] = {
    "jsonl": (write_jsonl, sh.JSONLDeserializer),
    "tfrecord": (write_tfrecord, sh.TFRecordDeserializer),
    "parquet": (write_parquet, lambda *a: sh.ParquetDeserializer(*a)),
    "arrow": (write_arrow, lambda *a: sh.ArrowDeserializer(*a)),
}


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> tuple[Write, Callable[..., sh.Deserializer]]:
    return FORMATS[str(request.param)]


def test_shards_whose_types_differ_are_named(form: Any, tmp_path: Path) -> None:
    write, make = form
    write(tmp_path / "a", 1)
    write(tmp_path / "b", "text")
    streams = sh.StreamDefs(x=sh.StreamDef())
    with pytest.raises(sh.DataError, match="all files of a corpus must agree") as caught:
        sh.MinibatchSource(make(str(tmp_path / "[ab]"), streams))
    assert caught.value.file == str(tmp_path / "b")
    assert str(tmp_path / "a") in caught.value.reason
