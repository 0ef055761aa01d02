"""Chunks are loaded before a minibatch wants them, and those alone that some will want."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.core import core_request, core_timeline
from tests.model import ModelCorpus, ModelSettings

import sweephand as sh
from sweephand import _core
from sweephand.corpus import chunks
from sweephand.deserializers.units import unit_scan
from sweephand.files.source_file import SourceFile

NO_END = 2**62


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Files of 64 samples, each a chunk, and whether each was read."""
    events = [Event() for _ in range(8)]
    for number in range(len(events)):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"x": {number}}}\n' * 64)
    read = sh.JSONLDeserializer.read_units

    def watched(self: Any, file: SourceFile, *rest: Any) -> Any:
        events[int(file.name[0])].set()
        return read(self, file, *rest)

    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1)
    monkeypatch.setattr(sh.JSONLDeserializer, "read_units", watched)
    return events


def in_order(folder: Path, **options: int) -> sh.MinibatchSource:
    corpus = sh.JSONLDeserializer(folder / "*.jsonl", ["x"])
    return sh.MinibatchSource(corpus, randomize=False, prefetch=1, **options)


def test_the_next_chunk_is_made_before_it_is_wanted(tmp_path: Path, made: list[Event]) -> None:
    with in_order(tmp_path, num_threads=1) as source:
        for _ in range(40):
            source.next_minibatch(1)
        assert not made[1].is_set(), "a quarter of a chunk ahead, not more"
        for _ in range(16):
            source.next_minibatch(1)
        assert made[1].wait(60), "8 samples before its first one"
        assert not made[2].is_set()


def test_nothing_is_made_beyond_the_end(tmp_path: Path, made: list[Event]) -> None:
    with in_order(tmp_path, num_threads=1, max_samples=64) as source:
        assert sum(one.num_samples for one in source.minibatches(1)) == 64
        assert not made[1].is_set()


def test_without_threads_nothing_is_made_ahead(tmp_path: Path, made: list[Event]) -> None:
    with in_order(tmp_path, num_threads=0) as source:
        for _ in range(63):
            source.next_minibatch(1)
        assert not made[1].is_set()


@pytest.mark.parametrize("num_lanes", [1, 3, 4])
@pytest.mark.parametrize("window_chunks", [4, 12])
def test_blocks_that_lanes_will_enter_are_told(num_lanes: int, window_chunks: int) -> None:
    corpus = ModelCorpus.of([[1] * 60] * 40)
    settings = ModelSettings(
        seed=5, num_lanes=num_lanes, window_chunks=window_chunks, window_samples=None
    )
    order = core_timeline(corpus, settings)
    planner = _core.compose.Planner(order, sh.Ragged().planner_choices, NO_END)

    def chunks_in(start: int, stop: int) -> set[int]:
        return {int(one) // 60 for one in planner.sequences_in(start, stop, 1)}

    for time in range(0, 3 * corpus.num_samples, 77):
        ahead = _core.engine.LookAhead(order, NO_END, True, False)
        with_open = _core.engine.LookAhead(order, NO_END, True, True)
        request = core_request(1)
        told = set(ahead.chunks_at(time, request) or [])
        known = set(with_open.chunks_at(time, request) or [])
        then = time + ahead.horizon
        # A place of a lane is told to within a sample.
        assert chunks_in(time + num_lanes, then - num_lanes) <= known
        assert chunks_in(then, then + 1) <= known
        assert told <= known
        block = max(1, window_chunks // num_lanes)
        assert len(known) <= 2 * num_lanes * block
        assert ahead.chunks_at(time, request) is None, "it was told"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_store_is_asked_for_chunks_as_they_are_due(rank: int) -> None:
    corpus = ModelCorpus.of([[1] * 60] * 40)
    settings = ModelSettings(seed=5, num_lanes=4, window_chunks=8, window_samples=None)
    order = core_timeline(corpus, settings)
    planner = _core.compose.Planner(order, sh.Ragged().planner_choices, NO_END)
    request = core_request(1, 2, rank)

    def due(start: int, stop: int) -> list[int]:
        """Return the chunks of every second lane, as sequences come, each once."""
        sequences = planner.sequences_in(start, stop, 1)
        return list(dict.fromkeys(int(one) // 60 for one in sequences[rank::2]))

    for begin in (0, 400):
        ahead = _core.engine.LookAhead(order, NO_END, True, True).chunks_at(begin, request)
        assert ahead is not None
        first = due(begin, begin + 120)
        assert list(dict.fromkeys(ahead))[: len(first)] == first
        for end in (begin + 1, begin + 10, begin + 120):
            of_run = _core.engine.LookAhead(order, end, True, True).chunks_at(begin, request)
            assert (of_run or []) == due(begin, end), "a run that ends there needs no others"


def write_many(folder: Path, count: int) -> None:
    for number in range(count):
        lines = [json.dumps({"x": [10 * number + row] * 3}) for row in range(10)]
        (folder / f"{number:03}.jsonl").write_text("\n".join(lines) + "\n")


def test_of_many_small_files_those_are_read_that_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_scan, "_PART_BYTES", 1)
    write_many(tmp_path, 100)
    with sh.MinibatchSource(
        sh.JSONLDeserializer(tmp_path / "*.jsonl"), num_threads=0
    ) as source:
        minibatch = source.next_minibatch(30)
        files = {one.partition("__")[0] for one in minibatch.ids}
        assert source.stats()["chunks_loaded"] == len(files) == 10
    with sh.MinibatchSource(
        sh.JSONLDeserializer(tmp_path / "*.jsonl"), max_sweeps=1, layout=sh.Frames()
    ) as source:
        values = [value for one in source.minibatches(64) for value in one["x"].values.tolist()]
    assert sorted(values) == sorted(list(range(1000)) * 3)


ODD = [
    b'{"x": [1, 2]}\n{"x": [3]}\n',
    b'\xef\xbb\xbf{"x": [4]}',  # no end of line after the last
    b'\n\r\n{"x": [5], "y": {"z": [null]}}\r\n\n',
    b'{"x": [6, 7]} \n',
]


@pytest.mark.parametrize("extra", [b'{"x": 8}', b'{"x":\t[8]}\n', b'{"\\u0078": [8]}\n'])
def test_small_files_are_read_together_as_one_by_one(tmp_path: Path, extra: bytes) -> None:
    for number, content in enumerate([*ODD, extra]):
        (tmp_path / f"{number}.jsonl").write_bytes(content)

    def served(**options: Any) -> list[list[int]]:
        corpus = sh.JSONLDeserializer(tmp_path / "*.jsonl", ["x"])
        with sh.MinibatchSource(
            corpus, randomize=False, max_sweeps=1, num_threads=0, **options
        ) as source:
            minibatches = [one["x"].as_sequences() for one in source.minibatches(100)]
            return [one.tolist() for sequences in minibatches for one in sequences]

    assert served() == [[1, 2], [3], [4], [5], [6, 7], [8]]
    (tmp_path / "5.jsonl").write_bytes(b'{"x": nought}\n')
    assert served(max_errors=1) == [[1, 2], [3], [4], [5], [6, 7], [8]]


def test_a_file_that_changes_is_noticed_among_others(tmp_path: Path) -> None:
    write_many(tmp_path, 20)
    corpus = sh.JSONLDeserializer(tmp_path / "*.jsonl")
    with sh.MinibatchSource(corpus, randomize=False, num_threads=0) as source:
        content = (tmp_path / "007.jsonl").read_bytes()
        (tmp_path / "007.jsonl").write_bytes(content.replace(b"70", b"71"))
        with pytest.raises(sh.StaleError, match=r"007\.jsonl"):
            source.next_minibatch(30)
