"""The desk of rank 0, for all ranks."""

from __future__ import annotations

from typing import Any

from sweephand.loans.desk import Desk
from sweephand.loans.remote_desk import RemoteDesk
from sweephand.torch.distributed.control import Control


class RankDesk(RemoteDesk):
    """The desk of rank 0, for all ranks, which make the same calls together.

    In each call rank 0 answers one rank after the other: `take` lends n sequences to each. An
    error of any is raised on all of them. What is asked and answered goes to all ranks: prompts
    and tickets are small.

    Parameters
    ----------
    desk : Desk or None
        On rank 0 the desk; of other ranks it is not used.
    control : Control, optional
        The ranks, and their time limit; by default all ranks and a minute.

    Raises
    ------
    ValueError
        On rank 0, if it has no desk.
    WorkerError
        In every call, if a rank does not arrive.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> source = sh.MinibatchSource({"x": np.arange(6)}, max_sweeps=1)
    >>> desk = sh.torch.distributed.RankDesk(source.lend())
    >>> desk.done(desk.take(4).tickets).shape
    (4,)
    """

    def __init__(self, desk: Desk | None, control: Control | None = None) -> None:
        self._control = control or Control()
        self._desk = desk if self._control.rank == 0 else None
        if self._control.rank == 0 and desk is None:
            raise ValueError("rank 0 has the desk: RankDesk(source.lend()) there")

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the desk of rank 0 answers to this rank."""
        asked, answers = self._control.gather((name, arguments)), None
        if self._desk is not None:
            answers = [self.answer(self._desk, *one) for one in asked]
        answers = self._control.gather(answers)[0]
        for answer in answers:
            self.taken(answer)
        return answers[self._control.rank][0]
