"""What was stopped or killed beside the maps is replaced, and changes no value."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.maps import functions
from tests.maps.test_processes import (
    nothing_is_left,  # noqa: F401
    processes_of,
    workers_of,
)
from tests.maps.test_values import all_of, corpus, delivered

import sweephand as sh
from sweephand.run import pool, processes

# Nothing is done ahead: between two minibatches no worker is at anything.
PROCESSES: Any = {"num_map_workers": 2, "map_executor": "processes", "num_threads": 0}
OPTIONS: Any = {"max_sweeps": 3, "randomization_seed": 9}


def server_of(source: sh.MinibatchSource) -> int:
    (process,) = {worker._parent.pid for worker in processes_of(source) if worker._parent}
    return int(process)


def stop(process: int) -> None:
    """Stop a process, and return when it is."""
    os.kill(process, signal.SIGSTOP)
    while " T " not in Path(f"/proc/{process}/stat").read_text():
        pass


@pytest.fixture(autouse=True)
def patience_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_SILENT_SECONDS", 1.0)


@pytest.mark.parametrize("whom", ["workers", "server", "all"])
def test_what_is_stopped_between_tasks_is_replaced(whom: str) -> None:
    mapped = corpus().map(functions.stamp, random=True)
    limits: Any = {"map_timeout": 1.0}
    found = []
    with sh.MinibatchSource(mapped, **OPTIONS, **PROCESSES, **limits) as source:
        for number, minibatch in enumerate(source.minibatches(100)):
            found += delivered([minibatch])
            if number != 4:
                continue
            stopped = [] if whom == "workers" else [server_of(source)]
            if whom == "server":  # it is asked for nothing as long as its workers are there
                for worker in workers_of(source):
                    os.kill(worker, signal.SIGKILL)
            else:
                stopped += workers_of(source)
            for process in stopped:
                stop(process)
        assert not source.errors
    assert found == all_of(mapped)


def test_a_worker_that_hangs_beside_its_maps_is_replaced(tmp_path: Path) -> None:
    mapped = corpus().map(functions.LoadedOnce(tmp_path / "loaded"), name="negate")
    found = all_of(mapped, map_timeout=2.0, **PROCESSES)
    assert found == all_of(corpus().map(functions.negate))
    assert (tmp_path / "loaded").exists()


def test_what_hangs_again_and_again_is_an_error_that_names_it() -> None:
    mapped = corpus().map(functions.LoadedOnce(), name="never")
    told = r"map 'never' has a worker process that did not answer for \d\.\d s"
    with pytest.raises(sh.DataError, match=told):
        all_of(mapped, map_timeout=0.2, **PROCESSES)


@pytest.mark.parametrize(("deaths", "deadly"), [(2, signal.SIGKILL), (1, signal.SIGSTOP)])
def test_a_server_that_is_killed_or_stopped_while_it_starts_is_replaced(
    deadly: signal.Signals, deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_badly(monkeypatch, tmp_path, deaths, deadly)
    mapped = corpus().map(functions.negate)
    assert all_of(mapped, map_timeout=2.0, **PROCESSES) == all_of(mapped)
    assert len(list(tmp_path.iterdir())) == deaths


def begin_badly(
    monkeypatch: pytest.MonkeyPatch, folder: Path, times: int, deadly: signal.Signals
) -> None:
    """Have the next servers be killed, or stopped, before they have done anything."""
    code = (
        "import os\n"
        f"began = len(os.listdir({str(folder)!r}))\n"
        f"if began < {times}:\n"
        f"    open(os.path.join({str(folder)!r}, str(began)), 'w').close()\n"
        f"    os.kill(os.getpid(), {int(deadly)})\n"
    )
    monkeypatch.setattr(processes, "_START", code + processes._START)


def test_a_server_that_never_starts_is_an_error_and_the_source_stays_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on() -> None:
        for minibatch in source.minibatches(100):
            found.extend(delivered([minibatch]))

    mapped = corpus().map(functions.negate)
    with sh.MinibatchSource(mapped, **OPTIONS, **PROCESSES) as source:
        found = delivered([source.next_minibatch(100)])
        os.kill(server_of(source), signal.SIGKILL)
        begin_badly(monkeypatch, tmp_path, 3, signal.SIGKILL)
        told = r"the process that begins map workers has ended \(signal 9\), 3 times"
        with pytest.raises(RuntimeError, match=told):
            go_on()
        go_on()
    assert found == all_of(mapped)


def test_closing_waits_for_no_stopped_process() -> None:
    def ask() -> None:
        with pytest.raises(RuntimeError, match="the source is closed"):
            list(source.minibatches(100))

    source = sh.MinibatchSource(corpus().map(functions.negate), **PROCESSES)
    source.next_minibatch(100)
    stop(server_of(source))
    for worker in workers_of(source):
        os.kill(worker, signal.SIGKILL)
    asking = threading.Thread(target=ask)
    asking.start()
    waiting: Any = source.timeline.opened.workers._pools["processes"]
    while not any(slot.piece for slot in waiting._slots):
        pass
    assert source.close_within(10)
    asking.join()
