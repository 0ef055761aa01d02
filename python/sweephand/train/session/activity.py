"""Activities of a session between its minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sweephand.base.checks import check_int
from sweephand.train.checkpoint.snapshot import Snapshot
from sweephand.train.session.frequency import Count, Frequency

NEVER: Frequency = Frequency(0)


class Activity:
    """Something that a session does at a frequency.

    It is due when progress has passed one or several multiples of the frequency since it was
    done, once for all of them; and if it is final at the end, unless it was just done.
    Minibatches are not cut at the multiples. `count` returns the progress of training in a
    unit.

    Attributes
    ----------
    name : str
        Its name in checkpoints; empty if they hold no place of it.
    is_optional : bool
        True if it may be missing in a checkpoint.
    is_final : bool
        True if it is done at the end of training, too.
    index : int
        How many multiples were passed when it was last done.
    ended : str or None
        Why training is to end, if this activity asks for it.
    """

    name: ClassVar[str] = ""
    is_optional: ClassVar[bool] = False
    is_final: ClassVar[bool] = False

    def __init__(self, count: Count, frequency: Frequency = NEVER) -> None:
        self.frequency = frequency
        self.index = 0
        self.ended: str | None = None
        self._count = count
        self._done_at = 0  # in minibatches

    def prepare(self, snapshot: Snapshot) -> None:
        """Prepare for a snapshot of an earlier process, before it is restored."""

    def begin(self) -> None:
        """Begin at the present moment, after a restore, if any."""

    def act(self) -> None:
        """Do it at the present moment."""
        raise NotImplementedError

    def finish(self) -> None:
        """Do it at the end of training, if it is due there."""
        if self.is_due_at_end():
            self.act()

    def is_due(self) -> bool:
        """Return True if it is due after a minibatch."""
        return self._passed() != self.index

    def is_due_at_end(self) -> bool:
        """Return True if it is due at the end of training."""
        is_new = self._count("minibatch") != self._done_at
        return self.is_final and not self.frequency.is_never and is_new

    def done(self) -> int:
        """Mark it as done, and return the index before."""
        before, self.index = self.index, self._passed()
        self._done_at = self._count("minibatch")
        return before

    def session_state(self) -> dict[str, Any]:
        """Return the entries that checkpoints of a session hold, as JSON can hold them."""
        return {}

    def load_session_state(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a session."""

    def state_dict(self) -> dict[str, Any]:
        """Return when it was done, as JSON can hold it."""
        return {
            "every": [self.frequency.count, self.frequency.unit],
            "index": self.index,
            "done_at": self._done_at,
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a state, or from the present progress if the frequency was another."""
        if state is None and self.is_optional:  # the run that was saved did not have it
            state = {"every": None, "index": 0, "done_at": 0}
        if state is None:
            raise ValueError(f"there is no state of its {self.name}")
        is_same = state["every"] == [self.frequency.count, self.frequency.unit]
        index, done_at = (check_int(name, state[name], 0) for name in ("index", "done_at"))
        self.index = index if is_same else self._passed()
        self._done_at = done_at

    def _passed(self) -> int:
        if not self.frequency.count:
            return 0
        return self._count(self.frequency.unit) // self.frequency.count
