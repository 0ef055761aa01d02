"""Corpora that a script makes: `SCRIPT.py:NAME` in place of a path."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweephand.deserializers.deserializer import Deserializer
from sweephand.source.source import MinibatchSource

_IN_SCRIPT = re.compile(r"(?P<script>.+\.py):(?P<name>[A-Za-z_]\w*)")


def names_script(paths: Sequence[str]) -> bool:
    """Return True if the paths are one script."""
    found = _IN_SCRIPT.fullmatch(paths[0]) if len(paths) == 1 else None
    return found is not None and Path(found["script"]).is_file() and not Path(paths[0]).exists()


def of_script(
    paths: Sequence[str], kinds: tuple[type[Deserializer | MinibatchSource], ...]
) -> Deserializer | MinibatchSource | None:
    """Return the corpus or source that a script makes; None if no script is named.

    The script is run, but not as a program: its part after ``if __name__ == "__main__"`` is
    left out. A function of the name is called. ValueError if there is no such name in it, or it
    is of none of the kinds.
    """
    if not names_script(paths):
        return None
    script, name, names = _run(paths[0])
    if name not in names:
        known = ", ".join(key for key, one in names.items() if isinstance(one, kinds))
        raise ValueError(f"{script} has no {name!r}; its corpora are: {known or 'none'}")
    found = names[name]
    if not isinstance(found, kinds) and callable(found):
        found = found()
    if not isinstance(found, kinds):
        kind = type(found).__name__
        raise ValueError(f"{paths[0]} is {kind}, and neither a corpus nor returns one")
    return found


def object_of_script(path: str) -> Any:
    """Return the object that ``SCRIPT.py:NAME`` names.

    ValueError if it names no corpus, or the name is unknown.
    """
    script, name, names = _run(path)
    if name not in names:
        there = ", ".join(key for key in names if not key.startswith("_"))
        raise ValueError(f"{script} has no {name!r}; it has: {there or 'none'}")
    return names[name]


def _run(path: str) -> tuple[str, str, dict[str, Any]]:
    """Run the script of ``SCRIPT.py:NAME``; return its path, the name, and all its names."""
    found = _IN_SCRIPT.fullmatch(path)
    if found is None:
        raise ValueError(f"{path!r} names no object of a script, as SCRIPT.py:NAME does")
    names = runpy.run_path(found["script"], run_name="__sweephand__")
    return found["script"], found["name"], names
