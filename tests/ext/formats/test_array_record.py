"""ArrayRecord files: what a record may hold, groups of records, damage, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.read.rows import rows
from tests.read.written import write_array_record

import sweephand as sh

pytest.importorskip("array_record.python.array_record_module")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "train.array_record"


def test_records_that_nobody_knows_are_bytes(path: Path) -> None:
    records = [b"", b"\xff\x00", b"abc", b"{no json", b"\x0a\xff"]
    write_array_record(path, records)
    corpus = sh.open(path)
    assert isinstance(corpus, sh.ArrayRecordDeserializer)
    assert rows(corpus) == [{"record": [one]} for one in records]
    named = sh.ArrayRecordDeserializer(path, {"picture": sh.StreamDef()}, payload="bytes")
    assert [row["picture"] for row in rows(named)] == [[one] for one in records]
    with pytest.raises(ValueError, match="records of bytes are one stream, not 2: a, b"):
        sh.ArrayRecordDeserializer(path, ["a", "b"])


def test_bytes_may_be_numbers(path: Path) -> None:
    tokens = [np.arange(n, dtype="<u2") for n in (3, 1, 4)]
    write_array_record(path, [*(one.tobytes() for one in tokens), b"odd"])
    corpus = sh.ArrayRecordDeserializer(path, {"tokens": sh.StreamDef(dtype="uint16")})
    with pytest.raises(sh.DataError, match="3 bytes are no whole number of 2") as caught:
        rows(corpus)
    assert (caught.value.stream, caught.value.sequence) == ("tokens", 3)
    assert [row["tokens"] for row in rows(corpus, max_errors=1)] == [
        one.tolist() for one in tokens
    ]


@pytest.mark.parametrize(
    "options", ["group_size:1", "group_size:7", "group_size:4,uncompressed"]
)
def test_groups_of_any_size_are_read(path: Path, options: str) -> None:
    records = [b"%d" % n * 50_000 for n in range(60)]
    write_array_record(path, records, options)
    corpus = sh.ArrayRecordDeserializer(path, payload="bytes")
    assert [row["record"] for row in rows(corpus)] == [[one] for one in records]
    with sh.MinibatchSource(corpus, max_sweeps=1, randomization_window_in_chunks=1) as source:
        found = [
            one for minibatch in source.minibatches(8) for one in minibatch["record"].values
        ]
    assert sorted(found) == sorted(records)


def test_a_damaged_group_is_one_item_and_the_rest_is_served(path: Path) -> None:
    records = [b"%d" % n * 9 for n in range(9)]
    write_array_record(path, records, "group_size:3,uncompressed")
    content = bytearray(path.read_bytes())
    content[content.index(records[4])] ^= 1
    path.write_bytes(content)
    corpus = sh.ArrayRecordDeserializer(path, payload="bytes")
    with pytest.raises(sh.DataError, match=r"records 3 to 5: .*hash mismatch") as caught:
        rows(corpus)
    assert (caught.value.file, caught.value.sequence) == (str(path), 3)
    found = rows(corpus, max_errors=1)
    assert [row["record"] for row in found] == [[one] for one in records[:3] + records[6:]]


def test_a_file_that_changed_since_is_stale(path: Path) -> None:
    write_array_record(path, [b"one", b"two"])
    source = sh.MinibatchSource(sh.ArrayRecordDeserializer(path, payload="bytes"))
    path.unlink()
    write_array_record(path, [b"one", b"two", b"three"])
    with source, pytest.raises(sh.StaleError):
        source.next_minibatch(2)


def test_what_cannot_be_read_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="payload must be one of"):
        sh.ArrayRecordDeserializer(path, payload="pickle")  # type: ignore[arg-type]
    path.write_bytes(b"nothing of that kind")
    with pytest.raises(sh.DataError, match="no ArrayRecord file, or cut short"):
        sh.open(path)
    write_array_record(path, [])
    with pytest.raises(sh.DataError, match="empty"):
        rows(sh.open(path))
    store = pytest.importorskip("fsspec").filesystem("memory")
    store.pipe("/array/x.array_record", b"0123")
    try:
        with pytest.raises(ValueError, match="of a store are not read; copy them to a disk"):
            sh.ArrayRecordDeserializer("memory://array/x.array_record")
    finally:
        store.rm("/array", recursive=True)
