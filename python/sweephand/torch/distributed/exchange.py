"""Exchanges of small numbers and objects among ranks, and word of why they fail."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from sweephand.errors import some_of
from sweephand.train.trainer.workers import ErrorMessage, WorkerError

T = TypeVar("T")

_KNOWN = "_known_to"  # an attribute of errors: True, or the exchange that has asked
_SIZE = 16  # numbers that one sum has room for
_WHILE_SAVING = timedelta(minutes=30)
_PATIENCE = 3.0  # seconds for other ranks to answer
_PAUSE = 0.02
_HEARING = 0.5  # seconds between two looks at what others have written


class Exchange:
    """Small sums, maxima and objects over the ranks of a group, within a limit.

    If one fails, ranks leave word in the store that they met at. Nothing is written there in
    steps that succeed.

        asked             the exchange that failed; every rank answers, whatever it is doing
        answer/3/1        the answer of rank 1 to the question about exchange 3: waits, or busy
        word              the exchange, and the error that all ranks are to raise

    The first rank that finds out asks, and posts its conclusion, so that all name the same. A
    thread of each rank looks for questions and words twice a second, so that they are known
    when the store is gone with the process that had it.
    """

    def __init__(self, limit: timedelta, group: dist.ProcessGroup | None) -> None:
        from torch.distributed import distributed_c10d

        self.limit = limit
        group = _in_main_memory(group)
        # Without torch's dispatcher, which takes as long again as a message.
        self._gloo: Any = group._get_backend(torch.device("cpu"))
        self.rank, self.num_ranks = group.rank(), group.size()
        self.number = 0  # of the last sum, the same on all ranks
        self._is_waiting = False  # in an exchange: it is not at fault if that is late
        store = distributed_c10d._get_default_store()
        self._holder = _holder_of(store, group)
        self._store: Any = distributed_c10d.PrefixStore(f"sweephand/{group.group_name}", store)
        self._answered = self._word = b""
        threading.Thread(
            target=_listen, args=(ref(self),), name="sweephand notices", daemon=True
        ).start()

    def sum(self, values: Sequence[float], dtype: torch.dtype = torch.int64) -> list[Any]:
        """Return the sums over all ranks of up to 16 numbers."""
        self.number += 1
        # All send as many numbers: a rank with an error has no counts.
        numbers = torch.zeros(_SIZE, dtype=dtype)
        numbers[: len(values)] = torch.tensor(values, dtype=dtype)
        self._reduce(numbers)
        return numbers[: len(values)].tolist()

    def maximum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the maxima of numbers over all ranks, in place."""
        self._reduce(torch.from_numpy(values), dist.ReduceOp.MAX)
        return values

    def gather(self, one: Any, *, is_patient: bool = False) -> list[Any]:
        """Return the object of each rank."""
        limit = _WHILE_SAVING if is_patient else self.limit
        mine = np.frombuffer(bytearray(pickle.dumps(one)), np.uint8)
        longest = torch.tensor([mine.size])
        self._reduce(longest, dist.ReduceOp.MAX, limit)
        # Rows of zeros but for one's own: the sum has those of all.
        rows = torch.zeros((self.num_ranks, int(longest)), dtype=torch.uint8)
        rows[self.rank, : mine.size] = torch.from_numpy(mine)
        self._reduce(rows, limit=limit)
        return [pickle.loads(row.numpy().tobytes()) for row in rows]

    def post(self, word: ErrorMessage | WorkerError) -> None:
        """Leave the error of this exchange for the other ranks."""
        self._word = pickle.dumps((self.number, word)).hex().encode()
        _in_time(lambda: self._store.set("word", self._word))
        if self.rank in self._holder:
            time.sleep(3 * _HEARING)  # the store is gone with this process: all hear it before

    def explain(self, error: BaseException, limit: timedelta | None = None) -> Exception:
        """Return why a collective has failed: the error of a rank, or the silent ranks."""
        is_late = "timed out" in str(error).lower()
        found = _in_time(lambda: self._ask(is_late))
        if found is None:  # the store is gone: what was heard before, or who had it
            heard = self._heard()
            found = self._holder if heard is None else heard
        if isinstance(found, Exception):
            return self.known(found)
        who = (
            f"rank{'s' * (len(found) > 1)} {some_of(found, _SIZE)}" if found else "another rank"
        )
        seconds = (limit or self.limit).total_seconds()
        why = f"did not answer within {seconds:g} s" if is_late else "has left"
        lost = WorkerError(
            f"{who} of {self.num_ranks} {why}, at exchange {self.number}; its own output says "
            "why, and training goes on from the last checkpoint",
            found,
        )
        if found:
            self.post(lost)
        setattr(lost, _KNOWN, self)  # another exchange may know more
        return lost

    @staticmethod
    def known(error: Exception) -> Exception:
        """Mark an error as common to all ranks."""
        setattr(error, _KNOWN, True)
        return error

    def knows(self, error: Exception) -> bool:
        """Return True if an error needs no exchange with the other ranks."""
        return getattr(error, _KNOWN, None) in (True, self)

    def listen(self) -> None:
        """Answer a question of another rank, and hear a word."""
        asked = self._read("asked")
        if asked and asked != self._answered:
            answer = "waits" if self._is_waiting else "busy"
            self._store.set(_answer(asked, self.rank), answer)
            self._answered = asked
        self._word = self._read("word") or self._word

    def _ask(self, is_late: bool) -> Exception | tuple[int, ...]:
        """Return the error of this exchange, or the ranks that fail to take part in it.

        Those are the silent ranks; if it is late, also those that are busy with other things.
        """
        asked = self._read("asked")
        if not asked or not self._is_now(int(asked)):
            # Of ranks that ask at once, one prevails.
            asked = self._store.compare_set("asked", asked.decode(), str(self.number))
        self._store.set(_answer(asked, self.rank), "waits")
        silent = list(range(self.num_ranks))
        end = time.monotonic() + _PATIENCE
        while silent and time.monotonic() < end:
            self._word = self._read("word") or self._word
            if (heard := self._heard()) is not None:
                return heard
            said = {one: self._read(_answer(asked, one)) for one in silent}
            silent = [
                one for one in silent if said[one] != b"waits" and (is_late or not said[one])
            ]
            time.sleep(_PAUSE)
        return tuple(silent)

    def _heard(self) -> Exception | None:
        """Return the error of the last word, unless it was outlived."""
        if not self._word:
            return None
        number, word = pickle.loads(bytes.fromhex(self._word.decode()))
        if not self._is_now(number):
            return None
        error: Exception = word.error() if isinstance(word, ErrorMessage) else word
        return error

    def _is_now(self, number: int) -> bool:
        return abs(number - self.number) <= 1  # ranks with one failure are 1 apart

    def _read(self, key: str) -> bytes:
        found: bytes = self._store.get(key) if self._store.check([key]) else b""
        return found

    def _reduce(
        self,
        values: Tensor,
        how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM,
        limit: timedelta | None = None,
    ) -> None:
        """Reduce small numbers in place, in main memory, without waiting for a device."""
        options = dist.AllreduceOptions()
        options.timeout = limit or self.limit
        options.reduceOp = how  # type: ignore[assignment] # in its stub
        self._is_waiting = True
        try:
            self._gloo.allreduce([values], options).wait()
        except RuntimeError as error:
            raise self.explain(error, limit) from error
        self._is_waiting = False


def _listen(exchange: ref[Exchange]) -> None:
    """Listen for as long as the exchange and its store are there."""
    with suppress(Exception):  # the store is gone: there is no word
        while (found := exchange()) is not None:
            found.listen()
            del found
            time.sleep(_HEARING)


def _answer(asked: bytes, rank: int) -> str:
    return f"answer/{asked.decode()}/{rank}"


def _in_main_memory(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return a group in main memory: the given group if it is, else a new group."""
    ranks = None
    if group is not None:
        try:
            group._get_backend(torch.device("cpu"))
        except RuntimeError:
            ranks = dist.get_process_group_ranks(group)
        else:
            return group
    made: dist.ProcessGroup = dist.new_group(
        ranks,
        backend="gloo",
        timeout=_WHILE_SAVING,
        use_local_synchronization=ranks is not None,
    )
    return made


def _holder_of(store: Any, group: dist.ProcessGroup) -> tuple[int, ...]:
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
