"""Files of bare numbers are read in whole chunks where a window is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.read.format_corpora import TOKENS, varied, write_megatron

import sweephand as sh
from sweephand.corpus import chunks

WINDOW: dict[str, Any] = {"randomization_window_in_chunks": 3, "num_lanes": 1}


def delivered(corpus: sh.Deserializer, **options: Any) -> list[Any]:
    with sh.MinibatchSource(corpus, **{"max_sweeps": 2, **options}) as source:
        return [
            (batch.ids, [stream.as_sequences() for stream in batch.values()])
            for batch in source.minibatches(20)
        ]


def assert_same(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other) > 3
    for (ids, streams), (other_ids, other_streams) in zip(one, other, strict=True):
        assert ids == other_ids
        np.testing.assert_equal(streams, other_streams)


@pytest.mark.parametrize("dtype", ["uint16", "int64"])
def test_token_files_give_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)
    parts = varied().parts(3)
    for number, part in enumerate(parts):
        write_megatron(tmp_path / f"part-{number}", part.tokens)
    pairs = [str(tmp_path / "part-*"), TOKENS]
    held = {
        f"part-{number}.bin__{i}": sequence
        for number, part in enumerate(parts)
        for i, sequence in enumerate(part.tokens)
    }
    np.arange(4003).astype(dtype).tofile(tmp_path / "a.bin")
    (tmp_path / "b.bin").touch()
    np.arange(500).astype(dtype).tofile(tmp_path / "c.bin")
    for name, count in (("a", 4003), ("c", 500)):
        for i, begin in enumerate(range(0, count, 7)):
            held[f"{name}.bin__{i}"] = np.arange(begin, min(begin + 7, count))
    both = (
        sh.MegatronDeserializer(*pairs),
        sh.RawTokensDeserializer(str(tmp_path / "?.bin"), dtype, 7),
    )
    for corpus in both:
        for ids, (sequences,) in delivered(corpus, max_sweeps=1, **WINDOW):
            np.testing.assert_equal(sequences, [np.asarray(held.pop(name)) for name in ids])
    assert not held


def test_npy_files_give_what_arrays_give(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((1000, 3), np.float32)
    offsets = np.append(0, np.sort(np.random.default_rng(1).choice(999, 99, False) + 1))
    offsets = np.append(offsets, 1000)
    labels = np.arange(len(offsets) - 1)
    for name, array in {"x": values, "at": offsets, "y": labels}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = sh.NpyDeserializer(
        {"x": (tmp_path / "x.npy", tmp_path / "at.npy"), "y": tmp_path / "y.npy"}, chunk_size=9
    )
    arrays = sh.ArrayDeserializer({"x": (values, offsets), "y": labels}, chunk_size=9)
    for layout in (None, sh.Padded()):
        options = {**WINDOW, "layout": layout} if layout else WINDOW
        read, wanted = (delivered(one, **options) for one in (files, arrays))
        np.testing.assert_equal([one[1] for one in read], [one[1] for one in wanted])


def test_a_window_holds_its_chunks_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2000)
    np.arange(100_000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    corpus = sh.RawTokensDeserializer(tmp_path / "a.bin", "uint16", 10)
    with sh.MinibatchSource(corpus, max_sweeps=1, num_threads=0, **WINDOW) as source:
        held = [source.stats()["bytes_held"] for _ in source.minibatches(1000)]
        assert source.stats()["chunks_loaded"] == 100
        assert 0 < max(held) <= source.memory_bound(1000)
    with sh.MinibatchSource(corpus, num_threads=0) as source:
        source.next_minibatch(1000)
        assert source.stats()["chunks_loaded"] == 0  # without one, nothing is held


def test_a_file_that_changed_stops_the_window_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    np.arange(1000, dtype=np.uint16).tofile(path)
    corpus = sh.RawTokensDeserializer(path, "uint16", 10)
    with sh.MinibatchSource(corpus, num_threads=0, **WINDOW) as source:
        os.truncate(path, 500)
        with pytest.raises(sh.StaleError, match=r"a\.bin"):
            source.next_minibatch(100)
