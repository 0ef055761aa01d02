"""Part of a node in the cache of a cluster.

    miss in the folder -- owner? -- this node ---------------------> store, and kept here
                             |
                             +----- another -- GET -- found -------> served
                                                +---- absent ------> store, then PUT there

Who is to hold an entry follows from the list of members (`members.py`), when it leaves from the
next use in the whole cluster (`node_cache/next_uses.py`).
"""

from __future__ import annotations

import os
import ssl
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.files.cluster.calls import PeerCalls
from sweephand.files.cluster.client import PeerClient
from sweephand.files.cluster.loop_thread import LoopThread
from sweephand.files.cluster.members import Member
from sweephand.files.cluster.message import EntryRequest, PeerLimits
from sweephand.files.cluster.roster import Roster
from sweephand.files.cluster.seat import ServerSeat
from sweephand.files.cluster.server import EntryServer
from sweephand.files.cluster.shelf import Shelf
from sweephand.files.node_cache.entries import Key, head_of
from sweephand.files.node_cache.folder import CacheFolder

if TYPE_CHECKING:
    from concurrent.futures import Future

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterPlan:
    """How a node takes part in a cluster.

    Attributes
    ----------
    members : callable
        Returns the members as they are now.
    own : Member
        This node; its address is bound.
    token : str
        Shared by all members.
    """

    members: Callable[[], Sequence[Member]]
    own: Member
    token: str
    server_tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None
    limits: PeerLimits = field(default_factory=PeerLimits)


@dataclass(frozen=True)
class PeerAnswer:
    """Outcome of asking the cluster for an entry.

    Attributes
    ----------
    content : ndarray of uint8, or None
        With the padding after it.
    wanted_by : Member or None
        Who does not hold it, and would keep it.
    """

    content: NDArray[np.uint8] | None = None
    wanted_by: Member | None = None


class ClusterNode:
    """A node of a cluster: fetches entries from other nodes, and serves its own.

    It serves as soon as it is made; in a forked worker it is made again.

    Parameters
    ----------
    count : callable
        Is given names of counts, and by how much they grow.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        roster: Roster,
        folder: CacheFolder,
        count: Callable[[str, int], None],
    ) -> None:
        self._plan, self._roster, self._folder, self._count = plan, roster, folder, count
        self._guard, self._time, self._process = threading.Lock(), 0, os.getpid()
        parts = _Parts(plan, folder, count)
        self._parts: _Parts | None = parts
        self._end = weakref.finalize(self, parts.close)  # of a source that is not closed
        self._has_stood = False
        _nodes.add(self)
        _hook_forks()

    def stand(self, time: int) -> None:
        """Note the nominal time of the source, and look who the members are now."""
        self._time = time
        is_first, self._has_stood = not self._has_stood, True
        parts = self._parts
        if parts is not None and (self._roster.look() or is_first):
            self._folder.reconsider()
            threading.Thread(
                target=self._look_for_strays, args=(parts,), name="sweephand-held", daemon=True
            ).start()

    def ask(self, key: Key, chunk: int, size: int, padding: int) -> PeerAnswer:
        """Ask the owner of an entry for it, and who else may hold it; for a limited time."""
        parts, owner = self._parts, self._roster.owner(key, chunk)
        if parts is None:
            return PeerAnswer()
        wanted_by = None
        asked = self._request(key, size, chunk)
        # Only its owner is given an entry, and so a stray is not to wait for it.
        for member, wait in ((owner, asked.wait), (self._roster.stray(chunk), 0.0)):
            if member is None or member.name == self._plan.own.name:
                continue
            answer = parts.calls.get(member, replace(asked, wait=wait), padding)
            if answer.is_wanted:
                wanted_by = owner
            if answer.content is not None:
                return PeerAnswer(answer.content, wanted_by)
        return PeerAnswer(None, wanted_by)

    def give(self, member: Member, key: Key, chunk: int, content: NDArray[np.uint8]) -> None:
        """Give an entry to its owner, which has asked for it."""
        parts = self._parts
        if parts is not None:
            parts.calls.put(
                member,
                self._request(key, content.size, chunk),
                lambda: head_of(key, content) + content.tobytes(),
            )

    def close(self) -> None:
        """Stop serving, and asking."""
        if os.getpid() != self._process:
            return
        with self._guard:
            self._parts = None
        self._end()

    def forget(self) -> None:
        """Release, in a forked child, the threads and sockets of its parent."""
        parts, self._parts = self._parts, None
        self._end.detach()
        if parts is not None:
            parts.forget()

    def _request(self, key: Key, size: int, chunk: int) -> EntryRequest:
        uses, wait = self._folder.uses, self._plan.limits.seconds / 2
        return EntryRequest(key, size, uses.corpus, uses.timeline, chunk, self._time, wait)

    def _look_for_strays(self, parts: _Parts) -> None:
        """Ask the members again for the chunks that they hold, after the list has changed."""
        uses = self._folder.uses
        corpus, count = uses.corpus, len(uses.chunk_samples)
        held = {one.name: parts.calls.chunks(one, corpus, count) for one in self._roster.others}
        own = Shelf(self._folder).chunks(corpus)
        self._roster.note_held(held | {self._plan.own.name: own})


class _Parts:
    """The client and the server of a process, in the event loop of a thread."""

    def __init__(
        self, plan: ClusterPlan, folder: CacheFolder, count: Callable[[str, int], None]
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

        self._files = ThreadPoolExecutor(4, "sweephand-cluster-files")
        self._thread = LoopThread("sweephand-cluster")
        served = partial(count, "bytes_served")
        shelf = Shelf(folder, plan.limits.seconds)
        self._client = PeerClient(plan.token, plan.client_tls, plan.limits)
        self._seat = ServerSeat(
            folder,
            plan.own,
            lambda: EntryServer(shelf, plan.token, plan.limits, self._files, served),
            plan.server_tls,
        )
        self.calls = PeerCalls(self._thread, self._client, plan.limits, count)
        self._serving = self._thread.begin(self._seat.serve())
        self._serving.add_done_callback(_tell_failure)

    def close(self) -> None:
        """End the thread, after answers that are under way."""
        if self._thread.is_current:  # if an unclosed source is garbage-collected
            threading.Thread(target=self.close, name="sweephand-cluster-end").start()
            return

        async def stop() -> None:
            await self._seat.leave()
            await self._client.close()

        self.calls.finish()
        self._serving.cancel()
        with suppress(TimeoutError, RuntimeError):
            self._thread.call(stop(), _CLOSE_SECONDS)
        self._thread.close(_CLOSE_SECONDS)
        self._files.shutdown()

    def forget(self) -> None:
        """Close copied sockets, and keep all else, whose end the parent would notice."""
        self._seat.forget()
        _inherited.append(self)


def _tell_failure(serving: Future[None]) -> None:
    """Warn of a server that could not begin, as no caller waits for it."""
    if not serving.cancelled() and (error := serving.exception()) is not None:
        warnings.warn(
            f"nobody serves this node's part of the cluster's cache: {error!r}",
            RuntimeWarning,
            stacklevel=2,
        )


_nodes: weakref.WeakSet[ClusterNode] = weakref.WeakSet()
_inherited: list[_Parts] = []


@cache
def _hook_forks() -> None:
    """Have forks close their copies, which would look like a server after its end."""
    os.register_at_fork(after_in_child=_forget_all)


def _forget_all() -> None:
    for node in _nodes:
        node.forget()
