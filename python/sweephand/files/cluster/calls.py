"""Calls of members from any thread: limited in time, and not of those that failed lately."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sweephand.files.cluster.client import PeerClient, PeerError, checked
from sweephand.files.cluster.loop_thread import LoopThread
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import EntryRequest, FoundEntry, PeerLimits

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_SLACK = 1.0  # seconds, for a loop that is not scheduled at once
_FIRST_REST, _MOST_REST = 0.5, 30.0  # seconds


class PeerCalls:
    """Calls of members, which raise no errors: an entry that fails to come counts as absent.

    Parameters
    ----------
    thread : LoopThread
        Where the client runs.
    limits : PeerLimits
        Those of the client.
    count : callable
        Is given names of counts, and by how much they grow.
    """

    def __init__(
        self,
        thread: LoopThread,
        client: PeerClient,
        limits: PeerLimits,
        count: Callable[[str, int], None],
    ) -> None:
        self._thread, self._client, self._count = thread, client, count
        self._seconds, self._max_bytes = limits.seconds + _SLACK, limits.max_bytes
        self._rests = Rests()
        self._given: dict[Future[bool], int] = {}  # on their way, with their bytes
        self._guard = threading.Lock()

    def get(self, member: Member, asked: EntryRequest, padding: int) -> FoundEntry:
        """Return the content of an entry of a member, checked, with zeros after it."""
        answer = self._call(member, lambda: self._client.get(member, asked, padding))
        if answer is None or answer.content is None:
            return answer or FoundEntry()
        try:
            content = checked(asked, answer.content)
        except PeerError as error:
            self._fail(member, error)
            return FoundEntry()
        self._count("peer_hits", 1)
        self._count("bytes_from_peers", asked.size)
        return FoundEntry(content)

    def put(self, member: Member, given: EntryRequest, make: Callable[[], bytes]) -> None:
        """Give an entry to a member, without waiting for it.

        It is not given where too many bytes are on their way already, as the caller has the
        entry and goes on with it.

        Parameters
        ----------
        make : callable
            Returns the entry with its head.
        """
        with self._guard:
            is_full = sum(self._given.values()) + given.size > self._max_bytes
        if is_full or not self._rests.is_asked(member):
            return
        try:
            future = self._thread.begin(self._client.put(member, given, make()))
        except RuntimeError:  # the loop has ended
            return
        with self._guard:
            self._given[future] = given.size
        future.add_done_callback(partial(self._note_given, member, given.size))

    def finish(self) -> None:
        """Wait, for a limited time, until the given entries have arrived."""
        from concurrent.futures import wait  # only here, as it brings logging

        with self._guard:
            left = list(self._given)
        wait(left, self._seconds)

    def chunks(self, member: Member, corpus: int, count: int) -> bytes:
        """Return a bit for each of `count` chunks: that a member holds something of it."""
        return self._call(member, lambda: self._client.chunks(member, corpus, count)) or b""

    def _call(self, member: Member, make: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        if not self._rests.is_asked(member):
            return None
        try:
            found = self._thread.call(make(), self._seconds)
        except PeerError as error:
            self._fail(member, error)
            return None
        except (TimeoutError, RuntimeError):  # the loop is held up, or has ended
            return None
        self._rests.succeed(member)
        return found

    def _note_given(self, member: Member, size: int, future: Future[bool]) -> None:
        with self._guard:
            self._given.pop(future, None)
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, PeerError):
            self._fail(member, error)
        elif error is None:
            self._rests.succeed(member)
            self._count("bytes_to_peers", size if future.result() else 0)

    def _fail(self, member: Member, error: PeerError) -> None:
        self._count("peer_failures", 1)
        self._rests.fail(member, error)


class Rests:
    """Members of a cluster that failed, and are left alone for a while.

    An unreachable member is asked again soon, and then less and less often; a member that is
    slow, or answers wrongly, rests for the longest time at once.
    """

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, float]] = {}  # by name: its end, its length
        self._told: set[str] = set()
        self._guard = threading.Lock()

    def is_asked(self, member: Member) -> bool:
        """Return True if a member may be asked now."""
        with self._guard:
            return time.monotonic() >= self._until.get(member.name, (0.0, 0.0))[0]

    def succeed(self, member: Member) -> None:
        """Note that a member has answered."""
        if member.name in self._until:
            with self._guard:
                self._until.pop(member.name, None)

    def fail(self, member: Member, error: PeerError) -> None:
        """Leave a member alone, and warn once; if it is gone, at its second failure."""
        with self._guard:
            _, last = self._until.get(member.name, (0.0, 0.0))
            first = _FIRST_REST if error.is_gone else _MOST_REST
            seconds = min(max(2 * last, first), _MOST_REST)
            self._until[member.name] = time.monotonic() + seconds, seconds
            is_news = member.name not in self._told and (bool(last) or not error.is_gone)
            if is_news:
                self._told.add(member.name)
        if is_news:
            warnings.warn(
                f"the node {member} is left alone for a while, and its part of the cluster's "
                f"cache comes from the store: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
