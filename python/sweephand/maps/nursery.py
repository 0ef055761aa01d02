"""A fork server: a process that has imported the modules of workers, and forks them.

It leads a session of its own, so that Ctrl-C in a terminal is for the program alone. When that
ends, however it ends, the nursery sees it and ends the workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

import numpy as np

from sweephand.maps.message import receive, send
from sweephand.maps.worker import work

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
    try:
        preparation, _ = receive(peer)
        wrong = _prepare(preparation)
        send(peer, wrong)
    except (EOFError, OSError):  # nobody wants it any more
        return
    workers: set[int] = set()
    while wrong is None:
        try:
            (what, worker), descriptors = receive(peer)
            if what == "begin":
                for module in worker:  # once here, and not in every worker
                    with contextlib.suppress(BaseException):
                        importlib.import_module(module)
                worker = _begin(peer, *descriptors)
                workers.add(worker)
                send(peer, worker)
            else:
                is_ours = worker in workers  # and not of a nursery that was here before
                workers.discard(worker)
                send(
                    peer,
                    _end([worker], 0.0 if what == "kill" else _LAST_GRACE)[0]
                    if is_ours
                    else -signal.SIGKILL,
                )
        except (EOFError, OSError):
            break
    _end(list(workers))


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


def _begin(peer: socket.socket, descriptor: int, board: int) -> int:
    nursery = os.getpid()
    sys.stdout.flush()
    worker = os.fork()
    if worker:
        os.close(descriptor)
        os.close(board)
        return worker
    try:
        peer.close()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == nursery:
            np.random.seed()  # noqa: NPY002  # it is the one that functions share
            work(socket.socket(fileno=descriptor), board)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        os._exit(0)


def _end(workers: list[int], grace: float = _GRACE) -> list[int]:
    """Wait for workers that are about to end, and end those that do not."""
    until = time.monotonic() + grace
    found: dict[int, int] = {}
    while len(found) < len(workers):
        for worker in workers:
            if worker in found:
                continue
            is_late = time.monotonic() >= until
            if is_late:
                os.kill(worker, signal.SIGKILL)
            ended, status = os.waitpid(worker, 0 if is_late else os.WNOHANG)
            if ended:
                found[worker] = os.waitstatus_to_exitcode(status)
        if len(found) < len(workers):
            time.sleep(0.002)
    return [found[worker] for worker in workers]
