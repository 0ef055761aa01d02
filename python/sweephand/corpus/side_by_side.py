"""Calls of one function side by side, where it waits for disks or lets others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


def side_by_side(
    function: Callable[[Given], Found], given: Sequence[Given], num_threads: int
) -> list[Found]:
    """Return what a function returns for each, called by so many threads.

    The threads end with the calls: a process that is forked later has none to miss.
    """
    if len(given) < 2 or num_threads < 2:
        return [function(one) for one in given]
    from concurrent.futures import ThreadPoolExecutor  # only here, as it brings logging

    with ThreadPoolExecutor(min(num_threads, len(given)), "sweephand-read") as threads:
        return list(threads.map(function, given))
