"""Steps whose workers come and go, and which count only when they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sweephand import Minibatch, MinibatchSource
from sweephand.extend import Position, Size, check_function, size_at, size_of


class ElasticSteps:
    """Shares of minibatches for a number of workers that may change before each step.

    The number of workers is asked for before every step. A step that was not committed, for
    example because a worker was lost, is delivered again to the workers alive then. So every
    sequence is trained once in a sweep, whichever workers come and go.

    Iteration yields shares until the end of data; call `commit` once in every step.

    Parameters
    ----------
    source : MinibatchSource
        It belongs to the steps from now on.
    size : int, str, list or schedule
        Samples in a minibatch over all workers, as for `MinibatchSource.minibatches`. A
        schedule is looked up at the committed time, so a repeated step has the same size.
    alive : callable
        Returns the present number of workers, and the index of this one: `sh.torchft.alive`,
        or any other.
    device : torch device or str, optional
        As for `MinibatchSource.next_minibatch`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh, sweephand.torch
    >>> source = sh.MinibatchSource({"x": np.arange(8)}, randomize=False, max_sweeps=1)
    >>> workers = iter([(2, 0), (1, 0), (2, 0)])  # one is lost in the first step, and back
    >>> steps = sh.torch.distributed.ElasticSteps(source, 4, lambda: next(workers))
    >>> for share in steps:
    ...     committed = len(share.ids) == 4 or share.nominal_time > 0
    ...     print(share["x"].values.tolist(), steps.current_position, committed)
    ...     steps.commit(committed)
    ...     if steps.current_position == 8:
    ...         break
    [0, 2] 0 False
    [0, 1, 2, 3] 0 True
    [4, 6] 4 True
    """

    def __init__(
        self,
        source: MinibatchSource,
        size: Size,
        alive: Callable[[], tuple[int, int]],
        *,
        device: object = None,
    ) -> None:
        check_function("alive", alive)
        self._source = source
        self._size = size_of(size, source.num_samples_per_sweep)
        self._alive = alive
        self._device = device
        self._committed = source.position
        self._is_open = False  # the source is past a step that is not committed
        self._was_moved = False  # by a state, since the step began

    def next(self) -> Minibatch:
        """Return this worker's share of the next step, falsy at the end of data.

        A step that was not committed is given back first.
        """
        if self._is_open:
            self.commit(False)
        num_partitions, index = self._alive()
        size = size_at(self._size, self._committed.time)
        share = self._source.next_minibatch(size, None, self._device, num_partitions, index)
        self._is_open = bool(share)
        return share

    def commit(self, is_committed: bool = True) -> None:
        """Count the step, or give it back: then it is delivered again.

        Raises
        ------
        RuntimeError
            If no step was begun.
        """
        if not self._is_open:
            raise RuntimeError("no step is open: next(), or the loop, begins one")
        if not is_committed:
            self._source.position = self._committed
        elif self._was_moved:
            self._source.position = self._behind(self._committed)
        self._committed = self._source.position
        self._is_open = self._was_moved = False

    @property
    def current_position(self) -> int:
        """Nominal time up to which steps are committed, in samples."""
        return self._committed.time

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the source after the last committed step."""
        return self._source.timeline.state_at(self._committed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where a state was taken; a step that is open is then that step.

        A worker that joins late gets the state of the others in the middle of its first step.
        """
        self._source.load_state_dict(state)
        self._committed = self._source.position
        self._was_moved = self._is_open

    def __iter__(self) -> Iterator[Minibatch]:
        """Iterate over shares; a share that was not committed comes again."""
        while share := self.next():
            yield share

    def _behind(self, position: Position) -> Position:
        """Return where the step ends that begins at a position."""
        plans = self._source.timeline.minibatches(position, self._size)
        for plan in plans:
            return plan.next_position
        return position
