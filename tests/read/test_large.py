"""Files beyond 4 GiB, most of which are holes, and memory that does not grow with the data."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from tests.ext.tfds.folders import NUMBERED, write_folder
from tests.sanitized import unmeasured

import sweephand as sh
from sweephand import _core
from sweephand.deserializers import ctf
from sweephand.deserializers.units import line_units

FAR = 5 << 30  # bytes


def put(path: Path, offset: int, content: bytes) -> None:
    """Write at an offset; what lies before it takes no room on the disk."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(content)


def last_tokens(deserializer: sh.Deserializer) -> list[int]:
    source = sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1, num_threads=0)
    length = source.num_samples_per_sweep
    last = source.sequence_ids(length - 4, length)[-1]
    source.current_position = source.find(last)
    return [int(n) for n in source.next_minibatch(4)["tokens"].values]


def test_bare_tokens_beyond_4_gib_are_read(tmp_path: Path) -> None:
    put(tmp_path / "x.bin", FAR, np.array([1, 2, 3, 60000], np.uint16).tobytes())
    assert last_tokens(sh.RawTokensDeserializer(tmp_path / "x.bin", "uint16", 1 << 20)) == [
        1,
        2,
        3,
        60000,
    ]


def test_records_beyond_4_gib_are_found_without_reading_what_lies_before(
    tmp_path: Path,
) -> None:
    examples = [{"x": n} for n in range(3)]
    folder = write_folder(tmp_path, {"s": [examples]}, NUMBERED)
    shard = folder / "demo-s.tfrecord-00000-of-00001"
    good = shard.read_bytes()
    hole = (FAR - 16).to_bytes(8, "little")
    checksum = _core.formats.mask_crc(_core.formats.crc32c(hole)).to_bytes(4, "little")
    shard.unlink()
    put(shard, 0, hole + checksum)  # one record of 5 GiB, whose data are never asked for
    put(shard, FAR, good)
    info = folder / "dataset_info.json"
    info.write_text(info.read_text().replace('["3"]', '["4"]'))
    source = sh.MinibatchSource(sh.tfds.load(folder, "s[1:]"), randomize=False, max_sweeps=1)
    assert source.next_minibatch(3)["x"].values.tolist() == [0, 1, 2]


# -- text: what lies before is left out of the index, as nothing reads it later --
def sequences(source: sh.MinibatchSource) -> list[list[float]]:
    return [
        one.reshape(-1).tolist()
        for batch in source.minibatches(1)
        for one in batch["tokens"].as_sequences()
    ]


def test_lines_of_ctf_beyond_4_gib_are_read_and_damage_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index_the_end(file: Any, form: Any, max_errors: int) -> Any:
        start = _core.formats.ctf_start(file, form)
        index = _core.formats.CtfIndex(max_errors)
        part = _core.formats.ctf_index(file, form, start, FAR, file.tag.size, max_errors)
        index.append(part, start)
        return start, index

    monkeypatch.setattr(ctf, "_index_in_parts", index_the_end)
    path = tmp_path / "x.ctf"
    put(path, 0, b"0 |x 0\n")
    put(path, FAR, b"1 |x 1\n1 |x 2\n7 |x 3\n8 |x what\n9 |x 4\n")
    streams = sh.StreamDefs(tokens=sh.StreamDef(field="x", shape=1))
    corpus = sh.CTFDeserializer(path, streams, chunk_size_in_bytes=8)
    with pytest.raises(sh.DataError) as caught:
        sh.MinibatchSource(corpus)
    assert caught.value.offset == FAR + 26
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=1)
    assert sequences(source) == [[1, 2], [3], [4]]
    assert source.num_samples_per_sweep == 5  # the damaged one keeps its place
    offsets = [error.offset for error in source.errors]  # the value, and two that follow of it
    assert offsets == [FAR + 26, FAR + 21, FAR + 21]


def test_json_lines_beyond_4_gib_are_read_and_damage_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_far(source: BinaryIO, file: object) -> int:
        return source.seek(FAR)

    monkeypatch.setattr(line_units, "find_begin", go_far)
    path = tmp_path / "x.jsonl"
    put(path, FAR, b'{"tokens": [1, 2]}\n{"tokens": "what"}\n{"tokens": [3]}\n')
    corpus = sh.JSONLDeserializer(path, sh.StreamDefs(tokens=sh.StreamDef(dtype="int64")))
    with pytest.raises(sh.DataError) as caught:
        sh.MinibatchSource(corpus)
    assert caught.value.offset == FAR + 19
    source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1, max_errors=1)
    assert sequences(source) == [[1, 2], [3]]
    assert [error.offset for error in source.errors] == [FAR + 19]


class Holes:
    """A file to write to, in which long pieces, all of them zeros, are holes."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        if len(data) < 1 << 20:
            return self._file.write(data)
        self._file.seek(len(data), os.SEEK_CUR)
        return len(data)

    def flush(self) -> None:
        self._file.flush()


# -- memory --
PROGRAM = """
import resource, sys
import sweephand as sh
from sweephand.corpus import chunks
chunks.CHUNK_BYTES = 1 << 20
source = sh.MinibatchSource(
    sh.TFRecordDeserializer(sys.argv[1], sh.StreamDefs(n=sh.StreamDef(), x=sh.StreamDef())),
    randomization_window_in_chunks=2, num_lanes=2, max_sweeps=1, num_threads=1)
assert sum(batch.num_sequences for batch in source.minibatches(4)) == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_kib(path: Path, num_records: int) -> int:
    command = [sys.executable, "-c", PROGRAM, str(path), str(num_records)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


@unmeasured
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_memory_is_the_window_and_not_the_corpus(tmp_path: Path, compression: None) -> None:
    block = np.random.default_rng(0).bytes(500_000)
    peaks = []
    for count in (40, 240):  # 20 MB and 120 MB
        path = tmp_path / f"{count}.tfrecord"
        examples = ({"n": n, "x": block} for n in range(count))
        sh.tfrecord.write(path, examples, compression=compression)
        peaks.append(peak_kib(path, count))
    assert peaks[1] - peaks[0] < 30_000  # KiB; the difference of the files is 100 MB


@pytest.mark.parametrize("kind", ["ctf", "ctf with ids", "jsonl"])
def test_an_opened_corpus_holds_little_of_its_index(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    count = 30_000
    if kind != "jsonl":
        ids = range(count) if "ids" in kind else [""] * count
        path.write_text("".join(f"{one}|x 1\n" for one in ids))
        corpus: sh.Deserializer = sh.CTFDeserializer(
            path, sh.StreamDefs(x=sh.StreamDef(field="x", shape=1))
        )
    else:
        path.write_text('{"x": [1]}\n' * count)
        corpus = sh.JSONLDeserializer(path, sh.StreamDefs(x=sh.StreamDef(dtype="int64")))
    sh.MinibatchSource(corpus).close()
    tracemalloc.start()
    try:
        source = sh.MinibatchSource(corpus, num_threads=0)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert source.num_sequences_per_sweep == count
    assert held < (9 if "ids" in kind else 8) * count  # ids take 8 themselves
    assert most < 34 * count
