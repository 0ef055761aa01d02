"""The streams that follow from the first lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from sweephand.corpus.objects import is_nested
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.units.line_scan import BOM
from sweephand.errors import DataError

_HEAD_BYTES = 1 << 20
_LINE_BYTES = 64 << 20  # of a first line that is longer than the head
_PLAIN = {int, float, str, bool}
_RAGGED = (-1,)  # lists of no one length make no samples


def guess_fields(
    read_head: Callable[[int], bytes], path: str
) -> tuple[StreamDefs, dict[str, str]]:
    """Return the fields of the first lines that can be served, and those that cannot.

    `read_head` returns the first bytes of a file, as many as are asked for.

    A list of equally long lists of numbers is a sequence of samples of that shape. A field that
    is an object in one of the lines, or a list that holds some, is a Python object.
    """
    shapes: dict[str, tuple[int, ...] | None] = {}
    nested: set[str] = set()
    others: dict[str, str] = {}
    wrong: str | None = None
    for line in _first_lines(read_head):
        try:
            members = json.loads(line)
        except (ValueError, RecursionError) as error:
            wrong = wrong or f"{error}"
            continue
        if not isinstance(members, dict):
            wrong = wrong or f"it is a {type(members).__name__}"
            continue
        for name, value in members.items():
            if is_nested(value):
                nested.add(name)
                shapes.setdefault(name, None)
            elif (why := _refusal(value)) is None:
                shapes.setdefault(name, _shape_of(value))
            else:
                others.setdefault(name, why)
    if shapes:
        streams = {
            name: StreamDef(dtype=object) if name in nested else StreamDef(shape=shape)
            for name, shape in shapes.items()
        }
        return StreamDefs(streams), {n: why for n, why in others.items() if n not in shapes}
    if wrong is not None:
        wrong += "; JSON lines have a whole one in every line"
        raise DataError(f"the first line is no JSON object: {wrong}", path, line=1)
    raise DataError("the first lines have no numbers and no text", path, line=1)


def _first_lines(read_head: Callable[[int], bytes]) -> list[bytes]:
    size = _HEAD_BYTES
    head = read_head(size)
    if b"\n" not in head.strip() and len(head) == size:
        size = _LINE_BYTES
        head = read_head(size)
    if len(head) == size and b"\n" in head:
        head = head[: head.rindex(b"\n")]  # the last line is not whole
    return [line for line in head.removeprefix(BOM).splitlines() if line.strip()]


def _refusal(value: object) -> str | None:
    """Return why a value cannot be served; None if it can."""
    if value is None:
        return "it is null"
    if not isinstance(value, list):
        return None
    if not value:
        return "it is an empty list"
    kinds = {*map(type, value)}
    if kinds <= _PLAIN and not (str in kinds and len(kinds) > 1):
        return None
    if kinds <= _PLAIN or any(map(_refusal, value)):
        return "its items are of several kinds; declare StreamDef(dtype=object)"
    return None if _shape_of(value) is not _RAGGED else "its lists differ in length"


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a sample if the lists are regular; else None."""
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return None
    try:
        return np.array(value).shape[1:]
    except ValueError:
        return _RAGGED
