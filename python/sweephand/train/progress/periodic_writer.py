"""Progress writers that write a record every few steps."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from sweephand.base.checks import check_int
from sweephand.train.progress.averages import Averages
from sweephand.train.progress.record import Record, Step


class PeriodicWriter(ABC):
    """A progress writer that averages steps and writes a record every `freq` of them.

    Parameters
    ----------
    freq : int or None
        Steps between two records; 0: after 1, 3, 7, 15, ... steps; None: no such records.
    first : int
        Number of steps at the start with a record each.

    Examples
    --------
    >>> import sweephand as sh
    >>> class Lines(sh.train.PeriodicWriter):
    ...     def write(self, record):
    ...         print(record.kind, record.samples, record.figures["loss"])
    >>> lines = Lines(freq=2)  # progress_writers=lines of a Trainer
    >>> for n in (1, 2):
    ...     lines.update(sh.train.Step(n, 10 * n, 10, 5.0 * n, None, True, 0.1, 0.0))
    training 20 0.75
    """

    def __init__(self, freq: int | None = None, first: int = 0) -> None:
        self._freq = None if freq is None else check_int("freq", freq, least=0)
        self._first = check_int("first", first, least=0)
        self._averages = Averages()

    def update(self, step: Step) -> None:
        """Add a step, and write a record if it is time."""
        self._averages.update(step)
        if self._is_due(step.step):
            figures = self._averages.figures()
            self._averages = Averages()
            self.write(Record("training", step.step, step.samples, figures))

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one record."""

    def state_dict(self) -> dict[str, Any]:
        """Return the averages since the last record."""
        return self._averages.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the averages from a state; an empty one starts them afresh."""
        self._averages = Averages.of_state(state) if state else Averages()

    def _is_due(self, step: int) -> bool:
        if self._freq is None:
            return False
        if self._freq == 0:
            return step & (step + 1) == 0
        return step % self._freq == 0 or step <= self._first
