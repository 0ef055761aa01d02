"""A desk that takers elsewhere ask: in another process, or on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweephand.loans.desk import Desk, Loan, Repeated


class RemoteDesk:
    """The face of a `Desk` that is elsewhere; `ask` carries calls to it.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> from sweephand.extend import RemoteDesk
    >>> class Here(RemoteDesk):
    ...     desk = sh.MinibatchSource({"x": np.arange(3)}, max_sweeps=1).lend()
    ...     def ask(self, name, *arguments):
    ...         return self.taken(self.answer(self.desk, name, arguments))
    >>> len(Here().take(2).tickets), Here().is_finished
    (2, False)
    """

    repeated: Repeated = "error"
    """What happens to tickets that have ended before, where a call does not say."""

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the desk answers to the call of a method, or raise its error."""
        raise NotImplementedError

    @staticmethod
    def answer(
        desk: Desk, name: str, arguments: tuple[Any, ...]
    ) -> tuple[Any, Exception | None]:
        """Return the result of a method, or of a property, and its error: where the desk is."""
        try:
            found = getattr(desk, name)
            return (found(*arguments) if callable(found) else found), None
        except Exception as error:
            return None, error

    @staticmethod
    def taken(answer: tuple[Any, Exception | None]) -> Any:
        """Return the result of an answer, or raise its error."""
        found, error = answer
        if error is not None:
            raise error
        return found

    def take(self, n: int) -> Loan:
        """Borrow the next sequences: `Desk.take`."""
        loan: Loan = self.ask("take", n)
        return loan

    def done(self, tickets: ArrayLike, repeated: Repeated | None = None) -> NDArray[np.int64]:
        """End loans whose sequences are trained, and return those that count: `Desk.done`."""
        counted: NDArray[np.int64] = self.ask("done", tickets, repeated or self.repeated)
        return counted

    def give_back(self, tickets: ArrayLike, repeated: Repeated | None = None) -> None:
        """End loans whose sequences are wanted again: `Desk.give_back`."""
        self.ask("give_back", tickets, repeated or self.repeated)

    def drop(self, tickets: ArrayLike, reason: str, repeated: Repeated | None = None) -> None:
        """End loans whose sequences are never trained in this sweep: `Desk.drop`."""
        self.ask("drop", tickets, reason, repeated or self.repeated)

    def expire(self, older_than: int) -> NDArray[np.int64]:
        """Let loans expire whose takers may be gone: `Desk.expire`."""
        expired: NDArray[np.int64] = self.ask("expire", older_than)
        return expired

    @property
    def is_finished(self) -> bool:
        """True at the end of the data, if all loans have ended."""
        return bool(self.ask("is_finished"))

    def report(self) -> dict[str, Any]:
        """Return what became of the tickets: `Desk.report`."""
        return dict(self.ask("report"))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the desk."""
        return dict(self.ask("state_dict"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken: `Desk.load_state_dict`."""
        self.ask("load_state_dict", state)
