"""A map as it was asked for, and the sequences of a corpus as maps are given them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_flag, check_function, check_int
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.objects import parse_object
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams
from sweephand.layouts import Ragged
from sweephand.maps.functions import KnownMap, Lengths, function_digest, with_digest
from sweephand.maps.key import Key
from sweephand.minibatch.contents import Contents
from sweephand.minibatch.minibatch import Minibatch

if TYPE_CHECKING:
    from sweephand.maps.workers import OpenContext

SizeOf = Callable[[Mapping[str, int], Key], int]


@dataclass(frozen=True)
class SequenceMap:
    """A function of a sequence."""

    # takes a dict of arrays, with `random` also a `Key`, and returns a dict; `batched` a dict
    # of lists, and a list of keys
    function: Callable[..., Any]
    name: str
    version: int = 1
    random: bool = False
    batched: bool = False
    # the streams of its result; None takes those of the first sequence
    streams: StreamDefs | None = None
    size: Literal["same", "measured"] | SizeOf | Lengths = "same"
    cache: bool = False  # whether what it makes is kept
    kind: Literal["map", "filter"] = "map"
    # of the function, or "?" and why it has none; "" if its name and version say all
    digest: str = ""
    versions: tuple[SequenceMap, ...] = ()  # others that events may put in its place

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def fingerprint(self) -> str:
        """Identity of the map in names of a corpus, for states and what is kept."""
        variant = self.function.variant if isinstance(self.function, KnownMap) else ""
        words = f"{self.kind} {self.name} {self.version} {variant}".rstrip()
        return with_digest(words, self.digest)

    def learned(self, corpus: Corpus, opening: OpenContext) -> SequenceMap:
        """Return the map after its function has learned from the corpus; see `KnownMap`."""
        limit, size, function, name = opening.memory_limit, self.size, self.function, self.name
        if isinstance(function, KnownMap):
            learned = function.learned(corpus, opening)
            if learned.name != function.name:
                own = "" if name == function.name else f"{name}, "
                name = f"{own}{learned.name}"
            function = learned
        if limit is not None and isinstance(function, KnownMap):
            function = function.within(limit)
        if limit is not None and isinstance(size, Lengths):
            size = size.within(limit)
        return replace(self, function=function, name=name, size=size)

    @property
    def classes(self) -> Mapping[str, tuple[str, ...]]:
        return self.function.classes() if isinstance(self.function, KnownMap) else {}

    def declared(self, stream: str) -> Mapping[str, Any]:
        return self.function.declared(stream) if isinstance(self.function, KnownMap) else {}

    def of_version(self, version: int) -> SequenceMap:
        """Return the map of a version; ValueError if there is none."""
        known = {one.version: one for one in (self, *self.versions)}
        if version in known:
            return replace(known[version], versions=())
        told = ", ".join(map(str, known))
        raise ValueError(f"{self} has no version {version}, only {told}: give it by versions=")


def make_map(
    function: Callable[..., Any],
    name: str | None,
    version: int | None,
    *,
    random: bool,
    batched: bool,
    streams: StreamsLike | None,
    size: object,
    cache: bool,
    versions: Mapping[int, Callable[..., Any]] | None = None,
) -> SequenceMap:
    """Return a map, its arguments checked.

    TypeError if one is of a wrong type; ValueError if a value is wrong, or the function has no
    name and none is given.
    """
    check_function("the map", function)
    if size not in ("same", "measured") and not callable(size):
        raise ValueError(f"size must be 'same', 'measured' or a function, got {size!r:.60}")
    if isinstance(function, KnownMap):
        random = random or function.is_random
        size = function.size if size == "same" else size
    if check_flag("cache", cache) and random:
        raise ValueError("what a random map makes differs in every sweep: it cannot be kept")
    more = [size] if callable(size) and size is not getattr(function, "size", None) else []
    name, version, digest = _identity_of([function, *more], name, version)
    if cache and digest.startswith("?"):
        raise ValueError(
            f"what map {name!r} makes cannot be kept, as its function has no digest "
            f"({digest[1:]}): give version=, and another one whenever it changes"
        )
    made = SequenceMap(
        function=function,
        name=name,
        version=version,
        digest=digest,
        cache=cache,
        random=check_flag("random", random),
        batched=check_flag("batched", batched),
        streams=None if streams is None else choose_streams(streams, StreamDefs),
        size=size,
    )
    if versions and (size != "same" or cache):
        raise ValueError(
            "what has other versions keeps sizes, so that plans stay, and is not kept itself: "
            "no size= or cache= with versions="
        )
    others = []
    for number, one in (versions or {}).items():
        number = check_int("a version", number, 0, 2**63)
        check_function(f"version {number} of the map", one)
        if number == version:
            raise ValueError(f"version {number} is the one of the map itself")
        others.append(replace(made, function=one, version=number, digest=""))
    return replace(made, versions=tuple(others))


def make_filter(
    predicate: Callable[..., Any], name: str | None, version: int | None
) -> SequenceMap:
    """Return a filter, its arguments checked as those of `make_map`."""
    check_function("the filter", predicate)
    name, version, digest = _identity_of([predicate], name, version)
    return SequenceMap(predicate, name, version, kind="filter", digest=digest)


def _identity_of(
    functions: Sequence[Callable[..., Any]], name: str | None, version: int | None
) -> tuple[str, int, str]:
    """Return name, version and digest; a version that is given answers for the function."""
    function = functions[0]
    known = function.name if isinstance(function, KnownMap) else ""
    name = name or known or getattr(function, "__name__", None) or type(function).__name__
    if not isinstance(name, str):
        raise TypeError(f"the name of a map is text, got {name!r:.60}")
    if name == "<lambda>":
        raise ValueError(
            "a lambda has no name, and keys and states depend on it: give one, such as "
            "name='crop'"
        )
    if version is not None:
        return name, check_int("version", version, 0, 2**63), ""
    if isinstance(function, KnownMap) and (known, function.functions) == (name, ()):
        functions = functions[1:]  # its name says all
    return name, 1, function_digest(*functions) if functions else ""


class StreamSequences(Sequence[Any]):
    """Consecutive sequences of a stream.

    They pickle as one piece, so that another process gets them by one copy. Objects are made
    when they are asked for, each time anew.
    """

    __slots__ = ("_are_objects", "_offsets", "_values")

    def __init__(self, values: Any, offsets: list[int], *, are_objects: bool = False) -> None:
        self._values = values
        self._offsets = offsets
        self._are_objects = are_objects

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            begin, end, _ = which.indices(len(self))
            return StreamSequences(
                self._values, self._offsets[begin : end + 1], are_objects=self._are_objects
            )
        samples = self._values[self._offsets[which] : self._offsets[which + 1]]
        return _object_of(samples) if self._are_objects else samples

    def as_arrays(self) -> tuple[Any, NDArray[np.int64]]:
        """Return all values, and where each sequence begins in them, and the end."""
        offsets = np.array(self._offsets, np.int64)
        return self._values[offsets[0] : offsets[-1]], offsets - offsets[0]

    def to_list(self) -> list[Any]:
        values, offsets = self._values, self._offsets
        if self._are_objects:
            return [_object_of(values[begin:end]) for begin, end in pairwise(offsets)]
        if isinstance(values, np.ndarray) and len(offsets) > 1:
            begin, end, length = offsets[0], offsets[-1], offsets[1] - offsets[0]
            if length and offsets == list(range(begin, end + 1, length)):  # the quick way
                return list(values[begin:end].reshape(-1, length, *values.shape[1:]))
        return [values[begin:end] for begin, end in pairwise(offsets)]

    def __reduce__(self) -> tuple[Any, ...]:
        begin, end = self._offsets[0], self._offsets[-1]
        return _of_lengths, (self._values[begin:end], np.diff(self._offsets), self._are_objects)


def _object_of(samples: Any) -> Any:
    return parse_object(samples[0]) if len(samples) else None


def _of_lengths(values: Any, lengths: NDArray[np.int64], are_objects: bool) -> StreamSequences:
    return StreamSequences(values, offsets_of(lengths).tolist(), are_objects=are_objects)


class StoredStreams:
    """The streams of a corpus, of which batches are taken apart.

    Transforms wait: they are of minibatches, and of streams that keep their names.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        # Objects stay texts on their way to who calls the map.
        self._infos = {
            info.name: replace(info.used(transforms=()), is_object=False)
            for info in corpus.streams
        }
        self._objects = {info.name for info in corpus.streams if info.is_object}
        keys = {name: (number, info) for number, (name, info) in enumerate(self._infos.items())}
        self._contents = Contents(keys, Ragged(), corpus.ids)

    def sequences_of(self, batch: _core.engine.Batch) -> dict[str, StreamSequences]:
        """Return per stream the samples of every sequence of a ragged batch."""
        minibatch = Minibatch(batch, self._contents, None)
        streams = {name: minibatch[name] for name in self._infos}
        return {
            name: StreamSequences(
                stream.values, stream.offsets.tolist(), are_objects=name in self._objects
            )
            for name, stream in streams.items()
        }

    def names_of_size(self) -> dict[str, bool]:
        """Return the streams whose sizes are known without reading: one sample, or the size."""
        size_stream = self.corpus.size_stream
        ragged = [
            name for name, info in self._infos.items() if not (info.is_single or info.carried)
        ]
        sized = [size_stream] if size_stream else ragged if len(ragged) == 1 else []
        return {
            name: not info.is_single
            for name, info in self._infos.items()
            if info.is_single or name in sized
        }
