"""Checkpoint states: one integer, and the conditions under which it means the same."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sweephand import _core
from sweephand.errors import StateError
from sweephand.maps import split_digest
from sweephand.source.options import Window

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.events.event_list import EventList
    from sweephand.layouts import Layout
    from sweephand.source.options import SourceOptions


ORDER_VERSION = 1
STATE_VERSION = 1
_PYTHON = sys.implementation.cache_tag or ""
_OPTIONAL = ("events", "functions")  # not in the dict where there are none


@dataclass(frozen=True)
class State:
    """State of a source: its position and its order; as a dict it is JSON of under 1 kB."""

    position: int  # nominal time in samples
    progress: list[int]  # what some layouts need besides: `docs/layouts.md`
    order_version: int
    # base names of the data, the streams as they are delivered, the layout: in words, with a
    # digest of all where there is no room for it
    names: str
    streams: str
    # how many sequences and samples there are, with a digest of all sizes; empty where they are
    # not known before chunks are loaded
    sizes: str
    # how many chunks there are, with a digest of their table; empty if the order does not
    # depend on it
    chunks: str
    randomize: bool
    seed: int
    window: str
    num_lanes: int
    layout: str
    version: int = STATE_VERSION
    # how many events there are, with their digest; empty, and not in the dict, if none
    events: str = ""
    # the version of Python and the functions of maps, filters and splits that it has read, each
    # with its digest, or the reason why it has none; likewise
    functions: str = ""

    @classmethod
    def at_start(
        cls,
        corpus: Corpus,
        layout: Layout,
        options: SourceOptions,
        window: Window,
    ) -> Self:
        """Return the state of a source that has delivered nothing."""
        one_block = window.chunks == 0 and window.samples == 0
        sizes_known = corpus.sizing.fingerprinted
        depends_on_chunks = (options.randomize and not one_block) or not sizes_known
        room = room_beside(layout.num_progress)
        names, digests = zip(*map(split_digest, corpus.names), strict=True)
        return cls(
            position=0,
            progress=[],
            order_version=ORDER_VERSION,
            names=Described.of(names),
            streams=Described.of([info.describe() for info in corpus.streams], room=room),
            sizes=describe_sizes(corpus.core) if sizes_known else "",
            chunks=describe_chunks(corpus.core) if depends_on_chunks else "",
            randomize=options.randomize,
            seed=options.randomization_seed,
            window=_describe_window(window),
            num_lanes=options.lanes,
            layout=_describe_layout(layout, room),
            functions=_describe_functions(names, digests),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON types."""
        values = {name: _plain(getattr(self, name)) for name in _kinds()}
        return {name: value for name, value in values.items() if name not in _OPTIONAL or value}

    @classmethod
    def from_dict(cls, state: object) -> Self:
        """Read a state that `to_dict` wrote."""
        if not isinstance(state, Mapping):
            raise StateError(f"a state must be a dict, got {type(state).__name__}")
        if state.get("version", STATE_VERSION) != STATE_VERSION:
            raise StateError(
                f"the state has version {state['version']!r}, "
                f"this library reads {STATE_VERSION}"
            )
        wanted = _kinds()
        for name, kind in wanted.items():
            if name in _OPTIONAL and name not in state:
                continue
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

    def check_same_order(self, here: State, events: EventList) -> None:
        """Refuse a state that was taken of another order than `here`, or of other `events`."""
        differing = []
        for name in _kinds():
            theirs, ours = getattr(self, name), getattr(here, name)
            same = ours.matches(theirs) if isinstance(ours, Described) else ours == theirs
            if name == "functions":
                # Given by version=, or the code of another version of Python.
                same |= not ours or theirs.partition(" ")[0] not in ("", _PYTHON)
            if name not in ("position", "progress", "version", "events") and not same:
                differing.append(_difference(name, ours, theirs))
        if difference := events.difference(self.events, self.position):
            differing.append(f"events differ: {difference}")
        if differing:
            raise StateError(
                f"the state was taken of another corpus or order: {'; '.join(differing)}"
            )


def _kinds() -> dict[str, type]:
    """Return the type of every field."""
    return {name: _TYPES[kind] for name, kind in State.__annotations__.items()}


def _describe_functions(names: Sequence[str], digests: Sequence[str]) -> Described | str:
    own = [f"{name} {one}" for name, one in zip(names, digests, strict=True) if one]
    return Described.of([_PYTHON, *own]) if own else ""


def _describe_window(window: Window) -> Described:
    described = Described.of([str(window)])
    whole = Window(0, 0, False)
    if window == whole:
        return described
    advice = "randomization_window_in_samples=sh.FULL_DATA_SWEEP"
    return described.with_advice(advice, lambda: Described.of([str(whole)]))


def _describe_layout(layout: Layout, room: int) -> Described:
    return Described.of([layout.describe()], layout.summary(), room)


def _difference(name: str, ours: object, theirs: object) -> str:
    """Describe how a field differs, in words where it has any."""
    here, there = words_of(ours), words_of(theirs)
    if isinstance(ours, Described) and (advice := ours.advice_on(str(theirs))):
        return f"{name} is {here!r} here and {there!r} in the state: {advice} goes on with it"
    if name == "functions":
        return (
            f"functions are {here!r} here and {there!r} in the state: their code, or what it "
            "uses, is another. To go on with those that do the same as then, give version= to "
            "all maps and filters"
        )
    if here == there:
        return f"{name} is {here!r} in both, but what that leaves out differs"
    return f"{name} is {here!r} here and {there!r} in the state"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    return str(value) if isinstance(value, str) else value


_TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "list[int]": list}


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
