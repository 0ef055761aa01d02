"""What lies at a path is told by its bytes, and damage is an error with its place."""

from pathlib import Path
from typing import Any

import numpy as np
from tests.cli.conftest import OFFSETS, Call
from tests.extent import sample

import sweephand as sh


def lengths_at(path: Path, **wanted: Any) -> list[int]:
    source = sh.MinibatchSource(sh.open(path, **wanted), randomize=False, max_sweeps=1)
    return [size for plan in source.plan(100) for size in plan.sizes.tolist()]


def test_a_member_with_offsets_is_a_stream_of_sequences(tokens: Path) -> None:
    source = sh.MinibatchSource(sh.open(tokens), randomize=False)
    assert {name: info.dtype.name for name, info in source.streams.items()} == {
        "tokens": "uint16",
        "label": "int64",
    }
    assert lengths_at(tokens) == np.diff(OFFSETS).tolist()
    assert source.sequence_ids(0, 1) == ["tokens.npz__0"]


def test_a_folder_has_a_stream_per_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6))
    np.save(tmp_path / "a_offsets.npy", [0, 2, 6])
    np.save(tmp_path / "b.npy", np.ones((2, 5)))
    (tmp_path / "notes.txt").write_text("not data")
    source = sh.MinibatchSource(sh.open(tmp_path))
    assert {name: info.shape for name, info in source.streams.items()} == {"a": (), "b": (5,)}
    assert lengths_at(tmp_path) == [2, 4]
    assert lengths_at(tmp_path / "a.npy") == [2, 4]  # its offsets lie beside it
    assert lengths_at(tmp_path / "b.npy") == [1, 1]


def test_chunks_can_be_made_smaller(tokens: Path, rows: Path) -> None:
    for path, sequences in ((tokens, 300), (rows, 1000)):
        source = sh.MinibatchSource(sh.open(path, chunk_size=7))
        assert source.timeline.corpus.chunk_sequences.sum() == sequences
        assert source.timeline.corpus.chunk_sequences.max() == 7


def test_pickled_objects_are_never_loaded(tmp_path: Path, call: Call) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], object))
    np.save(tmp_path / "x.npy", np.array([{}], object))
    for name in ("x.npz", "x.npy"):
        answer = call("info", tmp_path / name)
        assert answer.code == 1
        assert str(tmp_path / name) in answer.err
        assert "pickle" in answer.err


def test_an_archive_that_is_cut_or_flipped_is_an_error_or_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(20, dtype=np.int16), x_offsets=np.array([0, 5, 20]))
    whole, lengths = path.read_bytes(), lengths_at(path)
    cut = [whole[:end] for end in range(4, len(whole), 7)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in range(len(whole))
    ]
    damaged = sample(cut + flipped, 120)
    num_refused = 0
    for number, content in enumerate(damaged):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(content)
        try:
            assert sum(lengths_at(path)) in (sum(lengths), 3)  # 3: the offsets got another name
        except (sh.DataError, ValueError):
            num_refused += 1
    assert num_refused > len(damaged) // 2


def test_streams_may_be_declared(tokens: Path, tmp_path: Path) -> None:
    streams = sh.StreamDefs(y=sh.StreamDef(field="label"))
    assert list(sh.MinibatchSource(sh.open(tokens, streams)).streams) == ["y"]
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": [1, 2]}\n')
    assert list(sh.MinibatchSource(sh.open(path)).streams) == ["a", "b"]
    chosen = sh.StreamDefs(b=sh.StreamDef(dtype="float32", defines_mb_size=True))
    source = sh.MinibatchSource(sh.open(path, chosen))
    assert source.streams.b.dtype == "float32"
    assert source.streams.b.defines_mb_size
