"""Report of a task that did not come back."""

from __future__ import annotations


class Lost(Exception):
    """A task did not come back: its worker ended, or took too long.

    Attributes
    ----------
    reason : str
        What the map did.
    number : int or None
        The sequence of the task that was mapped; None: it is not known.
    is_late : bool
        Whether it took too long, and is not to be tried again.
    """

    def __init__(self, reason: str, number: int | None, *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.number = number
        self.is_late = is_late
