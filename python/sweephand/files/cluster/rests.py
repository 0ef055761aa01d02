"""Members of a cluster that failed, and are left alone for a while."""

from __future__ import annotations

import threading
import time
import warnings

from sweephand.files.cluster.client import PeerError
from sweephand.files.cluster.members import Member

_FIRST_SECONDS, _MOST_SECONDS = 0.5, 30.0


class Rests:
    """Which members are asked, and which rest.

    One that nobody can reach is asked again soon, and less and less often; one that is slow, or
    answers in a wrong way, rests for the longest time at once.
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
        """Leave a member alone, and warn once; of one that is gone if it does not come back."""
        with self._guard:
            _, last = self._until.get(member.name, (0.0, 0.0))
            first = _FIRST_SECONDS if error.is_gone else _MOST_SECONDS
            seconds = min(max(2 * last, first), _MOST_SECONDS)
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
