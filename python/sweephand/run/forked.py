"""The fork server and its workers, as they run in processes of their own.

The server has imported the modules that workers need, and forks them. It leads a session of its
own, so that Ctrl-C in a terminal is for the program alone. When that ends, however it ends, the
server sees it and ends the workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sweephand.run.message import receive, send
from sweephand.run.progress import Progress

_GRACE = 0.5  # seconds in which workers may end by themselves
_LAST_GRACE = 5.0  # and one that has closed its side, and may be held up on its way out
_PR_SET_PDEATHSIG = 1

prepares_main = False
"""Whether this process runs the main module again, so that functions are found in it."""


def main(descriptor: int) -> None:
    """Begin workers as the other side asks, until it is gone.

    It sends how to prepare, and takes None or what is wrong with that; then each request is
    ``("begin", modules)``, which the worker will need, with its descriptors, answered by its
    process id, or ``("end", id)`` or ``("kill", id)``, answered by how it ended, as by
    ``Popen.returncode``.
    """
    peer = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    workers: set[int] = set()
    try:
        preparation, _ = receive(peer)
        wrong = _prepare(preparation)
        send(peer, wrong)
        while wrong is None:
            (action, asked), descriptors = receive(peer)
            if action == "begin":
                for module in asked:  # once here, and not in every worker
                    with contextlib.suppress(BaseException):
                        importlib.import_module(module)
                worker = _begin(peer, *descriptors)
                workers.add(worker)
                send(peer, worker)
            else:
                code = -signal.SIGKILL  # of a server that was here before
                if asked in workers:
                    workers.discard(asked)
                    patience = 0.0 if action == "kill" else _LAST_GRACE
                    code = _end(asked, time.monotonic() + patience)
                send(peer, code)
    except (EOFError, OSError):  # it is not wanted any more
        until = time.monotonic() + _GRACE
        for worker in workers:
            _end(worker, until)


def _prepare(preparation: dict[str, Any] | None) -> str | None:
    """Run the main module again, if it is needed; return the error if it fails."""
    global prepares_main
    if preparation is None:
        return None
    from multiprocessing import process, spawn

    prepares_main = True
    process.current_process()._inheriting = True  # type: ignore[attr-defined]
    try:
        spawn.prepare(preparation)
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    finally:
        prepares_main = False
        del process.current_process()._inheriting  # type: ignore[attr-defined]
    return None


def _begin(peer: socket.socket, descriptor: int, memory: int) -> int:
    server = os.getpid()
    sys.stdout.flush()
    worker = os.fork()
    if worker:
        os.close(descriptor)
        os.close(memory)
        return worker
    try:
        peer.close()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server:
            np.random.seed()  # noqa: NPY002  # it is the one that functions share
            progress = Progress.shared(memory)
            os.close(memory)
            work(socket.socket(fileno=descriptor), progress)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        os._exit(0)


def _end(worker: int, until: float) -> int:
    """End a worker if it has not ended by then, and return its exit code."""
    while True:
        is_late = time.monotonic() >= until
        if is_late:
            os.kill(worker, signal.SIGKILL)
        ended, status = os.waitpid(worker, 0 if is_late else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)


def work(peer: socket.socket, progress: Progress) -> None:
    """Carry out tasks until the other side is gone.

    It brings ``(number, function, argument)``: the function by its number, pickled when it is
    new here, and its argument. It takes ``(True, result)``, or ``(False, text)`` where there
    can be none.
    """
    process, home = os.getpid(), Path.cwd()
    os.register_at_fork(after_in_child=peer.close)  # so that a reader sees the end
    known: dict[int, Callable[..., Any]] = {}
    while True:
        try:
            (number, function, argument), _ = receive(peer)
        except (EOFError, OSError):
            return
        answer = _answer(known, number, function, argument, progress)
        if os.getpid() != process:  # a child that the function forgot to end
            os._exit(0)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError):
            os.chdir(home)
        del argument
        try:
            send(peer, answer)
        except OSError:
            return


def _answer(
    known: dict[int, Callable[..., Any]],
    number: int,
    function: bytes | None,
    argument: bytes,
    progress: Progress,
) -> tuple[bool, Any]:
    try:
        if function is not None:
            known[number] = pickle.loads(function)
    except BaseException as error:
        return False, f"cannot be loaded in a worker process: {type(error).__name__}: {error}"
    try:
        return True, known[number](argument, progress)
    except BaseException as error:
        return False, "".join(traceback.format_exception(error))
