"""Contenders that take turns, each in a process of its own, on a quiet machine and a busy one.

A row of benchmarks/RESULTS.md is a class whose contenders are generators. What one does before
its first ``yield`` is made ready, the first step warms up, and every later one is measured: it
yields how many samples, bytes or calls it was, or a `Turn` that it clocked by itself. Where a
row is `fresh`, every turn is the first step of a new process, and nothing is warm.

What asv calls ``setup_cache`` lets the contenders of a row take turns; its ``track_`` methods
only tell what was found.

    SWEEPHAND_BENCHMARK_MACHINE=quiet     or busy: only one of both
    SWEEPHAND_BENCHMARK_SECONDS=2         what a row may take on either; 4 by default
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from math import nan
from pathlib import Path
from statistics import median, quantiles
from typing import ClassVar

from .turn import Steps, Turn

MACHINES = ["quiet", "busy"]  # busy: two processes burn a core each meanwhile
Found = dict[tuple[str, str], list[Turn]]


class Row(ABC):
    """Contenders for the same work."""

    contenders: ClassVar[dict[str, Callable[[], Steps]]]
    unit: ClassVar[str]  # "…/s", or that of the time of one
    per: ClassVar[float] = 1.0  # what the unit is in samples, or in seconds
    fresh: ClassVar[bool] = False
    params: ClassVar[tuple[list[str], list[str]]]
    param_names = ("machine", "contender")
    timeout = 900

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "contenders"):
            cls.params = (MACHINES, list(cls.contenders))

    @abstractmethod
    def setup_cache(self) -> Found:
        """Return `compete()`: asv tells caches apart by the lines that they are written on."""

    def write_data(self) -> None:  # noqa: B027  # most need none
        """Write the files that contenders read into the working directory."""

    def compete(self) -> Found:
        """Let all take turns, for so many seconds and three turns at least.

        The first finds fresh files, and counts no more than the others.
        """
        self.write_data()
        found: Found = {}
        seconds = float(os.environ.get("SWEEPHAND_BENCHMARK_SECONDS", "4"))
        only = os.environ.get("SWEEPHAND_BENCHMARK_MACHINE")
        with ExitStack() as stack:
            others = stack.enter_context(Others(2))
            ready = {name: stack.enter_context(Process(self, name)) for name in self.contenders}
            if not self.fresh:
                for process in ready.values():
                    process.prepare()
            for machine in [only] if only else MACHINES:
                until = time.monotonic() + seconds
                turns_left = 3
                while turns_left > 0 or time.monotonic() < until:
                    turns_left -= 1
                    for name, process in ready.items():
                        process.prepare()
                        with others.burning(machine == "busy"):
                            turn = process.take_turn(seconds / 30)
                        found.setdefault((machine, name), []).extend(turn)
        return found

    def track_wall(self, found: Found, machine: str, contender: str) -> float:
        return median(self._figures(found, machine, contender, "wall"))

    def track_processor(self, found: Found, machine: str, contender: str) -> float:
        return median(self._figures(found, machine, contender, "processor"))

    def track_spread(self, found: Found, machine: str, contender: str) -> float:
        """Half of what lies between the quartiles of the wall's, as a part of the median."""
        figures = self._figures(found, machine, contender, "wall")
        low, middle, high = quantiles([*figures, *figures], n=4, method="inclusive")
        return (high - low) / 2 / middle if middle else nan

    def _figures(self, found: Found, machine: str, contender: str, clock: str) -> list[float]:
        turns = found.get((machine, contender))
        if not turns:
            return [nan]  # not installed, or that machine was not asked for
        per_one = [getattr(turn, clock) / turn.count for turn in turns]
        if self.unit.endswith("/s"):
            return [1 / one / self.per for one in per_one]
        return [one / self.per for one in per_one]


def peer(name: str) -> Callable[[], Steps]:
    """Return a contender of `benchmarks.peers` that is imported when it is called."""
    module, _, function = name.partition(".")

    def contender() -> Steps:
        steps: Steps = getattr(import_module(f"benchmarks.peers.{module}"), function)()
        return steps

    return contender


class MemoryRow(Row):
    """A row whose memory counts too."""

    def track_grown(self, found: Found, machine: str, contender: str) -> float:
        """By how many bytes the process grew at most."""
        return median([turn.grown for turn in found.get((machine, contender), [])] or [nan])


class Process:
    """The process of a contender; of a fresh row one for every turn."""

    def __init__(self, row: Row, name: str) -> None:
        module = type(row).__module__.rpartition(".")[2]
        self._command = [sys.executable, "-m", "benchmarks.suite.contender", module]
        self._command += [type(row).__name__, name]
        above = str(Path(__file__).parents[2])
        path = os.pathsep.join([above, *filter(None, sys.path)])
        # Modules are compiled once, as those of an installed package are.
        compiled = str(Path(tempfile.gettempdir()) / f"sweephand-compiled-{os.getuid()}")
        self._environment = os.environ | {
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": compiled,
        }
        self._fresh = row.fresh
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Start it, if it is not there, and wait until it is ready."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._read()

    def take_turn(self, seconds: float) -> list[Turn]:
        """Return one turn, or none if what it needs is not installed."""
        assert self._process is not None
        assert self._process.stdin is not None
        print(0 if self._fresh else seconds, file=self._process.stdin, flush=True)
        turn = json.loads(self._read())
        if self._fresh:
            self._close()
        return [Turn(*turn)] if turn else []

    def _read(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._command[3:])} failed")
        return line

    def _close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class Others:
    """Processes that burn a core each, but only when asked to."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> Others:
        command = [sys.executable, "-c", "while True: pass"]
        self._processes = [subprocess.Popen(command) for _ in range(self._count)]
        self._send(signal.SIGSTOP)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    @contextmanager
    def burning(self, are_asked: bool) -> Iterator[None]:
        if are_asked:
            self._send(signal.SIGCONT)
        try:
            yield
        finally:
            self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(number)
