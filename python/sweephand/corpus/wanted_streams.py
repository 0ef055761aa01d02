"""The streams that a user asks for, as definitions: the rule for all that takes streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from typing import TypeVar

from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.streams import StreamInfo, definitions_of

StreamsLike = StreamDefs | Mapping[str, StreamDef] | Sequence[str] | Sequence[StreamInfo]
"""Streams as a user names them: definitions by name, names alone, or infos as in CNTK."""


Data = TypeVar("Data")

_LISTS: tuple[type, ...] = (Sequence, KeysView)


def stream_per_name(names: Iterable[str]) -> StreamDefs:
    """Return a stream for every name, as the data have it."""
    return StreamDefs({name: StreamDef() for name in names})


def define_streams(definitions: StreamsLike | None, names: Iterable[str]) -> StreamDefs:
    """Return the streams of data of these names: as they are defined, and the rest as it is."""
    names = list(names)
    defined = choose_streams(definitions, lambda: stream_per_name(names))
    known = {*defined, *(one.field for one in defined.values())}
    return StreamDefs({**defined, **stream_per_name(one for one in names if one not in known)})


def only_chosen(data: Mapping[str, Data], streams: StreamDefs) -> dict[str, Data]:
    """Return the data of which the streams are made; all of them if some are absent."""
    fields = {one.field or name for name, one in streams.items()}
    return {name: data[name] for name in data if name in fields or not fields <= data.keys()}


def choose_streams(streams: StreamsLike | None, guess: Callable[[], StreamDefs]) -> StreamDefs:
    """Return the definitions of the streams that are wanted.

    Parameters
    ----------
    streams : StreamDefs, dict of StreamDef, list of str or StreamInfo, or None
        A name alone takes its definition from the data; None takes all streams of the data.
    guess : callable
        Returns the streams of the data; called only if needed.

    Raises
    ------
    TypeError
        If it is nothing of that, saying what to write.
    ValueError
        If there is no stream, or one is listed twice.
    """
    if streams is None:
        return guess()
    if isinstance(streams, str):
        raise TypeError(f"streams is a list of names: write [{streams!r:.60}]")
    if isinstance(streams, StreamDef):
        raise TypeError("a stream has a name: write StreamDefs(NAME=StreamDef(...))")
    if isinstance(streams, StreamDefs):
        chosen = streams
    elif isinstance(streams, Mapping):
        chosen = StreamDefs(streams)
    elif isinstance(streams, _LISTS):
        is_infos = any(isinstance(one, StreamInfo) for one in streams)
        chosen = definitions_of(streams) if is_infos else _named(streams, guess)
    else:
        raise TypeError(
            "streams must be StreamDefs, a dict of StreamDef or a list of names, got "
            f"{type(streams).__name__}"
        )
    if not chosen:
        raise ValueError("give at least one stream; without streams= all that there are come")
    for name, one in chosen.items():
        if one.only_for:
            raise ValueError(f"stream {name!r}: {one.only_for}")
    return chosen


def _named(given: Iterable[object], guess: Callable[[], StreamDefs]) -> StreamDefs:
    names: list[str] = []
    for name in given:
        if not isinstance(name, str):
            raise TypeError(
                f"a list of streams holds names or StreamInfo, got {type(name).__name__}: for "
                "more than names write StreamDefs(NAME=StreamDef(...))"
            )
        if name in names:
            raise ValueError(f"stream {name!r} is listed twice")
        names.append(name)
    known = guess() if names else {}
    return StreamDefs({name: known.get(name) or StreamDef() for name in names})
