"""Files of bare numbers are read in whole chunks where a window is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweephand as sh
from sweephand.corpus import chunks

WINDOW: dict[str, Any] = {"randomization_window_in_chunks": 3, "num_lanes": 1}


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
