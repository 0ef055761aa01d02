"""A board in the store of a process group, where ranks leave word when exchanges fail.

    asked             the exchange that failed; every rank answers, whatever it is doing
    answer/3/1        the answer of rank 1 to the question about exchange 3: waits, or is busy
    word              the exchange, and the error that all ranks are to raise

The first rank that finds out asks, and posts its conclusion, so that all ranks name the same.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch.distributed as dist

from sweephand.train.trainer.workers import ErrorMessage, WorkerError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")
_PATIENCE = 3.0  # seconds for other ranks to answer
_PAUSE = 0.02
_HEARING = 0.5  # seconds between two looks at the board


class NoticeBoard:
    """Words of ranks to each other, by way of the store that they met at.

    Nothing is written in steps that succeed. A thread of each rank looks for questions and
    words of others twice a second, so that they are known when the store is gone with the
    process that had it.
    """

    def __init__(self, group: ProcessGroup) -> None:
        from torch.distributed import distributed_c10d

        store = distributed_c10d._get_default_store()
        self.is_waiting = False  # in an exchange: it is not at fault if that is late
        self._rank, self._count = group.rank(), group.size()
        self._holder = _holder_of(store, group)
        self._store: Any = distributed_c10d.PrefixStore(f"sweephand/{group.group_name}", store)
        self._answered = self._word = b""
        threading.Thread(
            target=_listen, args=(ref(self),), name="sweephand notice board", daemon=True
        ).start()

    def post(self, number: int, word: object) -> None:
        """Leave an `ErrorMessage` after an exchange, or the arguments of a `WorkerError`."""
        self._word = pickle.dumps((number, word)).hex().encode()
        _in_time(lambda: self._store.set("word", self._word))
        if self._rank in self._holder:
            time.sleep(3 * _HEARING)  # the store is gone with this process: all hear it before

    def ask(self, number: int, *, is_late: bool) -> Exception | tuple[int, ...]:
        """Return the error of exchange `number`, or the ranks that fail to take part in it.

        Those are the silent ranks; if it is late, also those that are busy with other things.
        """
        answer = _in_time(lambda: self._ask(number, is_late))
        if answer is not None:
            return answer
        heard = self._heard(number)  # before the store was gone
        return heard if heard is not None else self._holder

    def listen(self) -> None:
        """Answer a question of another rank, and hear a word."""
        asked = self._read("asked")
        if asked and asked != self._answered:
            answer = b"waits" if self.is_waiting else b"is busy"
            self._store.set(_answer(asked, self._rank), answer)
            self._answered = asked
        self._word = self._read("word") or self._word

    def _ask(self, number: int, is_late: bool) -> Exception | tuple[int, ...]:
        asked = self._read("asked")
        if not asked or not _is_about(int(asked), number):
            # Of ranks that ask at once, one prevails.
            asked = self._store.compare_set("asked", asked.decode(), str(number))
        self._store.set(_answer(asked, self._rank), "waits")
        silent = list(range(self._count))
        end = time.monotonic() + _PATIENCE
        while True:
            self._word = self._read("word") or self._word
            if (heard := self._heard(number)) is not None:
                return heard
            said = {one: self._read(_answer(asked, one)) for one in silent}
            silent = [
                one for one in silent if said[one] != b"waits" and (is_late or not said[one])
            ]
            if not silent or time.monotonic() > end:
                return tuple(silent)
            time.sleep(_PAUSE)

    def _heard(self, number: int) -> Exception | None:
        """Return the error of the last word, unless it was outlived."""
        if not self._word:
            return None
        posted_at, word = pickle.loads(bytes.fromhex(self._word.decode()))
        if not _is_about(posted_at, number):
            return None
        return word.error() if isinstance(word, ErrorMessage) else WorkerError(*word)

    def _read(self, key: str) -> bytes:
        found: bytes = self._store.get(key) if self._store.check([key]) else b""
        return found


def _listen(board: ref[NoticeBoard]) -> None:
    """Listen for as long as the board and its store are there."""
    with suppress(Exception):  # the store is gone: there is no word
        while (found := board()) is not None:
            found.listen()
            del found
            time.sleep(_HEARING)


def _is_about(one: int, other: int) -> bool:
    """Return True if two numbers of exchanges are of the same failure: ranks are 1 apart."""
    return abs(one - other) <= 1


def _answer(asked: bytes, rank: int) -> str:
    return f"answer/{asked.decode()}/{rank}"


def _holder_of(store: Any, group: ProcessGroup) -> tuple[int, ...]:
    """Return the rank in a group whose process has the store, if that is known."""
    is_torchs = hasattr(store, "underlying_store")  # else the user has made it, somewhere
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    is_served = is_torchs and type(store).__name__ == "TCPStore"
    if not is_served or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return ()
    ranks = dist.get_process_group_ranks(group)
    return (ranks.index(0),) if 0 in ranks else ()


def _in_time(action: Callable[[], T]) -> T | None:
    """Return the result of an action, or None if it fails or does not return."""
    found: list[T] = []

    def act() -> None:
        with suppress(Exception):  # the store is gone: there is no word
            found.append(action())

    thread = threading.Thread(target=act, name="sweephand question", daemon=True)
    thread.start()
    thread.join(2 * _PATIENCE)
    return found[0] if found else None
