"""Python objects as JSON has them: kept as its bytes in columns, made anew where they are used.

Nothing is unpickled or evaluated: an object is a dict, a list, a text, a number, True, False or
None, and what is within.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData, column_of_bytes

OBJECT = np.dtype(object)


class ObjectText(list[bytes]):
    """The sample of a stream of objects, as JSON; a list of one text."""


def is_nested(value: object) -> bool:
    """Return True if a value, or a value in a list at any depth, has named members."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and any(map(is_nested, value))


def object_text(value: object) -> bytes:
    """Return an object as JSON, in UTF-8, or ValueError; a value that lacks is None."""
    if value is LACKING:
        return b"null"
    import json  # only here: few streams hold objects

    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            default=_plain,
        )
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds text with half a surrogate pair") from None
    except RecursionError:
        raise ValueError("holds objects within objects, too deep to be read") from None
    except TypeError as error:
        raise ValueError(f"cannot be an object: {error}") from None
    except ValueError as error:
        if "JSON compliant" in str(error):
            raise ValueError("holds a number that is not finite") from None
        raise


def _plain(value: object) -> object:
    """Return the replacement for a value that JSON has no form of."""
    if isinstance(value, Unusable):
        raise ValueError(f"holds a member that {value.reason}")
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"holds a {type(value).__name__}, which JSON has no form of")


def objects_column(texts: Sequence[bytes]) -> ColumnData:
    """Return objects, a sample for each sequence, by their texts."""
    return replace(column_of_bytes(texts), holds_objects=True)


def column_of_values(values: Sequence[object]) -> tuple[ColumnData, dict[int, str]]:
    """Return values as objects, and the error of each impossible value by its number."""
    texts: list[bytes] = []
    wrong: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            if isinstance(value, Unusable):
                raise ValueError(value.reason)
            texts.append(object_text(value))
        except ValueError as error:
            wrong[number] = str(error)
            texts.append(b"null")
    return objects_column(texts), wrong


def parsed(texts: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the objects of texts."""
    objects = np.empty(len(texts), object)
    for number, text in enumerate(texts):
        objects[number] = parse_object(text)
    return objects


def parse_object(text: bytes) -> Any:
    """Return the object of a text; None for a text that was never given, as in a gap."""
    import json

    return json.loads(text) if text else None


LACKING: Any = object()
"""The value of a member that is not there."""


@dataclass(frozen=True)
class Unusable:
    """The value of a member that is there and cannot be had, with the reason."""

    reason: str


def splits_of(name: str) -> Iterator[tuple[str, str | None]]:
    """Iterate over the readings of a name, a member or an id of it; the longest member first.

    Examples
    --------
    >>> list(splits_of("a.b.c"))
    [('a.b.c', None), ('a.b', 'c'), ('a', 'b.c')]
    """
    yield name, None
    at = name.rfind(".")
    while at > 0:
        yield name[:at], name[at + 1 :]
        at = name.rfind(".", 0, at)


def member_at(members: Mapping[Any, Any], name: str) -> Any:
    """Return a member of an object at any depth; `LACKING`, or `Unusable` within no object."""
    found = LACKING
    for outer, inner in splits_of(name):
        value = members.get(outer, LACKING)
        if inner is None:
            if value is not LACKING:
                return value
        elif isinstance(value, Mapping):
            own = member_at(value, inner)
            if own is not LACKING and not isinstance(own, Unusable):
                return own
            found = own if found is LACKING else found
        elif isinstance(value, Unusable):
            found = value
        elif value is not LACKING:
            kind = "null" if value is None else type(value).__name__
            found = Unusable(f"lies in {outer!r}, which is {kind}, no object")
    return found
