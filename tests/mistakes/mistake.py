"""A mistake that a newcomer makes: the call, and what its message must say.

The tables beside this file are the list of them; each is tried by `assert_said`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

LONGEST_MESSAGE = 500


@dataclass(frozen=True)
class Mistake:
    """One wrong call. `call` gets an empty folder to put files in."""

    name: str
    call: Callable[[Path], object]
    error: type[Exception]
    says: tuple[str, ...]  # words that the message must hold: what was wrong, what to write


def each(mistakes: list[Mistake]) -> pytest.MarkDecorator:
    """Parametrize a test with `mistake` over `mistakes`, by their names."""
    return pytest.mark.parametrize("mistake", mistakes, ids=lambda mistake: mistake.name)


def assert_said(mistake: Mistake, folder: Path) -> None:
    """The call fails with its error, in one readable line that names the way out."""
    with pytest.raises(mistake.error) as caught:
        mistake.call(folder)
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert len(message) <= LONGEST_MESSAGE, message
    missing = [words for words in mistake.says if words not in message]
    assert not missing, f"{message!r} lacks {missing}"
