"""What one process has decoded, others of the node map: from memory that dies with them."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.extent import sample
from tests.read.format_corpora import (
    OPEN,
    corpus_for,
    ctf,
    jsonl,
    parquet,
    tfrecords,
    tfrecords_in_gzip,
)

import sweephand as sh
from sweephand import _core
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.node_cache import digest_of
from sweephand.files.node_cache import decoded, fetch_lock
from sweephand.files.node_cache.decoded import DecodedChunks

FILES: dict[Any, Callable[[Path], sh.Deserializer]] = {
    make: OPEN[make] for make in (ctf, jsonl, parquet, tfrecords, tfrecords_in_gzip)
}
KEY = b"0123456789abcdef"
LIMIT = 60.0  # seconds, of waits that end at once unless something is wrong


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever decodes may be held up by the machine, and is waited for all the same."""
    monkeypatch.setattr(decoded, "_PATIENCE", LIMIT)


class Clock:
    """A clock that sleeping alone moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def told(minibatch: sh.Minibatch) -> list[Any]:
    """Return ids and all values of a minibatch."""
    arrays = {
        name: [np.asarray(one).reshape(-1).tolist() for one in data.as_sequences()]
        for name, data in minibatch.items()
        if not data.is_sparse
    }
    return [minibatch.ids, arrays]


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_chunks_are_the_same_whoever_decoded_them(make: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    make(tmp_path / "data", corpus_for(make))
    corpus = FILES[make](tmp_path / "data")
    cache = sh.NodeCache(tmp_path / "node", 1 << 20, decoded_bytes=1 << 24)
    with sh.MinibatchSource(corpus, max_sweeps=2) as plain:
        wanted = [told(minibatch) for minibatch in plain.minibatches(20)]
    options: dict[str, Any] = {"max_sweeps": 2, "node_cache": cache}
    with (
        sh.MinibatchSource(corpus, **options) as first,
        sh.MinibatchSource(corpus, **options) as second,
    ):
        pairs = zip(first.minibatches(20), second.minibatches(20), strict=True)
        for want, (one, other) in zip(wanted, pairs, strict=True):
            assert told(one) == told(other) == want
        stats = [one.stats() for one in (first, second)]
    offered, mapped, loaded = (
        [one[name] for one in stats]
        for name in ("cache_chunks_offered", "cache_chunks_mapped", "chunks_loaded")
    )
    assert sum(offered) > 0
    assert sum(mapped) > 0
    assert sum(offered) + sum(mapped) == sum(loaded)


def print_digests(folder: Path) -> None:
    """Tell of each format how others know that they decode the same, before and after."""
    for make, opened in FILES.items():
        corpus = opened(folder / make.__name__)
        before = digest_of((corpus,))
        sh.MinibatchSource(corpus).next_minibatch(9)
        print(before.hex(), digest_of((corpus,)).hex())


def test_processes_that_decode_the_same_know_it(tmp_path: Path) -> None:
    """Whether they have opened it before or not, and whoever has built the index."""
    for make in FILES:
        (tmp_path / make.__name__).mkdir()
        make(tmp_path / make.__name__, corpus_for(make))
    code = (
        "import pathlib, sys; from tests.read.test_decoded_chunks import print_digests;"
        "print_digests(pathlib.Path(sys.argv[1]))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            env=environment | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "01"
    ]
    assert found[0] == found[1]
    digests = [line.split() for line in found[0].splitlines()]
    assert all(before == after for before, after in digests)
    assert len({before for before, _ in digests}) == len(FILES)


def chunk_of(values: list[int], *, skipped: list[int] | None = None) -> _core.read.Chunk:
    column = ColumnData(
        np.array(values, np.int32),
        np.dtype(np.int32),
        (),
        len(values),
        np.array([0, 1, len(values)], np.int64),
    )
    return make_chunk([column], skipped=skipped or [])


def values_of(chunk: _core.read.Chunk) -> list[int]:
    core = _core.read.CallbackDeserializer(lambda _: chunk)
    ((values, offsets, *_),) = core.load(0)
    assert offsets.tolist() == [0, 1, len(values)]
    return list(map(int, values))


def never() -> _core.read.Chunk:
    raise AssertionError("it was decoded already")


@contextmanager
def child(work: Callable[[Callable[[], None]], object]) -> Iterator[int]:
    """Fork a process, wait until it tells that it is ready, and kill it in the end."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            work(lambda: os.close(writing))
        finally:
            os._exit(1)
    os.close(writing)
    try:
        os.read(reading, 1)  # until it is closed
        yield process
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def offer_and_wait(folder: Path) -> Callable[[Callable[[], None]], object]:
    def work(ready: Callable[[], None]) -> None:
        chunk = DecodedChunks(folder, 1 << 20).load(KEY, lambda: chunk_of([1, 2, 3]))
        ready()
        signal.pause()
        del chunk

    return work


def shared() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("*sweephand*")}


def test_a_chunk_outlives_the_process_that_decoded_it(tmp_path: Path) -> None:
    before = shared()
    folder = tmp_path / "node"
    with child(offer_and_wait(folder)):
        mine = DecodedChunks(folder, 1 << 20)
        chunk = mine.load(KEY, never)
        assert mine.num_mapped == 1
    assert values_of(chunk) == [1, 2, 3]
    # The note of the dead one is not believed, and goes away.
    assert values_of(mine.load(KEY, lambda: chunk_of([4, 5, 6]))) == [4, 5, 6]
    assert shared() <= before
    DecodedChunks(folder, 1 << 20)
    assert list((folder / "decoded").iterdir()) == []


def test_memory_that_is_not_as_it_was_written_is_never_served(tmp_path: Path) -> None:
    """Whichever byte of it has changed; nor if somebody can change it, or of another chunk."""
    folder, other = tmp_path / "node", bytes(reversed(KEY))
    held = DecodedChunks(folder, 1 << 20).load(KEY, lambda: chunk_of([1, 2, 3]))
    note = folder / "decoded" / KEY.hex()
    process, number = note.read_text().split()
    content = Path(f"/proc/{process}/fd/{number}").read_bytes()
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

    def is_served(key: bytes, content: bytes, seals: int = seals) -> bool:
        memory = os.memfd_create(f"sweephand-{key.hex()}", os.MFD_ALLOW_SEALING)
        try:
            os.write(memory, content)
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
            note.with_name(key.hex()).write_text(f"{os.getpid()} {memory}")
            mine = DecodedChunks(folder, 1 << 20)
            found = values_of(mine.load(key, lambda: chunk_of([7, 8])))
            assert found == ([1, 2, 3] if mine.num_mapped else [7, 8])
            return mine.num_mapped > 0
        finally:
            os.close(memory)

    assert is_served(KEY, content)
    for at in sample(range(len(content)), 64):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert not is_served(KEY, changed)
    for size in (0, 1, 31, 32, len(content) - 1):
        assert not is_served(KEY, content[:size])
    for missing in (fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_WRITE):
        assert not is_served(KEY, content, seals & ~missing)
    assert not is_served(other, content)
    del held


def test_a_stopped_process_is_mapped_from(tmp_path: Path) -> None:
    with child(offer_and_wait(tmp_path / "node")) as process:
        os.kill(process, signal.SIGSTOP)
        chunk = DecodedChunks(tmp_path / "node", 1 << 20).load(KEY, never)
    assert values_of(chunk) == [1, 2, 3]


def test_who_is_stopped_while_it_decodes_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(decoded, "_PATIENCE", 2.0)

    def work(ready: Callable[[], None]) -> None:
        def decode() -> _core.read.Chunk:
            ready()
            signal.pause()
            return chunk_of([1])

        DecodedChunks(tmp_path / "node", 1 << 20).load(KEY, decode)

    with child(work) as process:
        os.kill(process, signal.SIGSTOP)
        mine = DecodedChunks(tmp_path / "node", 1 << 20)
        with monkeypatch.context() as patch:
            patch.setattr(fetch_lock, "time", clock)
            for wait in (2.0, 0.1):  # once it did not come it is waited for less
                begin = clock.now
                assert values_of(mine.load(KEY, lambda: chunk_of([4, 5]))) == [4, 5]
                assert wait <= clock.now - begin < wait + 0.1
    assert values_of(mine.load(KEY, lambda: chunk_of([4, 5]))) == [4, 5]


def test_one_process_decodes_and_the_others_wait(tmp_path: Path) -> None:
    counted = tmp_path / "decoded"
    told = tmp_path / "told"
    told.mkdir()

    def decode() -> _core.read.Chunk:
        with counted.open("a") as file:
            file.write("once\n")
        time.sleep(0.05)  # so that others come to wait
        return chunk_of([7, 8, 9])

    def work(number: int) -> None:
        chunk = DecodedChunks(tmp_path / "node", 1 << 20).load(KEY, decode)
        (told / f"{number}").write_text(json.dumps(values_of(chunk)))
        end = time.monotonic() + LIMIT
        while len(list(told.iterdir())) < 4 and time.monotonic() < end:
            time.sleep(0.01)

    processes = []
    for number in range(4):
        process = os.fork()
        if process == 0:
            try:
                work(number)
            finally:
                os._exit(0)
        processes.append(process)
    for process in processes:
        os.waitpid(process, 0)
    assert [json.loads(path.read_text()) for path in told.iterdir()] == [[7, 8, 9]] * 4
    assert counted.read_text() == "once\n"


def test_memory_is_bounded_and_given_back(tmp_path: Path) -> None:
    mine = DecodedChunks(tmp_path / "node", 1000)
    size = _core.read.packed_bytes(chunk_of([1] * 50))
    assert 300 < size < 500
    held = [mine.load(bytes([i] * 16), lambda: chunk_of([1] * 50)) for i in range(4)]
    assert mine.num_offered == 2
    assert all(values_of(chunk) == [1] * 50 for chunk in held)
    held.clear()
    gc.collect()
    assert list((tmp_path / "node" / "decoded").iterdir()) == []
    again = mine.load(KEY, lambda: chunk_of([1] * 50))
    assert mine.num_offered == 3
    assert again is not None


def test_what_is_damaged_is_counted_by_everybody_and_not_shared(tmp_path: Path) -> None:
    mine = DecodedChunks(tmp_path / "node", 1000)
    chunk = mine.load(KEY, lambda: chunk_of([1, 2], skipped=[1]))
    assert values_of(chunk) == [1, 2]
    assert mine.num_offered == 0


def test_a_chunk_that_cannot_be_decoded_is_tried_by_the_next(tmp_path: Path) -> None:
    def fail() -> _core.read.Chunk:
        raise sh.DataError("it is damaged", "a.jsonl")

    mine = DecodedChunks(tmp_path / "node", 1000)
    for _ in range(2):
        with pytest.raises(sh.DataError, match="it is damaged"):
            mine.load(KEY, fail)
    assert values_of(mine.load(KEY, lambda: chunk_of([1, 2]))) == [1, 2]


def test_no_memory_that_was_cut_or_changed_is_taken_for_a_chunk() -> None:
    chunk = chunk_of([1, 2, 3])
    packed = np.zeros(_core.read.packed_bytes(chunk), np.uint8)
    _core.read.pack(chunk, packed)
    assert values_of(_core.read.unpack(packed, None)) == [1, 2, 3]
    for size in range(len(packed)):
        with pytest.raises(ValueError, match="packed chunk"):
            _core.read.unpack(packed[:size].copy(), None)
    for place in range(16):
        other = packed.copy()
        other[place] ^= 128
        with pytest.raises(ValueError, match="packed chunk"):
            _core.read.unpack(other, None)


def test_what_nobody_can_compare_is_not_shared_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": [1, 2]}\n')

    class Local(sh.JSONLDeserializer):  # which no other process could import
        pass

    corpus = Local(tmp_path / "a.jsonl", sh.StreamDefs(x=sh.StreamDef()))
    cache = sh.NodeCache(tmp_path / "node", 1000, decoded_bytes=1000)
    with pytest.warns(RuntimeWarning, match="decoded chunks are not shared"):
        source = sh.MinibatchSource(corpus, max_sweeps=1, node_cache=cache)
    assert source.next_minibatch(2)["x"].values.tolist() == [1, 2]
    source.close()
