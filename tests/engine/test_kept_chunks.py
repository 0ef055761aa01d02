"""Chunks stay in memory while their blocks are open, whatever is made of them."""

from pathlib import Path

import numpy as np
import pytest

import sweephand as sh

NUM_CHUNKS = 60


def same(sequence: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return sequence


@pytest.mark.parametrize("kind", ["stored", "mapped", "mixed"])
def test_a_sweep_without_threads_loads_every_chunk_about_once(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.ctf"
    path.write_text("".join(f"{i} |x {i % 7}\n{i} |x 1\n" for i in range(NUM_CHUNKS * 20)))
    streams = sh.StreamDefs(x=sh.StreamDef(field="x", shape=1))
    corpus: sh.Deserializer = sh.CTFDeserializer(path, streams, chunk_size_in_bytes=300)
    if kind == "mapped":
        corpus = corpus.map(same)
    if kind == "mixed":
        corpus = sh.Mixture({"x": corpus}, {"x": 1}, at_end="stop")
    with sh.MinibatchSource(
        corpus, max_sweeps=1, num_threads=0, num_lanes=4, randomization_window_in_chunks=8
    ) as source:
        num_chunks = len(source.timeline.corpus.chunk_sequences)
        assert num_chunks > 30
        for _ in source.minibatches(16):
            pass
        assert num_chunks <= source.stats()["chunks_loaded"] < 1.3 * num_chunks
