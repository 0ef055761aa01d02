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


def corpus_of_script(paths: Sequence[str]) -> Deserializer | None:
    """Return the corpus that a script makes; None if no script is named.

    The script is run, but not as a program: what stands behind ``if __name__ == "__main__"`` is
    left out.

    Raises
    ------
    ValueError
        If there is no such name in it, or it is no corpus.
    """
    if not names_script(paths):
        return None
    found = _named(paths[0], (Deserializer,))
    assert isinstance(found, Deserializer)
    return found


def of_script(paths: Sequence[str]) -> Deserializer | MinibatchSource | None:
    """Return the same, or the source that a script makes in place of a corpus."""
    if not names_script(paths):
        return None
    return _named(paths[0], (Deserializer, MinibatchSource))


def object_of_script(path: str) -> Any:
    """Return the object that ``SCRIPT.py:NAME`` names.

    Raises
    ------
    ValueError
        If it names none, or there is none of the name.
    """
    found = _IN_SCRIPT.fullmatch(path)
    if found is None:
        raise ValueError(f"{path!r} names no object of a script, as SCRIPT.py:NAME does")
    names = runpy.run_path(found["script"], run_name="__sweephand__")
    if found["name"] not in names:
        there = ", ".join(name for name in names if not name.startswith("_"))
        raise ValueError(
            f"{found['script']} has no {found['name']!r}; it has: {there or 'none'}"
        )
    return names[found["name"]]


def _named(
    path: str, kinds: tuple[type[Deserializer | MinibatchSource], ...]
) -> Deserializer | MinibatchSource:
    """Return the object of a script by name, or its result if it is a function."""
    found = _IN_SCRIPT.fullmatch(path)
    assert found is not None
    names = runpy.run_path(found["script"], run_name="__sweephand__")
    if found["name"] not in names:
        known = [name for name, one in names.items() if isinstance(one, kinds)]
        raise ValueError(
            f"{found['script']} has no {found['name']!r}; its corpora are: "
            f"{', '.join(known) or 'none'}"
        )
    one = names[found["name"]]
    if not isinstance(one, kinds) and callable(one):
        one = one()
    if not isinstance(one, kinds):
        kind = type(one).__name__
        raise ValueError(f"{path} is {kind}, and neither a corpus nor returns one")
    return one
