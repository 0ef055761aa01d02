"""Workers of maps: where calls run, by one rule, and the context that corpora are opened in."""

from __future__ import annotations

import math
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sweephand.corpus.calls import CallLock
from sweephand.corpus.ledger import Ledger
from sweephand.run.processes import (
    CLOSED,
    ForkServer,
    ProcessWorker,
    Progress,
    main_module,
)

if TYPE_CHECKING:
    from sweephand.run.pool import Pool, Worker


Kind = Literal["threads", "processes"]
Way = Literal["caller", "threads", "processes"]

_WATCHED = 0.02  # seconds of calls that are watched, to know them
_LEAST_WATCHED = 1e-3  # seconds of a task that can be
_HELD = 0.6  # of calls, from which on they are said to hold the lock
_QUICK = 5e-5  # seconds of a call, up to which threads cost more than they gain
_WORTH = 1.0  # seconds of calls, from which on processes are worth their start
_GUESS = 1e-3  # seconds a sequence, before any was mapped
# The least seconds of a task that is worth sending to an idle worker, and to a busy worker, and
# the most tasks for each worker.
_TASKS = {"threads": (2e-4, 2e-4, 4), "processes": (5e-3, 2e-2, 2)}


@dataclass
class CallTimes:
    """How long the calls of a map take, and for how much of it they hold Python's lock.

    Several threads may note it: what one of them misses makes an estimate worse.
    """

    calls: int = 0
    seconds: float = 0.0
    watched: float = 0.0  # seconds of looks during calls
    locked: float = 0.0  # of those, another thread had to wait for the lock
    is_found: bool | None = None  # whether processes find the function in a module

    def of_calls(self, number: int) -> float:
        """Return how long so many calls may take."""
        return number * (self.seconds / self.calls if self.calls else _GUESS)

    def way(self, workers: MapWorkers, task: Any) -> Way:
        """Return who carries out a task: the rule.

        What was asked for is taken. Else calls that hold Python's lock gain nothing in threads:
        once they have taken as long as processes need to start, those go on, if they find the
        function in a module to import. (The main module is none: it may not be meant to run
        again.) What holds the lock and is not found, and what is too quick, is mapped by the
        thread that wants it, unless it must be possible to give that up; the rest by threads.
        """
        if workers.num_workers == 0:
            return "caller"
        if workers.kind == "processes":
            return "processes"
        holds_lock = self.locked > _HELD * self.watched
        if workers.kind is None and holds_lock and self.seconds > _WORTH:
            if self.is_found is None:
                reason = _why_not_found(task.call, takes_main=False)
                self.is_found = hasattr(os, "memfd_create") and not reason
            if self.is_found:
                return "processes"
        cost = self.of_calls(len(task))
        is_quick = holds_lock or self.of_calls(1) < _QUICK or cost < _TASKS["threads"][0]
        may_stay = workers.num_workers > 1 and workers.limit is None
        return "caller" if is_quick and may_stay else "threads"


@contextmanager
def watch(pace: CallTimes) -> Iterator[None]:
    """Measure for how long a thread that wakes up waits for Python's lock, during calls.

    Meanwhile nobody has to give up the lock, for a tenth of a second: a call that did so, and
    waits for a processor, would look like one that does not hold it.
    """
    begin, is_over = math.inf, threading.Event()

    def look() -> None:
        """Sleep, and see how much later than it should be the next line runs."""
        pause, slack, is_last = 5e-4, 1.5e-4, False
        before, without = time.monotonic(), _seconds_without_processor()
        while not is_last:
            time.sleep(pause)
            is_last = is_over.is_set()
            now, later = time.monotonic(), _seconds_without_processor()
            there = now - (later - without)  # a busy machine is not the lock
            pace.watched += max(0.0, there - max(before, begin))
            pace.locked += max(0.0, there - max(before + pause + slack, begin))
            before, without = now, later

    looking = threading.Thread(target=look, name="sweephand-watch", daemon=True)
    looking.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.1)
    begin = time.monotonic()
    try:
        yield
    finally:
        is_over.set()
        looking.join()
        sys.setswitchinterval(interval)


_watching = threading.Lock()  # one at a time, as the interval is that of all


def _seconds_without_processor() -> float:
    """Return for how long this thread could run but had no processor; 0: not known."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    except OSError:
        return 0.0


class MapWorkers:
    """Workers that carry out tasks; no result depends on them.

    They start with the first task, so that a process that was forked before has its own. With
    `num_workers` of 0 the caller does the work; with `kind` None who does it is decided by
    `CallTimes.way`; a map that was called for a sequence is given up after `limit` seconds. The
    `call_lock` names the running calls of the functions of the user.
    """

    def __init__(
        self, num_workers: int, kind: Kind | None = None, limit: float | None = None
    ) -> None:
        self.num_workers = num_workers
        self.kind = kind
        self.limit = limit
        self.call_lock = CallLock(several=True)
        self._paces: dict[object, CallTimes] = {}
        self._mapped: dict[Way, int] = dict.fromkeys(("caller", "threads", "processes"), 0)
        self._pools: dict[Kind, Pool] = {}
        self._process = 0  # that the pools are of
        self._is_closed = self._has_maps = False
        self._starting = threading.Lock()

    def check(self, wanted: object) -> None:
        """Refuse a map that processes are to call and do not find: TypeError."""
        self._has_maps = True
        is_asked = self.kind == "processes" and self.num_workers > 0
        if is_asked and (reason := _why_not_found(wanted)):
            raise TypeError(
                f"{wanted} {reason}; define it by def at the top of a module that can be "
                "imported, or write map_executor='threads'"
            )

    def run(self, task: Any) -> list[Any]:
        """Map sequences; the parts come in their order."""
        pace = self._paces.setdefault((task.call.look, task.call.map.fingerprint), CallTimes())
        made = self._watched(task, pace)
        done = sum(one.calls for one in made)
        if made and done == len(task):
            return made
        rest = task.part(done, len(task))
        way = pace.way(self, rest)
        if way == "caller":
            found: list[Any] = [_carry_out(self.call_lock, rest)]
        else:
            least, enough, most = _TASKS[way]
            cost = pace.of_calls(len(rest))
            for_all = min(self.num_workers, int(cost / least))
            count = max(for_all, min(most * self.num_workers, int(cost / enough)))
            count = max(1, min(count, len(rest)))
            ends = [len(rest) * number // count for number in range(count + 1)]
            found = self._pool(way).run([rest.part(*one) for one in pairwise(ends)])
        self._note(pace, way, found)
        return made + found

    def _note(self, pace: CallTimes, way: Way, made: list[Any]) -> None:
        for one in made:
            pace.calls += one.calls
            pace.seconds += one.seconds
            self._mapped[way] += one.calls

    def _watched(self, task: Any, pace: CallTimes) -> list[Any]:
        """Map the first sequences here, and look, until enough is known."""
        made: list[Any] = []
        is_asked = self.kind is not None or self.num_workers == 0 or self.limit is not None
        if is_asked or pace.watched >= _WATCHED or not _watching.acquire(blocking=False):
            return made
        try:
            done = 0
            while done < len(task) and pace.watched < _WATCHED and pace.seconds < _WORTH:
                count = 1 + int(_WATCHED / pace.of_calls(1)) if pace.calls else 1
                end = min(len(task), done + count)
                if pace.calls and pace.of_calls(end - done) < _LEAST_WATCHED:
                    break
                with watch(pace):
                    found = _carry_out(self.call_lock, task.part(done, end))
                made.append(found)
                self._note(pace, "caller", [found])
                done = end
        finally:
            _watching.release()
        return made

    def run_first(self, task: Any) -> Any:
        """Map the first sequences: by a worker if that can be given up, else here."""
        if self.num_workers and (self.kind == "processes" or self.limit is not None):
            return self._pool(self.kind or "threads").run([task])[0]
        return _carry_out(self.call_lock, task)

    def stats(self) -> dict[str, float]:
        """Return who mapped how many sequences, and why: see `stats` of a source."""
        if not self._has_maps:
            return {}
        paces = list(self._paces.values())

        def total(name: str) -> float:
            return float(sum(getattr(one, name) for one in paces))

        return {
            **{f"mapped_by_{way}": number for way, number in self._mapped.items()},
            "map_seconds": total("seconds") / max(1, total("calls")),
            "map_locked": total("locked") / (total("watched") or 1.0),
        }

    def close(self) -> None:
        """End the workers: threads after their running tasks, processes at once."""
        with self._starting:
            self._is_closed = True
            _end(self._process, self._pools)

    def has_ended(self, seconds: float) -> bool:
        """Wait up to `seconds` for closed workers, and return True if they have ended."""
        until = time.monotonic() + seconds
        return self._process != os.getpid() or all(
            pool.has_ended(max(0.0, until - time.monotonic())) for pool in self._pools.values()
        )

    def _pool(self, kind: Kind) -> Pool:
        from sweephand.run.pool import Pool, ThreadWorker

        with self._starting:
            if self._is_closed:
                raise RuntimeError(CLOSED)
            if self._process != os.getpid():
                self._process, self._pools = os.getpid(), {}
                # Pools that were not closed end with the last reference to these workers.
                weakref.finalize(self, _end, self._process, self._pools)
            if kind not in self._pools:
                server = ForkServer()  # which begins nothing if none asks
                make: Callable[[], Worker] = partial(ProcessWorker, server, {})
                if kind == "threads":
                    make = partial(ThreadWorker, partial(_carry_out, self.call_lock))
                self._pools[kind] = Pool(self.num_workers, make, self.limit, server.end)
            return self._pools[kind]


def _end(process: int, pools: dict[Kind, Pool]) -> None:
    if process == os.getpid():  # and not one that was forked from it
        for pool in pools.values():
            pool.close()


def _why_not_found(wanted: object, *, takes_main: bool = True) -> str:
    """Return the reason why worker processes could not find a map, or ""."""
    try:
        found = pickle.dumps(wanted)
    except Exception as error:
        return f"does not pickle, and processes must find it ({error})"
    if b"_main__" in found and not (takes_main and main_module()):
        return "is of a main module that is no file"
    return ""


class _RunningTask:
    """Name of a task that is carried out, by the sequence that is mapped."""

    def __init__(self, task: Any, progress: Progress) -> None:
        self._task = task
        self._progress = progress

    def __str__(self) -> str:
        return f"{self._task}, at sequence {self._task.ids[self._progress.at[0] or 0]!r}"


def _carry_out(call_lock: CallLock, task: Any, progress: Progress | None = None) -> Any:
    if progress is None:
        progress = Progress()
    with call_lock.hold(_RunningTask(task, progress)):
        return task.do(progress)


@dataclass(frozen=True)
class OpenContext:
    """Context of a source that opens a corpus."""

    ledger: Ledger  # where damaged items are counted
    seed: int = 0  # of the source: what keys are derived from
    # what maps run on; without workers the thread that wants the sequences
    workers: MapWorkers = field(default_factory=lambda: MapWorkers(0))
    # nominal times, ascending, from which on a map of a name has another version
    map_versions: tuple[tuple[int, str, int], ...] = ()
    # what becomes of sequences that are not in all deserializers of a join, as those of a
    # mixture's corpora are
    missing: Literal["error", "drop"] = "error"
    memory_limit: int | None = None  # in bytes, of what is decoded
