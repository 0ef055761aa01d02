"""The memory that a source says it needs, beside what it holds, over formats and layouts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import extent
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
    assert_within_bound(corpus, LAYOUTS[: 2 if lengths == "single" else None])


def assert_within_bound(corpus: object, layouts: list[Callable[[], sh.Layout]]) -> None:
    for layout in layouts:
        with sh.MinibatchSource(
            corpus,
            layout=layout(),
            randomization_window_in_chunks=8,
            num_lanes=4,
            num_threads=1,
        ) as source:
            held = 0.0
            for _ in range(12):
                source.next_minibatch(64)
                held = max(held, source.stats()["bytes_held"])
            assert held <= source.memory_bound(64), source.timeline.options.layout


def tokens_in(folder: Path, lengths: list[int]) -> sh.Deserializer:
    folder.mkdir()
    lines = [json.dumps({"tokens": [n % 100] * length}) for n, length in enumerate(lengths)]
    (folder / "tokens.jsonl").write_text("\n".join(lines))
    return sh.JSONLDeserializer(folder / "tokens.jsonl", ["tokens"], index=None)


def mixed(folder: Path, lengths: list[int]) -> object:
    one, other = tokens_in(folder / "one", lengths), tokens_in(folder / "other", lengths[::-1])
    return sh.Mixture({"one": one, "other": other}, weights={"one": 3, "other": 1})


def joined(folder: Path, lengths: list[int]) -> object:
    rows = "".join(f"{n},{n % 7}.5,{'ab' * (n % 9)}\n" for n in range(len(lengths)))
    (folder / "rows.csv").write_text(f"number,score,text\n{rows}")
    return [tokens_in(folder / "one", lengths), sh.CSVDeserializer(folder / "rows.csv")]


def mapped(folder: Path, lengths: list[int]) -> object:
    def twice(sequence: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": 2 * sequence["tokens"]}

    return tokens_in(folder / "one", lengths).map(twice)


@pytest.mark.parametrize("lengths", [name for name in LENGTHS if name != "single"])
@pytest.mark.parametrize("make", [mixed, joined, mapped], ids=lambda make: make.__name__)
def test_no_corpus_of_corpora_holds_more_than_its_bound(
    tmp_path: Path, make: Callable[[Path, list[int]], object], lengths: str
) -> None:
    assert_within_bound(make(tmp_path, LENGTHS[lengths]), LAYOUTS)


LINES = 600_000
ONE = "sh.StreamDefs(t=sh.StreamDef())"
SPARSE = "sh.StreamDefs(t=sh.StreamDef(field='t', shape=9, is_sparse=True))"
# The first line, one of the others, how many, and the deserializer.
SHORT = {
    "jsonl": ("", '{"t": [1]}', LINES, f"sh.JSONLDeserializer(PATH, {ONE})"),
    "many": (
        "",
        json.dumps({"t": [n % 10 for n in range(20)]}),
        LINES // 3,
        f"sh.JSONLDeserializer(PATH, {ONE})",
    ),
    "sparse": ("", "|t 1:1", LINES, f"sh.CTFDeserializer(PATH, {SPARSE})"),
    "text": ("", "ab", LINES, "sh.TextDeserializer(PATH)"),
    "csv": ("t\n", "1", LINES, "sh.CSVDeserializer(PATH)"),
    "csv of many": (
        ",".join(f"c{n}" for n in range(20)) + "\n",
        ",".join(["0.5"] * 20),
        LINES // 2,
        "sh.CSVDeserializer(PATH)",
    ),
}
# The lengths of all sequences are no part of the bound, and neither is what an allocator keeps
# between threads that happen to load at the same time.
LENGTH_BYTES = 8
ARROW_BYTES = 4 << 20  # that pyarrow's own pool keeps, whatever it parses
TRIES = 6  # the least of them: threads that load at the same time may take room of their own


@unmeasured
@pytest.mark.parametrize("kind", extent.sample(list(SHORT), 3))
def test_a_process_grows_by_little_more_than_the_bound(tmp_path: Path, kind: str) -> None:
    head, line, count, make = SHORT[kind]
    path = tmp_path / "lines"
    path.write_text(head + f"{line}\n" * count)
    code = f"""
    PATH = {str(path)!r}
    sh.MinibatchSource({make}).close()  # builds the index, whose memory would serve again
    before = resident()
    source = sh.MinibatchSource({make}, num_threads=1)
    peak = run(source, 4096, 100)
    print(before, peak, source.stats()["bytes_held"], source.memory_bound(4096))
    """
    told(code)
    grown, most = math.inf, 0.0
    for _ in range(TRIES):
        if grown < most:
            break
        before, peak, held, bound = told(code)
        assert 0 < held <= bound
        most = bound + LENGTH_BYTES * count + (ARROW_BYTES if "csv" in kind else 0)
        grown = min(grown, peak - before)
    assert grown < most
