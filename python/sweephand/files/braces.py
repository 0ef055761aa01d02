"""Brace patterns, ``train-{000000..000099}.tar``, as shells and WebDataset expand them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sweephand.files.urls import is_url

MOST_PATHS = 1_000_000
"""A pattern that stands for more is refused."""

_NUMBERS = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?", re.ASCII)
_LETTERS = re.compile(r"([a-zA-Z])\.\.([a-zA-Z])")


def expand_braces(spec: str) -> list[str]:
    """Expand the brace patterns of a path or URL.

    A path that exists is taken literally, and so are braces without a comma or a range and
    the query of a URL.

    Raises
    ------
    ValueError
        If there are more than `MOST_PATHS`.

    Examples
    --------
    >>> expand_braces("train-{08..10}.tar"), expand_braces("{a,b{1,2}}.csv")
    (['train-08.tar', 'train-09.tar', 'train-10.tar'], ['a.csv', 'b1.csv', 'b2.csv'])
    """
    if "{" not in spec or os.path.exists(spec):  # noqa: PTH110 - as is_url
        return [spec]
    path, mark, query = spec.partition("?") if is_url(spec) else (spec, "", "")
    return [one + mark + query for one in _expand(path)]


def _expand(text: str) -> list[str]:
    for begin, end in _pairs(text):
        parts = _alternatives(text[begin + 1 : end])
        if parts is not None:
            inner = [one for part in parts for one in _expand(part)]
            tails = _expand(text[end + 1 :])
            _refuse_many(len(inner) * len(tails))
            return [text[:begin] + one + tail for one in inner for tail in tails]
    return [text]


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over the braces that close, the leftmost first."""
    opened: list[int] = []
    pairs = []
    for at, letter in enumerate(text):
        if letter == "{":
            opened.append(at)
        elif letter == "}" and opened:
            pairs.append((opened.pop(), at))
    return iter(sorted(pairs))


def _alternatives(content: str) -> list[str] | None:
    """Return the alternatives in the content of braces; None where these are plain letters."""
    if numbers := _NUMBERS.fullmatch(content):
        return _range_of(*numbers.groups())
    if letters := _LETTERS.fullmatch(content):
        first, last = map(ord, letters.groups())
        step = 1 if last >= first else -1
        return [chr(code) for code in range(first, last + step, step)]
    parts = [""]
    depth = 0
    for letter in content:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts if len(parts) > 1 else None


def _range_of(first: str, last: str, step: str | None) -> list[str]:
    """Return numbers with as many digits as the bounds have, if one begins with a zero."""
    begin, end = int(first), int(last)
    stride = abs(int(step or 1)) or 1
    _refuse_many(abs(end - begin) // stride + 1)
    is_padded = any(re.match(r"-?0\d", bound) for bound in (first, last))
    width = max(len(first), len(last)) if is_padded else 0
    numbers = range(begin, end + 1, stride) if begin <= end else range(begin, end - 1, -stride)
    return [f"{number:0{width}d}" for number in numbers]


def _refuse_many(count: int) -> None:
    if count > MOST_PATHS:
        raise ValueError(f"the braces stand for {count} paths; at most {MOST_PATHS} are listed")
