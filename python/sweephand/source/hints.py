"""Hints at valid settings that are rarely meant."""

from __future__ import annotations

import sys
import warnings

from sweephand.errors import SweephandHint


class Hints:
    """Gives each hint of a source once.

    Attributes
    ----------
    has_run_out : bool
        A loop over minibatches has come to the end of data.
    """

    def __init__(self) -> None:
        self.has_run_out = False
        self._given: set[str] = set()

    def give(self, hint: str) -> None:
        """Warn of something at the line of the user's code, unless that was done before."""
        if hint in self._given:
            return
        self._given.add(hint)
        warnings.warn(hint, SweephandHint, stacklevel=level_of_user())


def level_of_user() -> int:
    """Return the ``stacklevel`` by which the caller warns at the line of the user's code."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("sweephand."):
        level += 1
    return level
