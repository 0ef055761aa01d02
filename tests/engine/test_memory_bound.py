"""The memory that a source says it needs, beside what it holds, over formats and layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.test_memory import told
from tests.read.format_corpora import EVERY_FORMAT, ONE_EACH, Corpus, Make, mds, mds_in_zstd
from tests.sanitized import unmeasured

import sweephand as sh

LENGTHS = {
    "single": [1] * 1200,
    "short": [1, 2] * 400,
    "mixed": [1 + 7 * n % 60 for n in range(400)],
    "one long": [*[1] * 600, 1500],
}
LAYOUTS: list[Callable[[], sh.Layout]] = [
    sh.Ragged,
    sh.Padded,
    # Not of single samples:
    lambda: sh.TruncatedBPTT(16),
    lambda: sh.Packed(64, split_long="split"),
]


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPHAND_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("make", dict.fromkeys(EVERY_FORMAT), ids=lambda make: make.__name__)
def test_no_format_holds_more_than_its_bound(tmp_path: Path, make: Make, lengths: str) -> None:
    if make in ONE_EACH and lengths != "single":
        pytest.skip("its sequences are one sample each")
    if make in (mds, mds_in_zstd) and lengths == "one long":
        pytest.skip("the writer has lists of up to 255")
    folder = tmp_path / "data"
    folder.mkdir()
    corpus = make(folder, Corpus.of_lengths(LENGTHS[lengths]))
    for layout in LAYOUTS[: 2 if lengths == "single" else None]:
        with sh.MinibatchSource(
            corpus,
            layout=layout(),
            randomization_window_in_chunks=8,
            num_lanes=4,
            num_threads=1,
        ) as source:
            held = 0.0
            for _ in range(24):
                source.next_minibatch(64)
                held = max(held, source.stats()["bytes_held"])
            assert held <= source.memory_bound(64), source.timeline.options.layout


SHORT = {
    "jsonl": ('{"t": [1]}\n', "sh.JSONLDeserializer(PATH, sh.StreamDefs(t=sh.StreamDef()))"),
    "many": (
        json.dumps({"t": [n % 10 for n in range(20)]}) + "\n",
        "sh.JSONLDeserializer(PATH, sh.StreamDefs(t=sh.StreamDef()))",
    ),
    "floats": (
        json.dumps({"t": [0.5] * 20}) + "\n",
        "sh.JSONLDeserializer(PATH, sh.StreamDefs(t=sh.StreamDef(dtype='float32')))",
    ),
    "dense": (
        "|t 1\n",
        "sh.CTFDeserializer(PATH, sh.StreamDefs(t=sh.StreamDef(field='t', shape=1)))",
    ),
    "sparse": (
        "|t 1:1\n",
        "sh.CTFDeserializer(PATH, sh.StreamDefs("
        "t=sh.StreamDef(field='t', shape=9, is_sparse=True)))",
    ),
}
LINES = 600_000


@unmeasured
@pytest.mark.parametrize("kind", SHORT)
def test_a_process_grows_by_little_more_than_the_bound(tmp_path: Path, kind: str) -> None:
    line, make = SHORT[kind]
    path = tmp_path / "lines"
    path.write_text(line * (LINES // 3 if kind in ("many", "floats") else LINES))
    code = f"""
    PATH = {str(path)!r}
    sh.MinibatchSource({make}).close()  # builds the index, whose memory would serve again
    before = resident()
    source = sh.MinibatchSource({make}, num_threads=1)
    peak = run(source, 4096, 100)
    print(before, peak, source.stats()["bytes_held"], source.memory_bound(4096))
    """
    told(code)
    before, peak, held, bound = told(code)
    lengths = 8 * LINES  # of all sequences, at most
    assert 0 < held <= bound
    assert peak - before < 1.3 * bound + lengths
