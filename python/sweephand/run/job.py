"""Tasks on their way to workers, cut into pieces where a worker is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Task(Protocol):
    """Task over items, which may be cut into parts."""

    @property
    def name(self) -> str:
        """Name of the call, for errors."""

    @property
    def is_joint(self) -> bool:
        """True if one call takes all items."""

    def __len__(self) -> int: ...

    def part(self, begin: int, end: int) -> Task:
        """Return a task of a part of the items."""

    def describe(self, number: int) -> str:
        """Name the call for an item."""

    def failed(self, reason: str) -> Any:
        """Return the result of one item that is given up."""


class Piece(NamedTuple):
    """Part of a task that is still to do: `lost` is why it is given up."""

    task: Task
    was_tried: bool = False  # a worker ended that had it
    lost: str | None = None

    def after(self, lost: str, number: int | None, *, is_late: bool) -> list[Piece]:
        """Return the pieces that it is cut into when it did not come back.

        `lost` is why, and `number` the item at work, if that is known: one that is late is not
        tried again.
        """
        task = self.task
        if not is_late and not self.was_tried:
            return [Piece(task, was_tried=True)]  # it may have been an accident
        if len(task) == 1:
            return [Piece(task, lost=lost)]
        if task.is_joint or number is None:
            return [Piece(task.part(one, one + 1)) for one in range(len(task))]
        ends = Piece(task.part(0, number)), Piece(task.part(number + 1, len(task)))
        middle = Piece(task.part(number, number + 1), True, lost if is_late else None)
        return [one for one in (ends[0], middle, ends[1]) if len(one.task)]


@dataclass(eq=False)
class Job:
    """A running task, with the pieces to do and the results already there."""

    pieces: list[Piece]  # none when its caller has gone
    beside: list[Job]  # those that were asked for together and are not done
    made: list[Any] = field(default_factory=list)
    error: BaseException | None = None
