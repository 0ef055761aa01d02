"""Checkpoint states: one integer, and the conditions under which it means the same."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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


_ROOM = 96  # bytes of JSON for a text, so that a state stays under 1 kB, of 64 buckets too
_DIGITS = 16
_DIGEST = r"(?s)(.*) #[0-9a-f]{16}"
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
        cls, corpus: Corpus, layout: Layout, options: SourceOptions, window: Window
    ) -> Self:
        """Return the state of a source that has delivered nothing."""
        one_block = window.chunks == 0 and window.samples == 0
        sizes_known = corpus.sizing.fingerprinted
        depends_on_chunks = (options.randomize and not one_block) or not sizes_known
        names, digests = zip(*map(split_digest, corpus.names), strict=True)
        functions = [f"{name} {one}" for name, one in zip(names, digests, strict=True) if one]
        core = corpus.core
        counts = f"{core.num_sequences} sequences, {core.num_samples} samples"
        return cls(
            position=0,
            progress=[],
            order_version=ORDER_VERSION,
            names=described(*names),
            streams=described(*(info.describe() for info in corpus.streams)),
            sizes=f"{counts} #{core.fingerprint_sizes()[:_DIGITS]}" if sizes_known else "",
            chunks=(
                f"{core.num_chunks} chunks #{core.fingerprint_chunks()[:_DIGITS]}"
                if depends_on_chunks
                else ""
            ),
            randomize=options.randomize,
            seed=options.randomization_seed,
            window=str(window),
            num_lanes=options.lanes,
            layout=described(layout.describe()),
            functions=described(_PYTHON, *functions) if functions else "",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON types."""
        values = asdict(self)
        return {name: value for name, value in values.items() if name not in _OPTIONAL or value}

    @classmethod
    def from_dict(cls, state: object) -> Self:
        """Read a state that `to_dict` wrote."""
        if not isinstance(state, Mapping):
            raise StateError(f"a state must be a dict, got {type(state).__name__}")
        if state.get("version", STATE_VERSION) != STATE_VERSION:
            found = state["version"]
            raise StateError(f"the state has version {found!r}, not {STATE_VERSION}")
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
        unknown = sorted(map(repr, set(state) - set(wanted)))
        if unknown:
            raise StateError(f"the state has unknown keys: {', '.join(unknown)}")
        for name, numbers in (
            ("position", [state["position"]]),
            ("progress", state["progress"]),
        ):
            for number in numbers:
                if type(number) is not int or not 0 <= number < 2**63:
                    raise StateError(
                        f"the state's {name!r} must be in [0, 2^63), got {number!r}"
                    )
        return cls(**state)

    def check_same_order(self, here: State, events: EventList) -> None:
        """Refuse a state that was taken of another order than `here`, or of other `events`."""
        differing = []
        for name in _kinds():
            theirs, ours = getattr(self, name), getattr(here, name)
            same = ours == theirs
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


def _difference(name: str, ours: object, theirs: object) -> str:
    """Describe how a field differs, in words where it has any."""
    here, there = words_of(ours), words_of(theirs)
    if name == "functions":
        return (
            f"functions are {here!r} here and {there!r} in the state: their code, or what it "
            "uses, is another. To go on with those that do the same as then, give version= to "
            "all maps and filters"
        )
    if here == there:
        return f"{name} is {here!r} in both, but what that leaves out differs"
    return f"{name} is {here!r} here and {there!r} in the state"


_TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "list[int]": list}


def described(*parts: str) -> str:
    """Return parts in words that have room in a state: all, or some with a digest of all."""
    whole = " ".join(parts)
    if _fits(whole, _ROOM):
        return whole
    encoded = [os.fsencode(one) for one in parts]
    digest = _core.base.Digest()
    digest.update(b"".join(len(one).to_bytes(8, "little") + one for one in encoded))
    tail = f"... #{digest.hex()[:_DIGITS]}"
    words = whole[:_ROOM]
    while not _fits(words, _ROOM - len(tail)):
        words = words[:-1]
    return words + tail


def _fits(text: str, room: int) -> bool:
    import json  # only here: most loops take no state

    return len(text) <= room and len(json.dumps(text, allow_nan=False)) - 2 <= room


def words_of(value: object) -> object:
    """Return the words of a field without its digest."""
    found = re.fullmatch(_DIGEST, value) if isinstance(value, str) else None
    return value if found is None else found[1]
