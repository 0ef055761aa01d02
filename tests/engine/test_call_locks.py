"""Whose turn it is in the user's code: one thread at a time, over all sources of an object."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources import TIMEOUT, Rows

import sweephand as sh

CHUNK = 50


class Alone:
    """Fails where two threads are inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0

    def visit(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.001)  # others are let run, as any reading does
        self.inside -= 1


class Reader(sh.UserDeserializer):
    """Rows of a file that is open once, as an ordinary reader has it."""

    def __init__(self, path: Path, alone: Alone) -> None:
        self._file = path.open("rb", buffering=0)
        self._alone = alone
        self._count = path.stat().st_size // 8 // CHUNK

    def stream_infos(self) -> sh.StreamDefs:
        self._alone.visit()
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self) -> int:
        self._alone.visit()
        return self._count

    def chunk_infos(self) -> object:
        self._alone.visit()
        return [(CHUNK, CHUNK * 2)] * self._count

    def sequence_lengths(self, chunk_id: int) -> object:
        self._alone.visit()
        return [2] * CHUNK

    def get_chunk(self, chunk_id: int) -> dict[str, object]:
        self._file.seek(8 * CHUNK * chunk_id)
        self._alone.visit()
        numbers = np.frombuffer(self._file.read(8 * CHUNK), np.int64)
        return {"x": (np.repeat(numbers, 2), np.arange(CHUNK + 1) * 2)}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[tuple[Reader, Alone]]:
    np.arange(40 * CHUNK).tofile(tmp_path / "rows")
    alone = Alone()
    made = Reader(tmp_path / "rows", alone)
    yield made, alone
    made._file.close()


def in_threads(*works: Any) -> None:
    errors = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    assert not errors, errors


def test_a_reader_with_one_file_serves_threads_and_sources(
    reader: tuple[Reader, Alone],
) -> None:
    deserializer, alone = reader

    def sweep(seed: int) -> None:
        with sh.MinibatchSource(
            deserializer, randomization_seed=seed, max_sweeps=1, num_threads=4, prefetch=4
        ) as source:
            found = [mb["x"].values for mb in source.minibatches(2 * CHUNK)]
        assert np.array_equal(np.sort(np.concatenate(found)), np.arange(40 * CHUNK).repeat(2))

    in_threads(*[lambda seed=seed: sweep(seed) for seed in range(3)])
    assert alone.most == 1


class SideBySide(Rows):
    """Chunk 1 and chunk 2 wait for each other."""

    both = threading.Barrier(2)

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        if chunk_id in (1, 2):
            self.both.wait(TIMEOUT)
        return super().get_chunk(chunk_id)


def test_a_thread_safe_class_makes_chunks_side_by_side() -> None:
    with sh.MinibatchSource(
        SideBySide(3), randomize=False, max_sweeps=1, num_threads=2, prefetch=4
    ) as source:
        assert [mb["x"].values[0] for mb in source.minibatches(4)] == [0, 4, 8]


class Ordered(Rows):
    """Notes which chunks are made, as they are."""

    thread_safe = False

    def __init__(self) -> None:
        super().__init__(40)
        self.made: list[int] = []

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        self.made.append(chunk_id)
        time.sleep(0.001)
        return super().get_chunk(chunk_id)


def in_a_map(ordered: Ordered) -> Any:
    return ordered.map(lambda sequence: sequence, name="same")


def in_a_mixture(ordered: Ordered) -> Any:
    return sh.Mixture({"only": ordered}, {"only": 1}, at_end="stop")


FORMS = {"bare": lambda ordered: ordered, "map": in_a_map, "mixture": in_a_mixture}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_threads", [1, 4])
def test_chunks_under_one_lock_are_made_once_and_by_the_earliest_minibatch_first(
    num_threads: int, form: str
) -> None:
    ordered = Ordered()
    corpus = FORMS[form](ordered)
    ordered.made.clear()
    with sh.MinibatchSource(
        corpus, randomize=False, max_sweeps=1, num_threads=num_threads, prefetch=5
    ) as source:
        found = [mb["x"].values for mb in source.minibatches(12)]
    assert np.concatenate(found).tolist() == list(range(160))
    looked_at = ordered.made.count(0) - 1  # by a map, which asks for its first result
    assert looked_at <= (form == "map")
    assert ordered.made[looked_at:] == list(range(40))


def test_a_later_chunk_that_blocks_holds_no_earlier_minibatch_up() -> None:
    delivered = threading.Event()

    class Blocking(Ordered):
        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            assert chunk_id < 3 or delivered.wait(TIMEOUT)
            return super().get_chunk(chunk_id)

    with sh.MinibatchSource(
        Blocking(), randomize=False, max_sweeps=1, num_threads=4, prefetch=5
    ) as source:
        assert len(source.next_minibatch(12)["x"].values) == 12
        delivered.set()


def test_after_a_seek_no_chunk_is_made_for_what_nobody_asks_for_any_more() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Blocking(Ordered):
        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            if chunk_id == 3:
                entered.set()
                assert leave.wait(TIMEOUT)
            return super().get_chunk(chunk_id)

    ordered = Blocking()
    with sh.MinibatchSource(
        ordered, randomize=False, max_sweeps=1, num_threads=4, prefetch=5
    ) as source:
        source.next_minibatch(12)
        assert entered.wait(TIMEOUT)
        source.current_position = 120
        leave.set()
        assert source.next_minibatch(12)["x"].values.tolist() == list(range(120, 132))
    assert set(range(6, 30)).isdisjoint(ordered.made)


class Asking(Rows):
    """Asks a source while it makes a chunk."""

    thread_safe = False
    ask: Any = None

    def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
        if chunk_id == 2 and self.ask is not None:
            self.ask()
        return super().get_chunk(chunk_id)


ENGINES = [{"num_threads": 0}, {"num_threads": 1, "prefetch": 1}, {"num_threads": 3}]
QUESTIONS = {
    "next": lambda source: source.next_minibatch(4),
    "seek": lambda source: setattr(source, "current_position", 0),
    "restore": lambda source: source.restore_from_checkpoint(source.get_checkpoint_state()),
}


@pytest.mark.parametrize("thread_safe", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_deserializer_that_asks_its_own_source_is_told_at_once(
    engine: dict[str, int], question: str, thread_safe: bool
) -> None:
    deserializer = Asking(3)
    deserializer.thread_safe = thread_safe
    with sh.MinibatchSource(deserializer, randomize=False, max_sweeps=1, **engine) as source:
        deserializer.ask = lambda: QUESTIONS[question](source)
        assert source.next_minibatch(8)["x"].values.tolist() == list(range(8))
        with pytest.raises(RuntimeError, match="wait for itself"):
            source.next_minibatch(4)
        assert source.current_position == 8
        deserializer.ask = lambda: source.get_checkpoint_state()  # needs nobody
        assert source.next_minibatch(4)["x"].values.tolist() == [8, 9, 10, 11]


class AskingItems:
    """A map-style dataset that asks a source for its third item."""

    ask: Any = None

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number == 2 and self.ask is not None:
            self.ask()
        return {"x": number}


@pytest.mark.parametrize("engine", ENGINES)
def test_another_source_of_the_same_object_is_refused_and_one_of_another_serves(
    engine: dict[str, int],
) -> None:
    deserializer = Asking(3)
    with (
        sh.MinibatchSource(deserializer, randomize=False, **engine) as source,
        sh.MinibatchSource(deserializer, randomize=False, **engine) as same,
        sh.MinibatchSource(Asking(3), randomize=False, **engine) as other,
    ):
        deserializer.ask = lambda: same.next_minibatch(4)
        source.next_minibatch(8)
        with pytest.raises(RuntimeError, match=r"Asking\.get_chunk\(2\) asks a source"):
            source.next_minibatch(4)
        deserializer.ask = lambda: other.next_minibatch(4)
        assert source.next_minibatch(4)["x"].values.tolist() == [8, 9, 10, 11]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["chunks", "items"])
def test_a_child_that_is_forked_in_the_middle_of_a_call_has_its_own_turn(kind: str) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        entered.set()
        assert leave.wait(TIMEOUT)

    corpus: sh.UserDeserializer | sh.MapDeserializer
    if kind == "chunks":
        corpus = user = Asking(3)
    else:
        user = AskingItems()  # type: ignore[assignment]
        corpus = sh.MapDeserializer(user, sh.StreamDefs(x=sh.StreamDef()))
    with sh.MinibatchSource(corpus, randomize=False, num_threads=1) as source:
        first = source.next_minibatch(1)["x"].values.tolist()
        user.ask = stay
        with sh.MinibatchSource(corpus, randomize=False, num_threads=1) as busy:
            waiting = threading.Thread(target=busy.next_minibatch, args=(12,))
            waiting.start()
            assert entered.wait(TIMEOUT)
            child = os.fork()
            if child == 0:
                user.ask = None
                source.current_position = 0
                same = source.next_minibatch(1)["x"].values.tolist() == first
                os._exit(0 if same else 1)
            deadline = time.monotonic() + TIMEOUT / 2
            ended = (0, 0)
            while ended[0] == 0 and time.monotonic() < deadline:
                ended = os.waitpid(child, os.WNOHANG)
                time.sleep(0.01)
            if ended[0] == 0:
                os.kill(child, 9)
                os.waitpid(child, 0)
            leave.set()
            waiting.join(TIMEOUT)
        assert ended == (child, 0)
