"""Shards of MosaicML's streaming datasets: those of its own writer, and what is refused."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.rows import rows_of as rows
from tests.read.written import write_mds

import sweephand as sh
from sweephand import _core

RECORDED = Path(__file__).parent / "recorded_mds"
"""Six samples in several shards, as mosaicml-streaming 0.13 writes them."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


def write_texts(folder: Path, texts: list[bytes], encoding: str = "bytes") -> None:
    write_mds(folder, {"x": (encoding, None)}, [[{"x": text} for text in texts]])


def test_what_its_own_writer_wrote_is_read(tmp_path: Path) -> None:
    streams = {
        **{name: sh.StreamDef() for name in ("i", "f", "s", "a", "u", "j", "x")},
        "b": sh.StreamDef(dtype="int64"),
        "m": sh.StreamDef(shape=(2, 3)),
    }
    found = rows(sh.MDSDeserializer(RECORDED, streams, index="cache"))
    assert len(found) == 6
    for n, row in enumerate(found):
        assert row["i"].tolist() == [n - 2]
        assert row["f"].tolist() == [n / 2]
        assert row["s"].tolist() == [("é" * n).encode()]
        assert row["b"].tolist() == list(range(n + 1))
        assert row["a"].tolist() == np.arange(2 * n + 2).reshape(n + 1, 2).tolist()
        assert row["u"].tolist() == list(range(300 if n == 5 else n + 1))
        assert row["m"].tolist() == [np.full((2, 3), n).tolist()]
        assert json.loads(row["j"][0]) == {"n": n}
        assert row["x"].tolist() == [str(n**20).encode()]


def test_an_index_that_was_merged_names_shards_in_folders(tmp_path: Path) -> None:
    """Two folders of plain and compressed shards, as mosaicml-streaming 0.13 merges them."""
    pytest.importorskip("zstandard")
    merged = shutil.copytree(RECORDED.with_name("recorded_mds_merged"), tmp_path / "merged")
    for opened in (sh.open, sh.MDSDeserializer):
        corpus: Any = opened(merged)
        found = rows(corpus)
        assert [row["n"].tolist() for row in found] == [[n] for n in range(6)]
        assert [row["x"].tolist() for row in found] == [[b"x" * n] for n in range(6)]
        assert len(set(sh.MinibatchSource(corpus).sequence_ids(0, 6))) == 6
    store = pytest.importorskip("fsspec").filesystem("memory")
    store.put(str(merged), "/merged-mds", recursive=True)
    found = rows(sh.MDSDeserializer("memory://merged-mds", index="cache"))
    assert [row["n"].tolist() for row in found] == [[n] for n in range(6)]


def test_pickles_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="pickled objects, which are never loaded"):
        corpus = sh.MDSDeserializer(RECORDED, index="cache")
    assert "p" not in corpus.definitions
    with pytest.raises(sh.DataError, match="'p' cannot be served: it holds pickled objects"):
        sh.MDSDeserializer(RECORDED, ["p"])


def test_folders_are_one_corpus(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_texts(tmp_path / name, [name.encode(), b""])
    corpus = sh.MDSDeserializer([tmp_path / "a", tmp_path / "b"])
    assert [row["x"].tolist() for row in rows(corpus)] == [[b"a"], [b""], [b"b"], [b""]]
    assert isinstance(sh.open(tmp_path / "a"), sh.MDSDeserializer)
    assert isinstance(sh.open(tmp_path / "a" / "index.json"), sh.MDSDeserializer)


def test_tokens_may_be_bytes(tmp_path: Path) -> None:
    write_texts(tmp_path, [np.arange(n, dtype="<i8").tobytes() for n in (3, 1)] + [b"odd"])
    streams = {"x": sh.StreamDef(dtype="int64")}
    with pytest.raises(sh.DataError, match="3 bytes are no whole number of 8") as caught:
        rows(sh.MDSDeserializer(tmp_path, streams))
    assert (caught.value.stream, caught.value.sequence) == ("x", 2)
    found = rows(sh.MDSDeserializer(tmp_path, streams), max_errors=1)
    assert [row["x"].tolist() for row in found] == [[0, 1, 2], [0]]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"shards": []},
        {"shards": [3]},
        {"format": "json"},
        {"column_sizes": [9]},
        {"column_names": ["x", "y"]},
        {"samples": -1},
        {"samples": 3},
        {"raw_data": {"basename": "gone", "bytes": 1}},
        {
            "raw_data": {"basename": "gone", "bytes": 1},
            "zip_data": {"basename": "x", "bytes": 1},
            "compression": "br:11",
        },
        *(
            {"raw_data": {"basename": name, "bytes": 1}}
            for name in ("../x", "/x", "a/../../x", "a//x", "./x", "", "a/", "a\\..\\x")
        ),
        *(
            {"raw_data": {"basename": name, "bytes": 1}}
            for name in ("s3://b/x", "*", "{a,b}", "shard.0000[01].mds", "a\0", None)
        ),
    ],
    ids=str,
)
def test_an_index_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    values = [{"x": struct.pack("<q", n)} for n in range(2)]
    write_mds(tmp_path, {"x": ("int", 8)}, [values])
    index = json.loads((tmp_path / "index.json").read_text())
    place = index if change.keys() & index.keys() else index["shards"][0]
    place.update(change)
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(sh.DataError) as caught:
        rows(sh.MDSDeserializer(tmp_path))
    assert str(tmp_path) in str(caught.value.file)


def test_a_sample_whose_columns_do_not_fill_it_is_one_damaged_item(tmp_path: Path) -> None:
    write_texts(tmp_path, [b"one", b"two", b"three"])
    path = tmp_path / "shard.00000.mds"
    path.write_bytes(path.read_bytes().replace(b"\3\0\0\0two", b"\4\0\0\0two"))
    with pytest.raises(sh.DataError, match="are not as long as the sample is") as caught:
        rows(sh.MDSDeserializer(tmp_path))
    assert caught.value.sequence == 1
    found = rows(sh.MDSDeserializer(tmp_path), max_errors=1)
    assert [row["x"].tolist() for row in found] == [[b"one"], [b"three"]]


def test_arrays_that_say_what_cannot_be_are_damaged_items(tmp_path: Path) -> None:
    good = bytes([33, 4, 2]) + np.arange(2, dtype="<i4").tobytes()
    for head in (bytes([7, 4, 2]), bytes([33, 4, 9]), bytes([33, 0, 2]), b"", bytes([33])):
        write_texts(tmp_path, [good, head + good[3:] if head else b""], "ndarray")
        with pytest.raises(sh.DataError, match="the column 'x' is damaged"):
            rows(sh.MDSDeserializer(tmp_path, index=None))
        (row,) = rows(sh.MDSDeserializer(tmp_path, index=None), max_errors=1)
        assert row["x"].tolist() == [0, 1]


def test_large_samples_of_compressed_shards_stay_within_the_memory_bound(
    tmp_path: Path,
) -> None:
    sample = random.Random(0).randbytes(1 << 10) * (4 << 10)
    write_mds(
        tmp_path,
        {"x": ("bytes", None)},
        [[{"x": sample}] * 2] * 3,
        ("gz", "gz", lambda content: gzip.compress(content, 1)),
    )
    corpus = sh.MDSDeserializer(tmp_path, ["x"])
    with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0) as source:
        bound = source.memory_bound(1)
        tracemalloc.start()
        try:
            assert all(mb["x"].values[0] == sample for mb in source.minibatches(1))
            assert tracemalloc.get_traced_memory()[1] <= bound
        finally:
            tracemalloc.stop()


def test_a_shard_that_memory_does_not_hold_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = b"\x06" + struct.pack("<I", 1 << 20) + bytes(1 << 20)
    packed = ("gz", "gz", gzip.compress)
    write_mds(tmp_path, {"x": ("ndarray:uint8", None)}, [[{"x": array}]], packed)
    monkeypatch.setattr(_core.read, "physical_memory", lambda: 1 << 19)
    with pytest.raises(sh.DataError, match="memory") as caught:
        sh.MinibatchSource(sh.MDSDeserializer(tmp_path, index=None), max_errors=9)
    assert str(caught.value.file).endswith("shard.00000.mds.gz")
