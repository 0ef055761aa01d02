"""Checkpoint states: one integer, and what must be the same for it to mean the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from sweephand import _core
from sweephand.errors import StateError

ORDER_VERSION = 1
STATE_VERSION = 1

_LONGEST_TEXT = 96  # so that a state stays under 1 kB, of 64 buckets too


def fingerprint_text(parts: Sequence[str]) -> str:
    """Return the parts as they are if they are short, else their digest."""
    text = " ".join(parts)
    if len(text) <= _LONGEST_TEXT:
        return text
    digest = _core.Digest()
    for part in parts:
        encoded = os.fsencode(part)
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hex()


@dataclass(frozen=True)
class State:
    """Where a source stands, and in which order; as a dict it is JSON of under 1 kB.

    Attributes
    ----------
    position : int
        Nominal time in samples.
    progress : list of int
        What some layouts need besides: ``docs/layouts.md``.
    names, streams : str
        Base names of the data, and the streams as they are delivered.
    sizes : str
        Digest of the sizes of all sequences; empty where they are not known before chunks are
        loaded.
    chunks : str
        Digest of the chunk table; empty if the order does not depend on it.
    """

    position: int
    progress: list[int]
    order_version: int
    names: str
    streams: str
    sizes: str
    chunks: str
    randomize: bool
    seed: int
    window: str
    num_lanes: int
    layout: str
    version: int = STATE_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: object) -> Self:
        """Read a state that `to_dict` wrote.

        Raises
        ------
        StateError
            If it is no dict, a key is missing or unknown, a value is of the wrong type, or
            another version wrote it.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a state must be a dict, got {type(state).__name__}")
        if state.get("version", STATE_VERSION) != STATE_VERSION:
            raise StateError(
                f"the state has version {state['version']!r}, "
                f"this library reads {STATE_VERSION}"
            )
        wanted = {field.name: _TYPES[str(field.type)] for field in fields(cls)}
        for name, kind in wanted.items():
            if name not in state:
                raise StateError(f"the state has no key {name!r}")
            if type(state[name]) is not kind:
                raise StateError(
                    f"the state's {name!r} must be of type {kind.__name__}, got {state[name]!r}"
                )
        unknown = set(state) - set(wanted)
        if unknown:
            raise StateError(
                f"the state has unknown keys: {', '.join(map(repr, sorted(map(str, unknown))))}"
            )
        if not 0 <= state["position"] < 2**63:
            raise StateError(
                f"the state's 'position' must be in [0, 2^63), got {state['position']}"
            )
        for number in state["progress"]:
            if type(number) is not int or not 0 <= number < 2**63:
                raise StateError(
                    f"the state's 'progress' must be integers in [0, 2^63), got {number!r}"
                )
        return cls(**state)

    def check_same_order(self, here: State) -> None:
        """Refuse a state that was taken of another order than `here`.

        Raises
        ------
        StateError
            Naming every field that differs, with both values.
        """
        theirs, ours = asdict(self), asdict(here)
        differing = [
            f"{name} is {ours[name]!r} here and {theirs[name]!r} in the state"
            for name in ours
            if name not in ("position", "progress", "version") and ours[name] != theirs[name]
        ]
        if differing:
            raise StateError(
                f"the state was taken of another corpus or order: {'; '.join(differing)}"
            )


_TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "list[int]": list}
