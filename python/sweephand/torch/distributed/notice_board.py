"""A board in the store of a process group, where ranks leave word when exchanges fail."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sweephand.train.trainer.workers import ErrorMessage

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")
Answer: TypeAlias = tuple[
    ErrorMessage | None, tuple[int, ...]
]  # a failure, or the silent ranks
_NO_ANSWER: Answer = None, ()
_PATIENCE = 2.0  # seconds for other ranks to find out, too
_PAUSE = 0.02


class NoticeBoard:
    """Words of ranks to each other, by way of the store that they met at.

    Nothing is written in steps that succeed. The store may be gone with the process that had
    it, or be silent: then there is no word, after some seconds.
    """

    def __init__(self, group: ProcessGroup) -> None:
        from torch.distributed import distributed_c10d

        store = distributed_c10d._get_default_store()
        self._store: Any = distributed_c10d.PrefixStore(f"sweephand/{group.group_name}", store)

    def post(self, number: int, error: ErrorMessage) -> None:
        """Leave word of an error that this rank has met after exchange `number`."""
        word = pickle.dumps((number, error)).hex()
        _in_time(lambda: self._store.set("error", word), None)

    def ask(self, number: int, rank: int, count: int) -> Answer:
        """Return the failure around exchange `number`, or the ranks that are silent."""
        return _in_time(lambda: self._ask(number, rank, count), _NO_ANSWER)

    def _ask(self, number: int, rank: int, count: int) -> Answer:
        self._store.set(f"here/{number}/{rank}", "")
        end = time.monotonic() + _PATIENCE
        silent = [one for one in range(count) if one != rank]
        while silent:
            if self._store.check(["error"]):
                posted_at, failure = pickle.loads(
                    bytes.fromhex(self._store.get("error").decode())
                )
                if abs(posted_at - number) <= 1:  # else it was outlived
                    return failure, ()
            silent = [one for one in silent if not self._store.check([f"here/{number}/{one}"])]
            if time.monotonic() > end:
                break
            time.sleep(_PAUSE)
        return None, tuple(silent)


def _in_time(action: Callable[[], T], otherwise: T) -> T:
    """Return the result of an action, or another value if it fails or does not return."""
    found = [otherwise]

    def act() -> None:
        with suppress(Exception):  # the store is gone: there is no word
            found[0] = action()

    thread = threading.Thread(target=act, name="sweephand notice board", daemon=True)
    thread.start()
    thread.join(2 * _PATIENCE)
    return found[0]
