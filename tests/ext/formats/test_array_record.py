"""ArrayRecord files: what a record may hold, groups of records, damage, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample
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


def test_records_of_json_are_bytes_for_a_map(path: Path) -> None:
    write_array_record(path, [b'{"tokens": [1, 2]}', b'{"tokens": [3]}'])

    def parse(one: Any) -> dict[str, Any]:
        return {"tokens": np.array(json.loads(one["record"][0])["tokens"])}

    corpus = sh.open(path).map(parse, size="measured")
    assert rows(corpus) == [{"tokens": [1, 2]}, {"tokens": [3]}]


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


def test_a_flipped_byte_of_the_data_is_never_silent(path: Path) -> None:
    records = [bytes([65 + n]) * (n + 1) for n in range(12)]
    write_array_record(path, records, "group_size:3")
    content = path.read_bytes()
    used = sample([n for n in range(len(content)) if content[n]], 80)
    refused = 0
    for place in used:
        damaged = bytearray(content)
        damaged[place] ^= 0x11
        path.write_bytes(damaged)
        corpus = sh.ArrayRecordDeserializer(
            path, {"record": sh.StreamDef()}, payload="bytes", index=None
        )
        try:
            found = rows(corpus)
        except sh.DataError:
            refused += 1
        else:
            assert [row["record"] for row in found] == [[one] for one in records]
    assert refused > len(used) // 2


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
