"""Descriptions in a state: words for people, and a digest that decides."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Self

from sweephand import _core

_ROOM = 96  # bytes of JSON for a text, so that a state stays under 1 kB, of 64 buckets too
_MOST_PROGRESS = 64
_DIGEST = r"(?s)(?P<words>.*) #(?P<digest>[0-9a-f]{16})"
_DIGITS = 16


class Described(str):
    """Description in a state: words for people, and a digest that decides.

    Where all words have room there is no digest.
    """

    __slots__ = ("_digest", "_others", "_whole")
    _digest: str
    _whole: str | None
    _others: dict[str, Callable[[], Described]]

    @classmethod
    def of(cls, parts: Sequence[str], words: str | None = None, room: int = _ROOM) -> Self:
        """Describe by parts, as they are if they are short; else by as many words as fit."""
        whole = " ".join(parts)
        encoded = map(os.fsencode, parts)
        digest = _core.base.Digest()
        digest.update(b"".join(len(one).to_bytes(8, "little") + one for one in encoded))
        if _fits(whole, room):
            return cls._make(whole, digest.hex(), whole)
        tail = f" #{digest.hex()[:_DIGITS]}"
        shown = _cut(words or whole, room - len(tail))
        return cls._make(shown + tail, digest.hex(), whole)

    @classmethod
    def by_digest(cls, words: str, digest: str) -> Self:
        """Describe an object that has a digest already, in few words."""
        return cls._make(f"{words} #{digest[:_DIGITS]}", digest, None)

    @classmethod
    def _make(cls, text: str, digest: str, whole: str | None) -> Self:
        made = cls(text)
        made._digest, made._whole, made._others = digest, whole, {}
        return made

    def with_advice(self, advice: str, other: Callable[[], Described]) -> Self:
        """Return the same, with advice for a state that describes the other."""
        made = self._make(str(self), self._digest, self._whole)
        made._others = self._others | {advice: other}
        return made

    def advice_on(self, description: str) -> str:
        """Return advice on matching the description in a state; "" if there is none."""
        found = (
            advice for advice, other in self._others.items() if other().matches(description)
        )
        return next(found, "")

    def matches(self, description: str) -> bool:
        """Return True if a state describes the same, in words or by its digest."""
        if description in (self, self._whole):
            return True
        found = re.fullmatch(_DIGEST, description)
        return found is not None and self._digest.startswith(found["digest"])


def room_beside(num_progress: int) -> int:
    """Return the room for each of two texts beside `num_progress` numbers of progress."""
    return _ROOM + max(0, _MOST_PROGRESS - num_progress) * 5 // 2


def describe_sizes(corpus: _core.index.Corpus) -> Described:
    """Describe the sizes of all sequences."""
    words = f"{corpus.num_sequences} sequences, {corpus.num_samples} samples"
    return Described.by_digest(words, corpus.fingerprint_sizes())


def describe_chunks(corpus: _core.index.Corpus) -> Described:
    """Describe the chunk table."""
    return Described.by_digest(f"{corpus.num_chunks} chunks", corpus.fingerprint_chunks())


def _fits(text: str, room: int) -> bool:
    import json  # only here: most loops take no state

    return len(text) <= room and len(json.dumps(text, allow_nan=False)) - 2 <= room


def _cut(text: str, room: int) -> str:
    if _fits(text, room):
        return text
    ellipsis = "..."
    text = text[:room]
    while not _fits(text, room - len(ellipsis)):
        text = text[:-1]
    return text + ellipsis


def words_of(value: object) -> object:
    """Return the words of a field without its digest."""
    found = re.fullmatch(_DIGEST, value) if isinstance(value, str) else None
    return value if found is None else found["words"]
