"""TFRecord files as a corpus: what features become, budgets, and compressed files."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.tfrecord_core import find_offsets

import sweephand as sh
from sweephand.corpus import chunks
from sweephand.files import inflate
from sweephand.files.inflate import InflatedFile
from sweephand.files.local import stat_file

TOKENS = sh.StreamDefs(tokens=sh.StreamDef())
EXAMPLES = [{"tokens": [n] * (n + 1), "label": n} for n in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.tfrecord"


def open_all(path: Path, streams: sh.StreamDefs = TOKENS, **options: Any) -> sh.MinibatchSource:
    max_errors = options.pop("max_errors", 0)
    return sh.MinibatchSource(
        sh.TFRecordDeserializer(path, streams, **options),
        randomize=False,
        max_sweeps=1,
        max_errors=max_errors,
    )


def sequences(source: sh.MinibatchSource, stream: str = "tokens") -> list[list[Any]]:
    return [
        one.tolist() for batch in source.minibatches(4) for one in batch[stream].as_sequences()
    ]


def test_features_are_streams_of_samples(path: Path) -> None:
    sh.tfrecord.write(
        path,
        [
            {"box": [1.0, 2.0, 3.0, 4.0], "name": ["a", b"\xff"], "id": 2**63 - 1},
            {"box": [5.0, 6.0], "name": [], "id": -1, "extra": 1.0},
        ],
    )
    streams = sh.StreamDefs(
        pairs=sh.StreamDef(field="box", shape=2, dtype="float64", defines_mb_size=True),
        name=sh.StreamDef(),
        id=sh.StreamDef(),
        extra=sh.StreamDef(),
    )
    minibatch = open_all(path, streams).next_minibatch(3)
    assert [one.tolist() for one in minibatch["pairs"].as_sequences()] == [
        [[1.0, 2.0], [3.0, 4.0]],
        [[5.0, 6.0]],
    ]
    assert minibatch["pairs"].values.dtype == np.float64
    assert minibatch["name"].values.tolist() == [b"a", b"\xff"]
    assert minibatch["name"].lengths.tolist() == [2, 0]
    assert minibatch["id"].values.tolist() == [2**63 - 1, -1]
    assert minibatch["extra"].lengths.tolist() == [0, 1]
    assert minibatch.ids == ["train.tfrecord__0", "train.tfrecord__1"]


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_damaged_records_are_skipped_in_the_budget(path: Path, compression: Any) -> None:
    examples = [*EXAMPLES, {"tokens": "text"}, {"label": 3}]
    sh.tfrecord.write(path, examples)
    offsets = find_offsets(path).tolist()
    content = bytearray(path.read_bytes())
    content[offsets[1] + 20] ^= 4
    pack: Any = {"gzip": gzip.compress, "zlib": zlib.compress}.get(compression, bytes)
    path.write_bytes(pack(content))
    with pytest.raises(sh.DataError, match="checksum of the record's data is wrong"):
        open_all(path)
    with pytest.raises(sh.DataError, match="has no sample in stream 'tokens', which") as caught:
        open_all(path, max_errors=2)
    assert caught.value.sequence == 6
    source = open_all(path, max_errors=3)
    assert sequences(source) == [[0], [2] * 3, [3] * 4, [4] * 5]
    found = [(error.sequence, error.offset, error.stream) for error in source.errors]
    assert found == [(1, offsets[1], None), (5, offsets[5], "tokens"), (6, None, None)]
    # Those that are skipped keep their places, of one sample each.
    assert source.sequence_ids(0, 5) == [f"train.tfrecord__{n}" for n in range(3)]


def test_unverified_data_are_delivered_as_they_are(path: Path) -> None:
    sh.tfrecord.write(path, [{"tokens": [1, 2]}])
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert sequences(open_all(path, verify_checksums=False)) == [[1, 3]]


def test_lost_framing_ends_the_file_and_costs_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        sh.tfrecord.write(tmp_path / name, EXAMPLES)
    offsets = find_offsets(tmp_path / "a").tolist()
    content = bytearray((tmp_path / "a").read_bytes())
    content[offsets[2]] ^= 1
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(sh.DataError, match="the rest of the file cannot be read"):
        open_all(tmp_path / "[ab]")
    source = open_all(tmp_path / "[ab]", max_errors=1)
    assert len(sequences(source)) == 2 + 5
    assert [(error.sequence, error.offset) for error in source.errors] == [(2, offsets[2])]


# -- compressed files --
def packed(records: bytes, compression: str) -> bytes:
    if compression == "gzip":
        half = len(records) // 2
        return gzip.compress(records[:half], mtime=0) + gzip.compress(records[half:], mtime=0)
    return zlib.compress(records)


def test_the_right_compression_is_told_by_the_bytes(path: Path) -> None:
    # A record of 0x8b1f bytes begins as GZIP does.
    text = bytes(0x8B1F - len(sh.tfrecord.encode_example({"tokens": bytes(35000)})) + 35000)
    record = sh.tfrecord.encode_example({"tokens": text})
    assert len(record) == 0x8B1F
    sh.tfrecord.write(path, [record])
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert sequences(open_all(path)) == [[text]]
    with pytest.raises(ValueError, match="compression must be"):
        sh.TFRecordDeserializer(path, TOKENS, compression="bz2")  # type: ignore[arg-type]
    with pytest.raises(sh.DataError, match="is damaged"):
        open_all(path, compression="gzip")


def test_any_range_of_compressed_content_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "_READ_BYTES", 1000)
    monkeypatch.setattr(inflate, "_MOST_PLACES", 8)
    random = np.random.default_rng(0)
    content = random.integers(0, 8, 100_000, dtype=np.uint8).tobytes()
    path = tmp_path / "content.gz"
    path.write_bytes(packed(content, "gzip"))
    file = InflatedFile(stat_file(path), "gzip")
    for begin, size in [(90_000, 20_000), (0, 10), *random.integers(0, 50_000, (50, 2))]:
        assert file.read(int(begin), int(size)).tobytes() == content[begin : begin + size]
    assert 2 <= len(file._places) <= 8


@pytest.mark.parametrize("chunk_bytes", [1, 8 << 20])
def test_integers_of_any_width_are_delivered_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
    lists = [[3, 40_000], [5, -1, 70_000], [2**31], [-(2**63), 2**63 - 1], [6]]
    for number, tokens in enumerate(lists):
        sh.tfrecord.write(
            tmp_path / f"{number}.tfrecord", [{"tokens": tokens, "label": number}]
        )
    streams = sh.StreamDefs(tokens=sh.StreamDef(), label=sh.StreamDef(dtype="float32"))
    corpus = sh.TFRecordDeserializer(tmp_path / "*.tfrecord", streams)
    with sh.MinibatchSource(corpus, max_sweeps=1) as source:
        minibatch = source.next_minibatch(100)
        labels, tokens = minibatch["label"].values.tolist(), minibatch["tokens"]
        assert tokens.values.dtype == np.int64
        assert [one.tolist() for one in tokens.as_sequences()] == [
            lists[int(label)] for label in labels
        ]
    narrow = sh.StreamDefs(tokens=sh.StreamDef(dtype="int32"))
    source = sh.MinibatchSource(
        sh.TFRecordDeserializer(tmp_path / "*.tfrecord", narrow), randomize=False
    )
    assert source.next_minibatch(5)["tokens"].values.tolist() == [3, 40_000, 5, -1, 70_000]
    with source, pytest.raises(sh.DataError, match="does not fit the dtype"):
        source.next_minibatch(1)


def test_a_feature_list_has_a_sample_for_each_step(path: Path) -> None:
    random = np.random.default_rng(0)
    lengths = [3, 1, 0, 5]
    frames = [random.normal(size=(n, 4)).astype(np.float32) for n in lengths]
    records = [
        sh.tfrecord.encode_sequence_example(
            {"label": n, "name": f"{n}"},
            {"frames": one, "phone": np.arange(len(one)), "word": ["é"] * len(one)},
        )
        for n, one in enumerate(frames)
    ]
    sh.tfrecord.write(path, records)
    corpus = sh.TFRecordDeserializer(path)
    assert list(corpus.definitions) == ["frames", "label", "name", "phone", "word"]
    with sh.MinibatchSource(corpus, randomize=False, max_sweeps=1) as source:
        minibatch = source.next_minibatch(100)
    assert minibatch["frames"].values.tolist() == np.concatenate(frames).tolist()
    assert minibatch["frames"].lengths.tolist() == lengths
    assert minibatch["phone"].lengths.tolist() == lengths
    assert minibatch["word"].values.tolist() == ["é".encode()] * 9
    assert minibatch["label"].values.tolist() == [0, 1, 2, 3]
    # A matrix for each step, if that is declared.
    declared = sh.StreamDefs(frames=sh.StreamDef(shape=(2, 2), defines_mb_size=True))
    with pytest.raises(sh.DataError, match="no sample in stream 'frames'"):
        open_all(path, declared)
    source = open_all(path, declared, max_errors=1)
    assert source.next_minibatch(100)["frames"].values.shape == (9, 2, 2)


def test_a_key_in_context_and_lists_is_told_apart(path: Path) -> None:
    record = sh.tfrecord.encode_sequence_example({"x": 3}, {"x": [1, 2], "y": [1.5, 2.5]})
    sh.tfrecord.write(path, [record])
    corpus = sh.TFRecordDeserializer(path)
    assert list(corpus.definitions) == ["context/x", "feature_lists/x", "y"]
    source = sh.MinibatchSource(corpus, randomize=False)
    minibatch = source.next_minibatch(2)
    assert minibatch["context/x"].values.tolist() == [3]
    assert minibatch["feature_lists/x"].values.tolist() == [1, 2]
    with pytest.raises(sh.DataError, match=r"say which, 'context/x' or 'feature_lists/x'"):
        open_all(path, sh.StreamDefs(x=sh.StreamDef()))
