"""Calls of members from any thread: limited in time, and not of those that failed lately."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sweephand.files.cluster.client import Answer, PeerClient, PeerError, checked
from sweephand.files.cluster.loop_thread import LoopThread
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import EntryRequest
from sweephand.files.cluster.rests import Rests

T = TypeVar("T")

_SLACK = 1.0  # seconds, for a loop that is not scheduled at once


class PeerCalls:
    """Calls of members. None of them raises an error: what fails is as what is not there.

    Parameters
    ----------
    thread : LoopThread
        Where the client runs.
    client : PeerClient
    seconds : float
        The limit of the client.
    count : callable
        Is given names of counts, and by how much they grow.
    """

    def __init__(
        self,
        thread: LoopThread,
        client: PeerClient,
        seconds: float,
        count: Callable[[str, int], None],
    ) -> None:
        self._thread, self._client, self._count = thread, client, count
        self._seconds = seconds + _SLACK
        self._rests = Rests()

    def get(self, member: Member, asked: EntryRequest, padding: int) -> Answer:
        """Return the content of an entry of a member, checked, and with zeros behind it."""
        answer = self._call(member, lambda: self._client.get(member, asked, padding))
        if answer is None or answer.content is None:
            return answer or Answer()
        try:
            content = checked(asked, answer.content)
        except PeerError as error:
            self._fail(member, error)
            return Answer()
        self._count("peer_hits", 1)
        self._count("bytes_from_peers", asked.size)
        return Answer(content)

    def put(self, member: Member, given: EntryRequest, body: bytes) -> None:
        """Give an entry with its head to a member."""
        if self._call(member, lambda: self._client.put(member, given, body)):
            self._count("bytes_to_peers", given.size)

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

    def _fail(self, member: Member, error: PeerError) -> None:
        self._count("peer_failures", 1)
        self._rests.fail(member, error)
