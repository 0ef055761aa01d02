"""A map as it was asked for: a function of a sequence, and what it does to sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweephand.checks import check_flag, check_function, check_int
from sweephand.corpus.streams import StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams
from sweephand.maps.key import Key
from sweephand.maps.known_map import KnownMap
from sweephand.maps.stream_sequences import StreamSequences

Sequences = Mapping[str, StreamSequences]
"""Per stream the samples of every sequence: arrays (samples, *shape), or CSR matrices."""

SizeOf = Callable[[Mapping[str, int], Key], int]


@dataclass(frozen=True)
class SequenceMap:
    """A function of a sequence.

    Attributes
    ----------
    function : callable
        Takes a dict of arrays, with ``random`` also a `Key`, and returns a dict; ``batched`` a
        dict of lists, and a list of keys.
    name : str
    version : int
    streams : StreamDefs or None
        What it returns; None: as the first sequence tells.
    size : {"same", "measured"} or callable
    cache : bool
        Whether what it makes is kept.
    kind : {"map", "filter"}
    """

    function: Callable[..., Any]
    name: str
    version: int = 1
    random: bool = False
    batched: bool = False
    streams: StreamDefs | None = None
    size: Literal["same", "measured"] | SizeOf = "same"
    cache: bool = False
    kind: Literal["map", "filter"] = "map"

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def fingerprint(self) -> str:
        """What identifies it in states."""
        return f"{self.kind} {self.name} {self.version}"


def make_map(
    function: Callable[..., Any],
    name: str | None,
    version: int,
    *,
    random: bool,
    batched: bool,
    streams: StreamsLike | None,
    size: object,
    cache: bool,
) -> SequenceMap:
    """Return a map, its arguments checked.

    Raises
    ------
    TypeError
        If one is of a wrong type.
    ValueError
        If a value is wrong, or the function has no name and none is given.
    """
    check_function("the map", function)
    if size not in ("same", "measured") and not callable(size):
        raise ValueError(f"size must be 'same', 'measured' or a function, got {size!r:.60}")
    if isinstance(function, KnownMap):
        random = random or function.is_random
        size = function.size if size == "same" else size
    if check_flag("cache", cache) and random:
        raise ValueError("what a random map makes differs in every sweep: it cannot be kept")
    return SequenceMap(
        function=function,
        name=name_of(function, name),
        version=check_int("version", version, 0, 2**63),
        cache=cache,
        random=check_flag("random", random),
        batched=check_flag("batched", batched),
        streams=None if streams is None else choose_streams(streams, StreamDefs),
        size=size,
    )


def make_filter(predicate: Callable[..., Any], name: str | None, version: int) -> SequenceMap:
    """Return a filter, its arguments checked as those of `make_map`."""
    check_function("the filter", predicate)
    return SequenceMap(
        function=predicate,
        name=name_of(predicate, name),
        version=check_int("version", version, 0, 2**63),
        kind="filter",
    )


def name_of(function: Callable[..., Any], name: str | None) -> str:
    """Return the name of a map: the one that is given, or that of its function.

    Raises
    ------
    TypeError
        If the name is no text.
    ValueError
        If there is none.
    """
    if name is None:
        name = function.name if isinstance(function, KnownMap) else None
        name = name or getattr(function, "__name__", None) or type(function).__name__
        if name == "<lambda>":
            raise ValueError(
                "a lambda has no name, and keys and states depend on it: give one, such as "
                "name='crop'"
            )
    if not isinstance(name, str):
        raise TypeError(f"the name of a map is text, got {name!r:.60}")
    if not name:
        raise ValueError("the name of a map must not be empty")
    return name
