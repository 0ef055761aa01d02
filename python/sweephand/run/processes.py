"""Worker processes: the server that forks them, their loop, and the side that asks them.

::

    this process  ----- requests: modules, a socket, memory ----->  server
       slot 0     <---- "began" | answers ... | "ended", by the server ->  worker 0, forked
       slot 1     <--------------------------------------------------->   worker 1, forked

The server has imported what maps need, so a worker starts in milliseconds and shares that
memory: a spawned interpreter would import PyTorch again, if the module of the user does. The
main script is imported as `multiprocessing` does, as `__mp_main__`. Its own fork server is not
used: `start()` waits for ever if it was stopped; its workers outlive a program that is killed
while they work; Ctrl-C ends it while it imports; and processes of torch's loader, which are
daemons, may not start it. Here nobody waits for the server: what becomes of a worker comes by
its own socket, whose other end the server keeps.

Whoever dies takes the others along. The server leads a session of its own, so that Ctrl-C in a
terminal is for the program alone, and ends its group when the program's socket closes; the
kernel kills workers whose server has died.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from array import array
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

CLOSED = "the source is closed; make a new one"

_START = (
    "import sys; sys.path[:] = {path!r}; from sweephand.run.processes import serve; "
    "serve({fd}, {main!r})"
)
_TRIES = 3  # before it is no accident that a worker does not begin
_END_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_PLACE = Struct("qd")  # native: each is written at once, as others read them meanwhile
_HEADER = Struct("=QQ")  # number of sizes, bytes of shared memory
_ALIGNMENT = 64


class WorkerEnded(Exception):
    """A worker has ended; the reason is why its task was lost, or "": it had none."""


class Progress:
    """Number of the item that is at work, and the time since when, in memory of 16 bytes.

    Times are of the monotonic clock, which all processes share.
    """

    def __init__(self, memory: NDArray[np.uint8] | None = None) -> None:
        memory = np.zeros(_PLACE.size, np.uint8) if memory is None else memory
        self._view = memoryview(memory)  # type: ignore[arg-type]

    @classmethod
    def shared(cls, descriptor: int) -> Progress:
        """Return the progress in shared memory; its descriptor is closed."""
        os.ftruncate(descriptor, _PLACE.size)
        memory = _core.read.map_segment(descriptor, _PLACE.size)
        os.close(descriptor)
        return cls(memory)

    def begin(self, number: int) -> None:
        _PLACE.pack_into(self._view, 0, number, time.monotonic())

    def end(self) -> float:
        """Note that it is over, and return how long it took, in seconds."""
        _, since = _PLACE.unpack_from(self._view)
        now = time.monotonic()
        _PLACE.pack_into(self._view, 0, -1, now)
        return now - float(since)

    @property
    def at(self) -> tuple[int | None, float]:
        """The item and since when it is at work; None between items, since the last."""
        number, since = _PLACE.unpack_from(self._view)
        return (number if since and number >= 0 else None), since


# -- in the process that asks --
_peers: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_servers: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


class ForkServer:
    """The process that forks workers, which end with it. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._is_closed = False

    def begin(self, modules: object, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
        """Ask for a worker, which gets its socket and memory; return the server's process."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError(CLOSED)
            process, peer = self._running = self._running or self._start()
            with contextlib.suppress(OSError):  # it has died, as the worker's socket says
                send(peer, modules, descriptors)
            return process

    def end(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Kill that server, and its workers, stopped ones too; or any, and for good."""
        with self._lock:
            self._is_closed = self._is_closed or process is None
            if self._running is None or process not in (None, self._running[0]):
                return
            (process, peer), self._running = self._running, None
            peer.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)  # it has ended, or hears that it is not wanted
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for a disk
                    process.wait(_END_SECONDS)

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        own, other = socket_pair()
        with other:
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            code = _START.format(path=sys.path, fd=other.fileno(), main=main_module())
            process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        _servers.add(process)
        return process, own


def main_module() -> dict[str, Any]:
    """Return how `multiprocessing` imports the main module; {} if that is no file."""
    import multiprocessing.spawn  # which a source without processes need not load

    # A script without `if __name__ == "__main__"` would begin servers without end.
    multiprocessing.spawn._check_not_importing_main()  # type: ignore[attr-defined]
    main = sys.modules["__main__"]
    if name := getattr(getattr(main, "__spec__", None), "name", None):
        return {"init_main_from_name": name, "sys_argv": sys.argv}
    path = getattr(main, "__file__", None)
    return {"init_main_from_path": path, "sys_argv": sys.argv} if path else {}


class ProcessWorker:
    """A process, which begins when it is first needed, and again when it has ended."""

    def __init__(self, server: ForkServer, calls: dict[int, tuple[bytes, Any]]) -> None:
        self.progress = Progress()
        self._server = server
        self._parent: subprocess.Popen[bytes] | None = None  # of the process
        self._calls = calls  # by the ids of these objects
        self._peer: socket.socket | None = None
        self._process = 0  # its id, once it has begun
        self._is_killed = False
        self._failures = 0
        self._known: set[int] = set()

    def do(self, task: Any) -> Any:
        """Have a task carried out; `WorkerEnded` if the process ends instead.

        There it is ``task.call(task.argument, progress)``. A call is sent once.
        """
        number = id(task.call)
        if number not in self._calls:
            self._calls[number] = pickle.dumps(task.call), task.call
        pickled, _ = self._calls[number]
        peer = self._peer or self._begin(task.call.modules)
        is_sent = False
        with contextlib.suppress(OSError):
            send(peer, (number, None if number in self._known else pickled, task.argument))
            self._known.add(number)
            is_sent = True
        while True:
            try:
                (kind, found), _ = receive(peer)
            except (EOFError, OSError):
                assert self._parent is not None
                self._server.end(self._parent)  # it has died, or its end would be open
                kind, found = "ended", -signal.SIGKILL
            if kind == "made":
                return found
            if kind == "failed":
                raise RuntimeError(f"{task} {found}")
            if kind == "ended":
                self._drop(found, is_sent)
            self._process, self._failures = found, 0  # it began

    def kill(self) -> None:
        """End the process, or the server if it has not begun, or does not end."""
        if self._process and not self._is_killed:
            self._is_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
        elif self._parent is not None:
            self._server.end(self._parent)

    def close(self) -> None:
        """Leave the process to the end of the server; by the thread that asks it."""
        if self._peer is not None:
            self._peer.close()

    def _begin(self, modules: Sequence[str]) -> socket.socket:
        own, other = socket_pair()
        memory = os.memfd_create("sweephand-progress")
        try:
            with other:
                self._parent = self._server.begin(modules, (other.fileno(), memory))
        except BaseException:
            own.close()
            os.close(memory)
            raise
        self.progress, self._peer = Progress.shared(memory), own
        return own

    def _drop(self, code: int, has_lost: bool) -> None:
        """Forget a process that has ended, and raise why."""
        self.close()
        has_begun = self._process > 0
        self._peer, self._process, self._is_killed = None, 0, False
        self._known.clear()
        if has_begun:
            how, what = ("killed", "signal") if code < 0 else ("ended", "exit code")
            reason = f"{how} its worker process ({what} {abs(code)})"
            raise WorkerEnded(reason if has_lost else "")
        self._failures += 1
        if self._failures == _TRIES:
            assert self._parent is not None
            self._failures, code = 0, self._parent.returncode or 0
            status = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise RuntimeError(
                f"the process that begins map workers has ended ({status}), {_TRIES} times"
            )
        raise WorkerEnded


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a socket for messages; forked children close the first."""
    _hook_forks()
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _peers.add(own)
    return own, other


@cache
def _hook_forks() -> None:
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """Leave the processes to the parent of this process."""
    for peer in list(_peers):
        peer.close()
    for process in list(_servers):
        process.returncode = 0


# -- in the server --
_main: dict[str, Any] = {}  # the main module of the other side, also in workers


def serve(descriptor: int, main: dict[str, Any]) -> None:
    """Begin workers as the other side asks, until it is gone."""
    _main.update(main)
    control = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    workers: dict[int, socket.socket] = {}
    while True:
        ready = select.select([descriptor, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 1 << 12)
            _bury(workers)
        if descriptor not in ready:
            continue
        try:
            modules, (fd, memory) = receive(control)
        except (EOFError, OSError):  # it is not wanted any more
            os.killpg(0, signal.SIGKILL)
        peer = socket.socket(fileno=fd)
        for module in modules:  # once here, and not in every worker
            with contextlib.suppress(BaseException):
                _import(module)
        sys.stdout.flush()
        server, worker = os.getpid(), os.fork()
        if not worker:
            control.close()
            _begin(server, peer, memory, workers)
        os.close(memory)
        workers[worker] = peer


def _import(module: str) -> None:
    if module not in ("__main__", "__mp_main__"):
        importlib.import_module(module)
        return
    import multiprocessing.spawn

    process: Any = multiprocessing.process.current_process()
    process._inheriting = True  # so that nothing is started meanwhile
    try:
        multiprocessing.spawn.prepare(_main)
    finally:
        del process._inheriting


def _bury(workers: dict[int, socket.socket]) -> None:
    """Say how workers have ended that have."""
    for worker, peer in list(workers.items()):
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            with workers.pop(worker), contextlib.suppress(OSError):
                send(peer, ("ended", os.waitstatus_to_exitcode(status)))


# -- in a worker --
def _begin(
    server: int, peer: socket.socket, memory: int, others: dict[int, socket.socket]
) -> None:
    """Work, and end this process."""
    try:
        for other in others.values():
            other.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server:
            np.random.seed()  # noqa: NPY002  # it is the one that functions share
            _work(peer, Progress.shared(memory))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        os._exit(0)


def _work(peer: socket.socket, progress: Progress) -> None:
    """Carry out tasks until the other side is gone."""
    process = os.getpid()
    known: dict[int, Any] = {}
    answer: Any = "began", process
    while True:
        try:
            send(peer, answer)
            answer = None
            (number, function, argument), _ = receive(peer)
        except (EOFError, OSError):
            return
        try:
            if function is not None:
                if b"_main__" in function:  # if the server has not, or could not
                    _import("__main__")
                known[number] = pickle.loads(function)
        except BaseException as error:
            what = f"{type(error).__name__}: {error}"
            answer = "failed", f"cannot be loaded in a worker process: {what}"
            continue
        try:
            answer = "made", known[number](argument, progress)
        except BaseException as error:
            answer = "failed", "".join(traceback.format_exception(error))
        del argument
        if os.getpid() != process:  # a child that the function forgot to end
            os._exit(0)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()


# -- messages --
def send(peer: socket.socket, value: object, descriptors: Sequence[int] = ()) -> None:
    """Send an object, and descriptors of which the receiver gets its own.

    It is in shared memory, whose descriptor goes through the socket::

        sizes       of the pickle, and of every array, in bytes
        pickle      of the object, without its arrays
        arrays      each from a multiple of 64 bytes on

    The memory belongs to the receiver, whose arrays are in the mapping, which ends with the
    last of them. So messages always fit into a socket, and nobody waits to send.
    """
    views: list[memoryview] = []
    text = pickle.dumps(value, 5, buffer_callback=lambda one: views.append(one.raw()))
    sizes = array("Q", [len(text), *(view.nbytes for view in views)])
    parts: list[Any] = []
    for one in (sizes.tobytes(), text, *views):
        parts += [one, bytes(-len(one) % _ALIGNMENT)]
    segment = os.memfd_create("sweephand")
    try:
        try:
            with open(segment, "wb", closefd=False) as file:
                file.writelines(parts)
        except OSError as error:
            told = f"no shared memory for what maps take and make: {error}"
            raise MemoryError(told) from error
        header = _HEADER.pack(len(sizes), sum(map(len, parts)))
        socket.send_fds(peer, [header], [segment, *descriptors])
    finally:
        os.close(segment)


def receive(peer: socket.socket) -> tuple[Any, list[int]]:
    """Return the next object, and the descriptors that come with it; EOFError at the end."""
    try:
        message, descriptors, *_ = socket.recv_fds(peer, _HEADER.size, 4)
    except ConnectionResetError:  # told once, of messages that the other side has not read
        message, descriptors, *_ = socket.recv_fds(peer, _HEADER.size, 4)
    if not message:
        raise EOFError
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    num_sizes, size = _HEADER.unpack(message)
    segment = descriptors.pop(0)
    try:
        body = memoryview(_core.read.map_segment(segment, size))  # type: ignore[arg-type]
    finally:
        os.close(segment)
    views, at = [], 8 * num_sizes
    for one in body[:at].cast("Q"):
        at += -at % _ALIGNMENT
        views.append(body[at : at + one])
        at += one
    return pickle.loads(views[0], buffers=views[1:]), descriptors
