"""Where a file describes itself its streams need not be declared, and may be in any form."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh

ROWS: list[dict[str, Any]] = [{"x": [1, 2], "y": 0.5}, {"x": [3], "y": 1.5}]


def make(kind: str, folder: Path) -> Callable[..., sh.Deserializer]:
    """Write two rows and return what opens them."""
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text('{"x": [1, 2], "y": 0.5}\n{"x": [3], "y": 1.5}\n')
        return lambda *streams: sh.JSONLDeserializer(path, *streams)
    if kind == "tfrecord":
        sh.tfrecord.write(path, ROWS)
        return lambda *streams: sh.TFRecordDeserializer(path, *streams)
    if kind == "ctf":
        path.write_text("0 |x 1 |y 0.5\n0 |x 2\n1 |x 3 |y 1.5\n")
        return lambda *streams: sh.CTFDeserializer(path, *streams)
    if kind == "map":
        return lambda *streams: sh.MapDeserializer(ROWS, *streams)
    if kind == "array":
        return lambda *streams: sh.ArrayDeserializer(
            {name: [row[name] for row in ROWS] for name in ("x", "y")}, *streams
        )
    if kind == "npy":
        np.save(folder / "x.npy", np.array([1, 2, 3]))
        np.save(folder / "x_offsets.npy", np.array([0, 2, 3]))
        np.save(folder / "y.npy", np.array([0.5, 1.5]))
        paths = [folder / "x.npy", folder / "y.npy"]
        return lambda *streams: sh.NpyDeserializer(paths, *streams)
    pa = pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    table = pa.table({name: [row[name] for row in ROWS] for name in ("x", "y")})
    if kind == "parquet":
        parquet.write_table(table, path)
        return lambda *streams: sh.ParquetDeserializer(path, *streams)
    if kind == "arrow":
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        return lambda *streams: sh.ArrowDeserializer(path, *streams)
    return lambda *streams: sh.ArrowDeserializer(table, *streams)


KINDS = ["jsonl", "tfrecord", "ctf", "map", "array", "npy", "parquet", "arrow", "table"]


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., sh.Deserializer]:
    return make(str(request.param), tmp_path)


def delivered(corpus: sh.Deserializer) -> dict[str, list[float]]:
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        minibatch = source.next_minibatch(3)
        return {name: minibatch[name].values.reshape(-1).tolist() for name in minibatch}


def test_all_streams_come_where_none_is_declared(
    opened: Callable[..., sh.Deserializer],
) -> None:
    assert delivered(opened()) == {"x": [1, 2, 3], "y": [0.5, 1.5]}
    assert delivered(opened(None)) == {"x": [1, 2, 3], "y": [0.5, 1.5]}


def test_streams_are_names_a_dict_or_definitions(
    opened: Callable[..., sh.Deserializer], request: pytest.FixtureRequest
) -> None:
    # What arrays are given with are their definitions, which keep the streams beside them.
    kind = request.node.callspec.params["opened"]
    may_keep = {"x", "y"} if kind in ("array", "npy") else set()
    definitions = {"x": sh.StreamDef(dtype="float64")}
    for streams in (["x"], ("x",), definitions, sh.StreamDefs(**definitions)):
        assert others(delivered(opened(streams)), "x") <= may_keep
    renamed = {"tokens": sh.StreamDef(field="x")}
    assert others(delivered(opened(renamed)), "tokens") <= may_keep


def others(found: dict[str, list[float]], wanted: str) -> set[str]:
    assert found.pop(wanted) == [1, 2, 3]
    return set(found)


def test_a_type_of_torch_is_the_one_of_numpy(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    streams = {"x": sh.StreamDef(dtype=torch.int64), "y": sh.StreamDef(dtype=torch.float32)}
    source = sh.MinibatchSource(make("jsonl", tmp_path)(streams))
    assert (source.streams.x.dtype, source.streams.y.dtype) == (np.int64, np.float32)
    half = sh.MinibatchSource(
        make("jsonl", tmp_path)({"y": sh.StreamDef(dtype=torch.bfloat16)})
    )
    assert half.streams.y.dtype.name == "bfloat16"


def test_fields_that_come_later_are_streams_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": [], "b": null}\n\n{"a": [[1, 2]], "c": "t"}\n{"b": "u"}\n')
    assert list(sh.JSONLDeserializer(path).definitions) == ["a", "c", "b"]
    assert sh.JSONLDeserializer(path).definitions["a"].shape == (2,)
    sh.tfrecord.write(tmp_path / "a.tfrecord", [{"a": 1}, {"b": 2}])
    assert list(sh.TFRecordDeserializer(tmp_path / "a.tfrecord").definitions) == ["a", "b"]


def test_what_cannot_be_served_by_itself_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "m": [1, "x"], "l": [[1], [2, 3]]}\n')
    with pytest.warns(UserWarning, match=r"left out, 'm': .*object.*; 'l': .*differ"):
        corpus = sh.JSONLDeserializer(path)
    assert delivered(corpus) == {"a": [1]}
    assert delivered(sh.JSONLDeserializer(path, ["a"])) == {"a": [1]}
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1], "when": pa.array([0], pa.timestamp("s"))})
    with pytest.warns(UserWarning, match=r"table: .* left out, 'when': timestamp"):
        assert delivered(sh.ArrowDeserializer(table)) == {"a": [1]}


def test_an_array_of_many_axes_that_is_no_picture_is_said_to_be_a_sequence() -> None:
    grids = [{"grid": np.zeros((5, 4, 7))}]
    with pytest.warns(UserWarning, match=r"declare grid=StreamDef\(shape=\(5, 4, 7\)\)"):
        sh.MapDeserializer(grids)
    sh.MapDeserializer(grids, {"grid": sh.StreamDef(shape=(5, 4, 7))})


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    make("jsonl", tmp_path)
    make("npy", tmp_path)
    for corpus in (
        sh.JSONLDeserializer("~/rows.jsonl"),
        sh.JSONLDeserializer("~/*.jsonl"),
        sh.NpyDeserializer({"y": "~/y.npy"}),
        sh.open(Path("~/rows.jsonl")),
    ):
        assert delivered(corpus)["y"] == [0.5, 1.5]
    assert sh.tfrecord.write("~/a.tfrecord", ROWS) == 2
    assert (tmp_path / "a.tfrecord").exists()


def test_many_blanks_take_no_time_to_be_no_text_of_cntk(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b" " * (1 << 16) + b"\n")
    before = time.process_time()
    sh.open(path, index=None)
    assert time.process_time() - before < 1
