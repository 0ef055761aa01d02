"""Sources under torchft, which knows the live replicas and the steps that count."""

from collections.abc import Callable
from typing import Any

__all__ = ["alive"]


def alive(manager: Any, share: tuple[int, int] = (1, 0)) -> Callable[[], tuple[int, int]]:
    """Return a function that asks a manager for its share, for `ElasticSteps`.

    Parameters
    ----------
    manager : torchft.Manager
        Its quorum has begun when a share is asked for: by ``manager.start_quorum()``, or
        ``zero_grad()`` of torchft's optimizer. Replicas begin alike, and it is made with
        ``init_sync=False``: else all but one count for nothing in the very first step.
    share : (int, int)
        How many workers share the data inside of a replica, and which of them this is; those
        of ``coordinate(mesh)`` for example.

    Returns
    -------
    callable
        Returns (K, rank) over all replicas. It raises RuntimeError if there is no quorum.

    Examples
    --------
    >>> import sweephand as sh
    >>> class Manager:
    ...     def num_participants(self): return 3
    ...     def participating_rank(self): return 2
    >>> sh.torchft.alive(Manager(), share=(2, 1))()
    (6, 5)
    """
    inside, index = share

    def ask() -> tuple[int, int]:
        replicas = manager.num_participants()
        if replicas < 1:
            raise RuntimeError(
                "torchft has no quorum yet: call manager.start_quorum(), or zero_grad() of its "
                "optimizer, before a share is asked for"
            )
        # A replica that is being healed has gradients of its own weighted by zero, and gets the
        # state of other replicas before it commits: it may read any share.
        replica = manager.participating_rank() or 0
        return replicas * inside, replica * inside + index

    return ask


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
