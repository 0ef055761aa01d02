"""Worker processes give what threads give, whatever becomes of them, and leave nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.maps import functions
from tests.maps.test_values import X, all_of, corpus, delivered

import sweephand as sh

BAD = [f"array__{n}" for n, x in enumerate(X) if 80 in x]
PROCESSES: Any = {"num_map_workers": 2, "map_executor": "processes"}


def children() -> set[int]:
    """The processes that this one began, and those that they began."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        found.update(map(int, path.read_text().split()))
    for child in list(found):
        with suppress(FileNotFoundError):
            text = Path(f"/proc/{child}/task/{child}/children").read_text()
            found.update(map(int, text.split()))
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    before, held = children(), descriptors()
    yield
    deadline = time.monotonic() + 60
    while children() - before or descriptors() > held:
        assert time.monotonic() < deadline, (children() - before, descriptors(), held)
        gc.collect()
        time.sleep(0.01)
    shared = Path("/dev/shm")
    assert not [path for path in shared.glob("*") if "sweephand" in path.name]


CHAINS = {
    "batched": lambda: corpus().map(functions.stamp_batch, random=True, batched=True),
    "told sizes": lambda: corpus().map(functions.crop, random=True, size=functions.crop_size),
    "several": lambda: corpus().filter(functions.is_odd).map(functions.halves, size="measured"),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_values_are_those_of_threads(chain: str) -> None:
    mapped = CHAINS[chain]()
    found = all_of(mapped, **PROCESSES)
    assert found == all_of(mapped, 333, num_map_workers=3)
    assert found == all_of(mapped, 17, num_map_workers=0)


def workers_of(source: sh.MinibatchSource) -> list[int]:
    """The processes that have begun: of one that has not the number is 0, as of this group."""
    return [process._process for process in processes_of(source) if process._process]


def test_a_worker_that_is_killed_at_any_moment_changes_no_value() -> None:
    mapped = corpus().map(functions.stamp, random=True)
    rng = np.random.default_rng()
    found, killed = [], 0
    with sh.MinibatchSource(mapped, max_sweeps=30, randomization_seed=9, **PROCESSES) as source:
        for number, minibatch in enumerate(source.minibatches(100)):
            found += delivered([minibatch])
            if number % 12 == 5:
                time.sleep(rng.uniform(0, 0.01))
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(workers_of(source)), signal.SIGKILL)
                    killed += 1
        assert not source.errors
    assert killed > 5
    assert found == all_of(mapped, sweeps=30)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (functions.die_at_80, r"killed its worker process \(signal 9\)"),
        (functions.exit_at_80, r"ended its worker process \(exit code 3\)"),
        (functions.ask_to_exit_at_80, "raised SystemExit: enough"),
        (functions.die_in_a_batch, r"killed its worker process \(signal 9\)"),
    ],
)
def test_what_ends_its_process_is_damage(function: Any, told: str) -> None:
    mapped = corpus().map(function, name="deadly", batched="batch" in function.__name__)
    options = {**PROCESSES, "num_map_workers": 1}
    with sh.MinibatchSource(mapped, max_errors=len(BAD), max_sweeps=1, **options) as source:
        found = [name for minibatch in source.minibatches(300) for name in minibatch.ids]
        assert {str(error.sequence) for error in source.errors} == set(BAD)
        for error in source.errors:
            assert error.reason.startswith("map 'deadly' ")
    with sh.MinibatchSource(mapped, **PROCESSES) as source, pytest.raises(
        sh.DataError, match=f"map 'deadly' {told}"
    ):  # fmt: skip
        for _ in source.minibatches(300):
            pass
    plain = [name for name, _ in all_of(corpus(), sweeps=1) if name not in BAD]
    assert sorted(found) == sorted(plain)


@pytest.mark.parametrize("size", ["same", "measured"])
def test_a_first_sequence_that_ends_its_process_is_an_error(size: Any) -> None:
    mapped = corpus().map(functions.die, size=size)
    told = r"map 'die' killed its worker process \(signal 9\)"
    with pytest.raises(sh.DataError, match=told) as caught:
        sh.MinibatchSource(mapped, **PROCESSES)
    assert caught.value.sequence == "array__0"
    with pytest.raises(sh.DataError, match=told):  # when the budget is spent
        sh.MinibatchSource(mapped, max_errors=2, **PROCESSES)


def test_a_time_limit_needs_workers() -> None:
    with pytest.raises(ValueError, match="map_timeout must be above 0"):
        sh.MinibatchSource(corpus(), map_timeout=0)
    with pytest.raises(ValueError, match="map_timeout needs num_map_workers of at least 1"):
        sh.MinibatchSource(corpus(), map_timeout=5, num_map_workers=0)


def test_an_exception_brings_its_traceback() -> None:
    mapped = corpus().map(functions.fails_at_47)
    with sh.MinibatchSource(mapped, **PROCESSES) as source, pytest.raises(
        sh.DataError, match="map 'fails_at_47' raised RuntimeError: 47 is not wanted"
    ) as raised:  # fmt: skip
        for _ in source.minibatches(300):
            pass
    assert "in fails_at_47" in raised.value.__notes__[0]


def test_what_does_not_pickle_is_told_when_the_source_is_made() -> None:
    for mapped, name in [
        (corpus().map(lambda sequence: sequence, name="short"), "map 'short'"),
        (corpus().filter(lambda sequence: True, name="all"), "filter 'all'"),
    ]:
        with pytest.raises(TypeError, match=f"{name} does not pickle.* by def at the top of"):
            sh.MinibatchSource(mapped, **PROCESSES)
        sh.MinibatchSource(mapped, num_map_workers=0, map_executor="processes").close()


def test_a_function_that_wanders_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    found = all_of(corpus().map(functions.wander, name="negate"), 500, 1, **PROCESSES)
    assert found == [
        (name, {"x": one["x"]})
        for name, one in all_of(corpus().map(functions.negate), 500, 1, num_map_workers=0)
    ]
    assert Path.cwd() == here
    assert "noise" in capfd.readouterr().out


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_map_that_hangs_is_given_up(executor: Any) -> None:
    function = functions.sleep_at_80 if executor == "processes" else Waiting()
    first = sh.ArrayDeserializer({"x": [np.array([80])]}).map(function, name="slow")
    limits: Any = {"num_map_workers": 2, "map_executor": executor, "map_timeout": 0.2}
    with pytest.raises(sh.DataError, match=r"map 'slow' did not return within 0\.2 s"):
        sh.MinibatchSource(first, **limits)
    mapped = corpus().map(function, name="slow")
    options: Any = {"max_errors": len(BAD), "max_sweeps": 1, "randomization_seed": 9}
    workers: Any = {"num_map_workers": 4, "map_executor": executor, "map_timeout": 1.5}
    with sh.MinibatchSource(mapped, **options, **workers) as source:
        found = [name for minibatch in source.minibatches(300) for name in minibatch.ids]
        assert {str(error.sequence) for error in source.errors} == set(BAD)
        told = "map 'slow' did not return within 1.5 s"
        assert {error.reason for error in source.errors} == {told}
    if isinstance(function, Waiting):
        function.let_go.set()
    assert found == [name for name, _ in all_of(corpus(), sweeps=1) if name not in BAD]


class Waiting:
    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, sequence: dict[str, Any]) -> dict[str, Any]:
        if 80 in sequence["x"]:
            self.let_go.wait()
        return sequence


def test_closing_ends_a_map_that_hangs() -> None:
    def ask() -> None:
        with pytest.raises(RuntimeError, match="the source is closed"):
            list(source.minibatches(300))

    source = sh.MinibatchSource(corpus().map(functions.sleep_at_80), **PROCESSES)
    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 60
    while not any(process.progress.at[0] is not None for process in processes_of(source)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert source.close_within(60)  # it would return in an hour
    asking.join()


def processes_of(source: sh.MinibatchSource) -> list[Any]:
    pools: Any = source.timeline.opened.workers._pools
    return [slot.worker for pool in pools.values() for slot in pool._slots]


def test_a_source_that_nobody_has_any_more_leaves_nothing() -> None:
    source = sh.MinibatchSource(corpus().map(functions.negate), **PROCESSES)
    source.next_minibatch(100)
    assert children()
    del source


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(code)
    return subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}:{folder}"},
    )


PROGRAM = """
import os, signal, numpy as np, sweephand as sh
from tests.maps.functions import negate
def main():
    corpus = sh.ArrayDeserializer({"x": np.arange(100)}).map(negate)
    source = sh.MinibatchSource(corpus, num_map_workers=2, map_executor="processes")
    print(source.next_minibatch(10)["x"].values.sum(), flush=True)
    return source
if __name__ == "__main__":
    source = main()
"""


def test_a_program_may_end_without_closing_or_by_a_kill(tmp_path: Path) -> None:
    for end in ("", "    os.kill(os.getpid(), signal.SIGKILL)\n"):
        found = run(PROGRAM + end, tmp_path)
        assert found.stdout
        assert found.stderr == ""  # and the pipe was closed by all who had it


def test_a_function_of_a_main_script_runs_if_the_script_may_be_imported(tmp_path: Path) -> None:
    own = "def negate(sequence): return {'x': -sequence['x'] - len(sys.argv)}"
    program = PROGRAM.replace("from tests.maps.functions import negate", f"import sys\n{own}")
    found = run(program, tmp_path)
    assert (int(found.stdout) < -10, found.stderr) == (True, "")
    found = run(program.replace('"__main__"', "__name__"), tmp_path)
    assert "if __name__ == '__main__'" in found.stderr  # the advice of multiprocessing


def test_a_forked_process_has_workers_of_its_own() -> None:
    mapped = corpus().map(functions.negate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        with sh.MinibatchSource(mapped, **PROCESSES) as source:
            first = source.next_minibatch(100)["x"].values
            source.current_position = 0
            child = os.fork()
            if not child:
                code = 1
                with suppress(BaseException):
                    same = (source.next_minibatch(100)["x"].values == first).all()
                    source.close()
                    code = 0 if same else 2
                os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert (source.next_minibatch(100)["x"].values == first).all()
