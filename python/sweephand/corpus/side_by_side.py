"""Concurrent calls of one function that waits for disks or releases the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


def side_by_side(
    function: Callable[[list[Given]], list[Found]], given: list[Given], num_threads: int
) -> list[Found]:
    """Apply a function to the parts of a list, on up to `num_threads` threads.

    The threads end with the calls: a process that is forked later has none to miss.
    """
    runs = min(num_threads, len(given))
    if runs < 2:
        return function(given)
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    found: list[Any] = [None] * len(given)
    with ThreadPoolExecutor(runs, "sweephand-read") as threads:
        parts = threads.map(function, [given[run::runs] for run in range(runs)])
        for run, part in enumerate(parts):
            found[run::runs] = part
    return found
