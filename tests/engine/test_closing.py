"""What holds up the end of a source: it is bounded, and says what it waits for."""

import gc
import subprocess
import sys
import textwrap
import time
import warnings
import weakref
from collections.abc import Mapping

import numpy as np
import pytest
from tests.sources import TIMEOUT, Rows

import sweephand as sh
import sweephand.source.cursor

# For code of other processes: chunks of four, all but the first of which wait.
WAITING = """
import numpy as np
import sweephand as sh

class Waiting(sh.UserDeserializer):
    def stream_infos(self):
        return sh.StreamDefs(x=sh.StreamDef())
    def num_chunks(self):
        return 8
    def chunk_infos(self):
        return [(4, 4)] * 8
    def get_chunk(self, chunk_id):
        if chunk_id:
            self.wait()
        return {"x": np.arange(4)}
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweephand.source.cursor, "_CLOSE_SECONDS", 0.3)


@pytest.mark.usefixtures("impatient")
def test_closing_does_not_wait_forever_and_names_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deserializer = Rows(closed=[1])
    source = sh.MinibatchSource(deserializer, randomize=False, num_threads=2, prefetch=3)
    held = source.next_minibatch(4)["x"].values
    assert deserializer.entered.wait(TIMEOUT)
    begin = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"still in Rows\.get_chunk\(1\)"):
        source.close()
    assert time.monotonic() - begin < TIMEOUT / 4
    state = source.get_checkpoint_state()
    assert state["position"] == source.current_position == 4
    with pytest.raises(RuntimeError, match="the source is closed"):
        source.next_minibatch(4)
    assert held.tolist() == [0, 1, 2, 3]

    deserializer.gates[1].set()
    monkeypatch.setattr(sweephand.source.cursor, "_CLOSE_SECONDS", TIMEOUT)
    source.close()  # it ends now, so nothing is said
    with sh.MinibatchSource(deserializer, randomize=False) as again:
        again.restore_from_checkpoint(state)
        assert again.next_minibatch(4)["x"].values.tolist() == [4, 5, 6, 7]


@pytest.mark.usefixtures("impatient")
def test_the_error_in_a_with_block_is_not_replaced_by_the_warning() -> None:
    deserializer = Rows(closed=[1])

    def fail() -> None:
        with sh.MinibatchSource(deserializer, randomize=False, num_threads=1) as source:
            source.next_minibatch(4)
            assert deserializer.entered.wait(TIMEOUT)
            raise KeyError("mine")

    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(KeyError, match="mine"):
                fail()
        assert [one.category for one in told] == [RuntimeWarning]
        assert "Rows.get_chunk(1)" in str(told[0].message)
    finally:
        deserializer.gates[1].set()


@pytest.mark.parametrize("engine", [{"num_threads": 0}, {"num_threads": 1}, {"num_threads": 3}])
def test_code_that_makes_a_chunk_may_close_its_source(
    engine: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweephand.source.cursor, "_CLOSE_SECONDS", 2 * TIMEOUT)

    class Closing(Rows):
        source: sh.MinibatchSource

        def get_chunk(self, chunk_id: int) -> Mapping[str, object]:
            if chunk_id == 2:
                self.source.close()
            return super().get_chunk(chunk_id)

    begin = time.monotonic()
    deserializer = Closing()
    source = sh.MinibatchSource(deserializer, randomize=False, **engine)
    deserializer.source = source
    with pytest.raises(RuntimeError, match="the source is closed"):
        list(source.minibatches(4))
    source.close()
    assert time.monotonic() - begin < TIMEOUT
    del source, deserializer
    gc.collect()


@pytest.mark.parametrize("comes_back", ["into the core", "out of the user's code"])
def test_a_thread_that_comes_back_when_the_interpreter_ends_takes_nobody_with_it(
    comes_back: str,
) -> None:
    code = """
    import os, sys, threading, time, types

    entered, held, let_go = threading.Event(), *os.pipe()

    class Slow(Waiting):
        def wait(self):
            entered.set()
            os.read(held, 1)

    class Last:  # goes when the interpreter does, and lets threads come back meanwhile
        write, sleep = os.write, time.sleep
        def __del__(self):
            if opens:
                Last.write(let_go, b"x")
            Last.sleep(1.0)
            Last.write(1, b"gone")

    opens = "code" in sys.argv[1]
    sys.modules["last"] = types.ModuleType("last")
    sys.modules["last"].last = Last()
    source = sh.MinibatchSource(Slow(), randomize=False, num_threads=1)
    source.next_minibatch(4)
    entered.wait()
    if not opens:
        engine = source.cursor._engine
        threading.Thread(target=engine.close, args=[1.5], daemon=True).start()
    """
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", WAITING + textwrap.dedent(code), comes_back],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "gone", "")


def test_a_source_that_nobody_has_is_gone_at_once() -> None:
    """Without the garbage collector: a source may hold a window of chunks."""
    source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(10)}), memory_limit=10**9)
    source.next_minibatch(4)
    gc.disable()
    try:
        told = weakref.ref(source)
        del source
        assert told() is None
    finally:
        gc.enable()
