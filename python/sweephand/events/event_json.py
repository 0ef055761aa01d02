"""A list of events as JSON that is read strictly, with a checksum.

The checksum is that of what the JSON means, so spaces and the order of keys do not matter::

    {"version": 1, "checksum": BLAKE2b-128 of the rest, "events": [...]}

and the rest is the same object without it, its keys sorted, without spaces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from sweephand.events.event import Event, event_of

_VERSION = 1


def to_text(events: Iterable[Event]) -> str:
    """Return the text of a file of events."""
    content = {"version": _VERSION, "events": [event.to_json() for event in events]}
    sealed = {"version": _VERSION, "checksum": _checksum(content), "events": content["events"]}
    return json.dumps(sealed, indent=1, allow_nan=False) + "\n"


def from_text(text: str, *, trusted: bool = False) -> list[Event]:
    """Return the events of a text.

    Parameters
    ----------
    trusted : bool
        Whether its checksum does not matter.

    Raises
    ------
    TypeError, ValueError
        If it is no such text, or has another checksum.
    """
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        if not isinstance(content, dict) or content.get("version") != _VERSION:
            raise ValueError("it is no list of events of version 1")
        found = content.pop("checksum", None)
        if content.keys() != {"version", "events"} or not isinstance(content["events"], list):
            raise ValueError(
                "it has 'version', 'checksum' and a list of 'events', nothing else"
            )
        if not trusted and found != _checksum(content):
            raise ValueError(
                "its checksum is not that of its events: it is damaged, or was edited; look at "
                "it, and 'sweephand events FILE renew' gives it the checksum that it needs"
            )
        return [event_of(one) for one in content["events"]]
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except ZeroDivisionError:
        raise ValueError("a weight is divided by 0") from None


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} comes twice")
    return made


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
