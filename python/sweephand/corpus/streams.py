"""Streams: the named fields of every sequence, as they are delivered and as users name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.errors import UnquotedMessage, shown


@dataclass(frozen=True, eq=False)
class StreamInfo:
    """A stream as it is delivered: its definition, and what the data are.

    It is a value: equal instances describe the same stream, in another process too. It is
    accepted wherever the name of a stream is: ``minibatch[source.streams.x]``.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
        Type of its elements; object for samples that are ``bytes``, or objects.
    shape : tuple of int
        Shape of one sample; ``(dimension,)`` for a sparse stream, ``()`` for scalars.
    is_sparse : bool
        True if samples come as indices and values.
    is_single : bool
        True if every sequence of the corpus has exactly one sample in it, a label for instance:
        such a stream comes as (sequences, *shape) in every layout. Only a source sets it; it is
        not compared when streams are, nor are transforms and the streams of its labels.
    is_sized : bool
        True if it has as many samples as the size of each sequence. Only a source sets it, too.
    is_object : bool
        True if samples are Python objects as JSON has them: dicts, lists, texts, numbers.
    classes : tuple of str
        The names of the classes whose numbers it has, as `sweephand.classes` gives them.
    definition : StreamDef
        How it is to be used.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.zeros((5, 2), np.float32)}))
    >>> source.streams.x.dtype, source.streams.x.shape
    (dtype('float32'), (2,))
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_sparse: bool = False
    is_single: bool = False
    is_sized: bool = field(default=False, repr=False)
    is_object: bool = False
    classes: tuple[str, ...] = field(default=(), repr=False)
    definition: StreamDef = field(default=StreamDef())

    def __post_init__(self) -> None:
        # Written by hand they may be np.float32 and 3, which are no such values.
        shape: Any = self.shape
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        object.__setattr__(self, "shape", (shape,) if isinstance(shape, int) else tuple(shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamInfo) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.describe(), self.dtype, self.classes

    def used(self, **options: Any) -> StreamInfo:
        """Return the stream with other options of its definition."""
        return replace(self, definition=replace(self.definition, **options))

    @property
    def defines_mb_size(self) -> bool:
        """True if the size of a sequence is its number of samples in this stream."""
        return self.definition.defines_mb_size

    @property
    def broadcast(self) -> bool:
        """True if its one sample is repeated for every sample of the sequence."""
        return self.definition.broadcast and self.definition.decode is None  # it comes later

    @property
    def carried(self) -> bool:
        """True if it has a length of its own besides that of its sequence."""
        return self.definition.carried

    @property
    def is_bytes(self) -> bool:
        """True if samples are ``bytes``, or objects that are stored as such."""
        return self.dtype.kind == "O"

    @property
    def is_masked(self) -> bool:
        """True if not every next sample is a label, or labels have weights."""
        return bool(self.definition.beside)

    @property
    def is_variable(self) -> bool:
        """True if samples differ in their number of elements: sparse samples, and bytes."""
        return self.is_sparse or self.is_bytes

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Type of its elements in memory: of ``bytes`` and objects that of a byte."""
        return np.dtype(np.uint8) if self.is_bytes else self.dtype

    @property
    def element_name(self) -> str:
        """Kind of its elements, such as ``sparse float32``, ``bytes`` or ``objects``."""
        if self.is_bytes:
            return "objects" if self.is_object else "bytes"
        return "sparse " * self.is_sparse + self.dtype.name

    @property
    def form(self) -> str:
        """Kind of its samples, such as ``uint8 (28, 28)``."""
        return f"{self.element_name} {self.shape}" if self.shape else self.element_name

    @property
    def brief(self) -> str:
        """Its name and the kind of its samples, such as ``image: uint8 (28, 28)``."""
        return f"{self.name}: {self.form}"

    def describe(self) -> str:
        """Return the identity of the stream, for fingerprints."""
        kind = "sparse" if self.is_sparse else "objects" if self.is_object else "dense"
        flags = f"{int(self.defines_mb_size)}{int(self.broadcast)}" + ":carried" * self.carried
        return f"{self.name}:{self.dtype.name}:{self.shape}:{kind}:{flags}"


def size_stream(streams: Iterable[StreamInfo]) -> str | None:
    """Return the stream that defines the size of sequences, if one does: at most one may."""
    chosen = [info.name for info in streams if info.defines_mb_size]
    if len(chosen) > 1:
        raise ValueError(
            f"only one stream can define the minibatch size, got: {', '.join(chosen)}"
        )
    return chosen[0] if chosen else None


def sizing_streams(streams: Mapping[str, StreamInfo | StreamDef]) -> list[str]:
    """Return the streams whose longest is the size of a sequence.

    That is the stream that defines it, or all that are not carried. Where all are carried, as
    in a corpus that is to be joined to another, sequences have one sample each.
    """
    chosen = [name for name, one in streams.items() if one.defines_mb_size]
    return chosen or [name for name, one in streams.items() if not one.carried]


_LISTS: tuple[type, ...] = (Sequence, KeysView)


def definitions_of(infos: Iterable[object]) -> StreamDefs:
    """Return the definitions of stream infos, as CNTK's users list their streams."""
    definitions: dict[str, StreamDef] = {}
    for info in infos:
        if not isinstance(info, StreamInfo):
            raise TypeError(f"a list of streams holds StreamInfo, got {info!r:.80}")
        if info.name in definitions:
            raise ValueError(f"stream {info.name!r} is listed twice")
        dtype = None if info.is_bytes and not info.is_object else info.dtype
        definitions[info.name] = info.definition.of_form(info.shape, dtype, info.is_sparse)
    return StreamDefs(definitions)


def name_of(key: Any) -> Any:
    """Return the name of a stream's info; any other key unchanged."""
    return key.name if isinstance(key, StreamInfo) else key


class Streams(Mapping[str, StreamInfo]):
    """The streams of a source, by name, by info, or as attributes.

    Examples
    --------
    >>> streams = Streams([StreamInfo("x", np.dtype("int32"), (3,))])
    >>> streams.x.shape, list(streams)
    ((3,), ['x'])
    """

    def __init__(self, infos: list[StreamInfo]) -> None:
        self._infos = {info.name: info for info in infos}

    def __getitem__(self, name: str | StreamInfo) -> StreamInfo:
        try:
            return self._infos[name_of(name)]
        except (KeyError, TypeError):  # as of a slice
            there = ", ".join(map(repr, self._infos))
            raise KeyError(
                UnquotedMessage(f"there is no stream {shown(name)}, there are: {there}")
            ) from None

    def __getattr__(self, name: str) -> StreamInfo:
        if not name.startswith("_") and name in self._infos:
            return self._infos[name]
        raise AttributeError(f"no stream {name!r}, there are: {', '.join(self._infos)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return f"Streams({', '.join(info.brief for info in self._infos.values())})"


StreamsLike = StreamDefs | Mapping[str, StreamDef] | Sequence[str] | Sequence[StreamInfo]
"""Streams as a user names them: definitions by name, names alone, or infos as in CNTK."""


Data = TypeVar("Data")


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

    A name alone takes its definition from the data, whose streams `guess` returns; None takes
    all of these. TypeError if it is nothing of that, ValueError if a stream is listed twice.
    """
    if streams is None:
        return guess()
    if isinstance(streams, StreamDefs):
        chosen = streams
    elif isinstance(streams, Mapping):
        chosen = StreamDefs(streams)
    elif isinstance(streams, _LISTS) and not isinstance(streams, str):
        is_infos = any(isinstance(one, StreamInfo) for one in streams)
        chosen = definitions_of(streams) if is_infos else _named(streams, guess)
    else:
        raise TypeError(
            "streams must be StreamDefs(NAME=StreamDef(...)), a dict of StreamDef or a list of "
            f"names such as ['x'], got {shown(streams)}"
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
                f"a list of streams holds names or StreamInfo, got {type(name).__name__}; else "
                "write StreamDefs(NAME=StreamDef(...))"
            )
        if name in names:
            raise ValueError(f"stream {name!r} is listed twice")
        names.append(name)
    known = guess() if names else {}
    return StreamDefs({name: known.get(name) or StreamDef() for name in names})
