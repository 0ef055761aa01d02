"""Forks, spawned processes, signals, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ENGINES = ["num_threads=0", "num_threads=1, prefetch=1", "num_threads=2, prefetch=3"]
TIMEOUT = 60

PRELUDE = """
import os, signal, sys, threading, time, warnings
import numpy as np
import sweephand as sh

# Forking with threads is what is tried here.
warnings.filterwarnings("ignore", message=".*multi-threaded.*", category=DeprecationWarning)


IS_STUCK = threading.Event()


class Chunks(sh.UserDeserializer):
    '''Rows in chunks of four; from chunk `stuck` on, making one takes `seconds`.'''

    thread_safe = True  # so that a stuck one holds up no other

    def __init__(self, stuck=1000, seconds=0):
        self.stuck, self.seconds = stuck, seconds

    def stream_infos(self):
        return sh.StreamDefs(x=sh.StreamDef())

    def num_chunks(self):
        return 100

    def chunk_infos(self):
        return [(4, 4)] * 100

    def get_chunk(self, chunk_id):
        if chunk_id >= self.stuck:
            print("stuck\\n", end="", flush=True)  # in one piece
            IS_STUCK.set()
            time.sleep(self.seconds)
        return {"x": np.arange(4 * chunk_id, 4 * chunk_id + 4)}


def rows(**options):
    return sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(1000)}), **options)
"""


def run(
    code: str, *arguments: str, timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output(code: str) -> str:
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forked_child_goes_on_exactly_and_so_does_its_parent(engine: str) -> None:
    code = f"""
    with rows({engine}) as source:
        order = source.sequence_ids(0, 1000)
        before = [source.next_minibatch(7) for _ in range(5)]
        values = before[-1]["x"].values.copy()
        child = os.fork()
        after = [name for _ in range(20) for name in source.next_minibatch(7).ids]
        assert after == order[35:175], after
        assert source.current_position == 175
        assert np.array_equal(before[-1]["x"].values, values)
        assert source.stats()["minibatches"] == (20 if child == 0 else 25)
        del before
        if child == 0:
            grandchild = os.fork()
            assert source.next_minibatch(7).ids == order[175:182]
            if grandchild == 0:
                source.close()
                sys.exit(0)
            assert os.waitpid(grandchild, 0)[1] == 0
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    print("done")
    """
    assert output(code) == "done\n"


def test_a_child_may_be_forked_while_threads_work_in_the_deserializer() -> None:
    code = """
    source = sh.MinibatchSource(Chunks(2, 0.05), randomize=False, num_threads=2, prefetch=8)
    for _ in range(10):
        position = source.current_position
        source.next_minibatch(4)
        child = os.fork()
        if child == 0:
            values = source.next_minibatch(4)["x"].values.tolist()
            os._exit(0 if values[0] == position + 4 else 1)
        assert os.waitpid(child, 0)[1] == 0
    """
    assert "stuck" in output(code)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError('the end')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("del source, chunks; sys.exit(5)", 5),
    ],
)
def test_a_process_ends_at_once_with_minibatches_on_the_way(ending: str, code: int) -> None:
    begin = time.monotonic()
    done = run(f"""
    source = rows(num_threads=2, prefetch=3)
    chunks = sh.MinibatchSource(Chunks(), num_threads=2, prefetch=3)
    source.next_minibatch(8), chunks.next_minibatch(8)
    {ending}
    """)
    assert done.returncode == code, done.stderr
    assert "the end" in done.stderr if "the end" in ending else done.stderr == ""
    assert time.monotonic() - begin < TIMEOUT / 2


@pytest.mark.parametrize("hold", ["source.cycle = source", "del source"])
def test_a_process_ends_though_a_chunk_is_never_made(hold: str) -> None:
    done = run(f"""
    source = sh.MinibatchSource(Chunks(1, 3600), randomize=False, num_threads=1, prefetch=2)
    source.next_minibatch(4)
    assert IS_STUCK.wait({TIMEOUT})
    print("asked", flush=True)
    {hold}
    """)
    assert done.returncode == 0, done.stderr
    assert "asked" in done.stdout


def test_a_daemon_thread_in_a_call_does_not_break_the_end() -> None:
    for seconds in ("0.2", "3600"):
        done = run(f"""
        source = sh.MinibatchSource(Chunks(1, {seconds}), randomize=False, num_threads=1)
        threading.Thread(target=lambda: list(source.minibatches(4)), daemon=True).start()
        time.sleep(0.3)
        """)
        assert done.returncode == 0, done.stderr


# Where tests run in the background of a shell, programs are born deaf to it.
HEARD = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def interrupted(code: str) -> subprocess.CompletedProcess[str]:
    """Run code, and interrupt it when it is stuck in a chunk and asks for what needs it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEARD + PRELUDE + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        awaited = {"stuck\n", "asks\n"}
        while awaited:
            line = process.stdout.readline()
            assert line, "it has ended"
            awaited.discard(line)
        time.sleep(0.2)  # by now it waits, as a rule
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_blocked_call_is_interrupted_and_the_next_one_goes_on(engine: str) -> None:
    # Another thread would still be stuck in the chunk.
    lost = "assert source.next_minibatch(6)['x'].values.tolist() == list(range(12, 18))"
    done = interrupted(f"""
    chunks = Chunks(3, 3600)
    source = sh.MinibatchSource(chunks, randomize=False, {engine})
    try:
        for number in range(10):
            if number == 3:
                print("asks\\n", end="", flush=True)
            source.next_minibatch(4)
    except KeyboardInterrupt:
        chunks.seconds = 0
        print(f"interrupted at {{source.current_position}}\\n", end="", flush=True)
        {lost if engine == ENGINES[0] else ""}
    else:
        print("not interrupted")
    """)
    assert "interrupted at 12\n" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_a_source_moves_to_a_spawned_process_with_its_place(tmp_path: Path) -> None:
    script = tmp_path / "spawning.py"
    script.write_text(
        PRELUDE
        + textwrap.dedent("""
    import multiprocessing

    def take(source):
        minibatch = source.next_minibatch(5)
        return minibatch.ids, minibatch["x"].values.tolist(), source.get_checkpoint_state()

    if __name__ == "__main__":
        np.save("x.npy", np.arange(1000))
        npy = sh.MinibatchSource(sh.NpyDeserializer({"x": "x.npy"}), randomization_seed=3)
        data = sh.MinibatchSourceFromData({"x": np.arange(7)}, max_samples=100)
        sources = [rows(num_threads=2, max_sweeps=2), sh.MinibatchSource(Chunks()), npy, data]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for source in sources:
                source.next_minibatch(9)
                assert pool.apply(take, (source,)) == take(source)
        print("done")
    """)
    )
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "done\n", done.stderr


# As under a limit of processes: every further thread would get a stack that fits nowhere.
NO_THREADS = """
import ctypes
libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
libc.pthread_attr_init(attributes)
assert libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(1 << 46)) == 0
assert libc.pthread_setattr_default_np(attributes) == 0
"""


@pytest.mark.skipif(not hasattr(os, "confstr"), reason="the default of threads is glibc's")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_that_may_start_no_threads_gets_the_same_minibatches(
    engine: str, tmp_path: Path
) -> None:
    npy, ctf = tmp_path / "x.npy", tmp_path / "train.ctf"
    code = f"""
    np.save({str(npy)!r}, np.arange(1000))
    with open({str(ctf)!r}, "w") as file:
        file.writelines(f"{{n}} |x {{n}}\\n" for n in range(1000))
    made = [
        lambda: sh.ArrayDeserializer({{"x": np.arange(1000)}}),
        lambda: sh.NpyDeserializer({{"x": {str(npy)!r}}}),
        lambda: sh.CTFDeserializer({str(ctf)!r}, sh.StreamDefs(x=sh.StreamDef("x", shape=1))),
        Chunks,
    ]
    wanted = []
    for make in made:
        with sh.MinibatchSource(make(), max_sweeps=1, num_threads=0) as source:
            wanted.append([mb["x"].values.tolist() for mb in source.minibatches(100)])
    {textwrap.indent(NO_THREADS, "    ").strip()}
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        print("no threads")
    for make, values in zip(made, wanted):
        with sh.MinibatchSource(make(), max_sweeps=1, {engine}) as source:
            assert [mb["x"].values.tolist() for mb in source.minibatches(100)] == values
    source = sh.MinibatchSource(Chunks(), {engine})
    source.next_minibatch(4)
    del source
    print("done")
    """
    assert output(code) == "no threads\ndone\n"
