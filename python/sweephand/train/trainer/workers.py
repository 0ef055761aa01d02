"""The workers that train together."""

from collections.abc import Callable, Sequence
from typing import Any


class Workers:
    """The workers that train together; every one of them makes the same calls in turn.

    This is the only worker there is; torch has a subclass for several.
    """

    count = 1
    index = 0

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sum over all workers of each value."""
        return list(values)

    def sum_floats(self, values: Sequence[float]) -> list[float]:
        """Return the sum over all workers of each value."""
        return list(values)

    def gather(self, state: Any) -> list[Any]:
        """Return the object of each worker, worker 0 first."""
        return [state]


def on_first(workers: Workers, action: Callable[[], object]) -> None:
    """Run an action on worker 0 while the others wait; if it fails, all of them raise.

    The others raise RuntimeError, which says what failed on worker 0.
    """
    error = None
    if workers.index == 0:
        try:
            action()
        except Exception as caught:
            error = caught
    message = workers.gather(None if error is None else repr(error))[0]
    if error is not None:
        raise error
    if message is not None:
        raise RuntimeError(f"worker 0 failed: {message}")
