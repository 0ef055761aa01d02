"""The options of a source, checked together; the randomization window among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import Parameter, signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast

from sweephand.base.checks import check_choice, check_int, check_number
from sweephand.corpus.corpus import ChunkCache
from sweephand.corpus.sizes import MANY_SEQUENCES
from sweephand.deserializers.array import SourceData, deserializers_of
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import shown
from sweephand.layouts import Frames, Layout, Ragged
from sweephand.layouts.attention import Balance, cost_of
from sweephand.source.limits import FULL_DATA_SWEEP, INFINITELY_REPEAT, Limits

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus, StoredCorpus
    from sweephand.events.event import Event


P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

DEFAULT_NUM_LANES = 48


class DefaultWindow(int):
    """The type of the default window, distinct from the same number when given."""


DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = DefaultWindow(128)

# For many sequences of unequal lengths in memory: 2^19 of them are open, so that a place is
# found within milliseconds; in many chunks, so that they come from the whole corpus.
_CHUNK_SEQUENCES = 1024
_OPEN_CHUNKS = 512


@dataclass(frozen=True)
class Window:
    """The randomization window; without chunks and samples all is one block."""

    chunks: int
    samples: int
    explicit: bool

    @classmethod
    def check(cls, randomize: bool, chunks: int, samples: int) -> Self:
        """Return the window that a caller passed; ValueError if invalid, or given twice."""
        check_int("randomization_window_in_chunks", chunks, 0, 2**63)
        if samples != FULL_DATA_SWEEP:
            check_int("randomization_window_in_samples", samples, 0, 2**63)
        explicit = not isinstance(chunks, DefaultWindow) and chunks != 0
        if explicit and samples != 0:
            raise ValueError("give a randomization window in chunks or in samples, not both")
        if not randomize or samples == FULL_DATA_SWEEP:
            return cls(0, 0, False)
        if chunks == 0 and samples == 0:
            raise ValueError(
                "randomization_window_in_chunks=0 can mean two things: for no shuffling, as in "
                "CNTK, say randomize=False; for the default window leave it out"
            )
        chunks = chunks or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
        return cls(0 if samples else int(chunks), samples, explicit or samples != 0)

    def of(self, corpus: Corpus) -> Self:
        """Return the window that holds for a corpus.

        By default resident data are one block; but many sequences of unequal lengths, whose
        places could be found only by a pass over all of them, have a window of their own, of
        smaller chunks than those that are read at once.
        """
        has_own = corpus.has_sweeps and corpus.resident
        if self.explicit or not self.chunks or not has_own:
            return self
        is_one = corpus.num_sequences < MANY_SEQUENCES or corpus.core.common_size
        return type(self)(0 if is_one else _OPEN_CHUNKS, 0, False)

    def in_chunks(self, corpus: Corpus) -> Corpus:
        """Return a corpus in the chunks that the window that holds for it counts."""

        def in_own(one: StoredCorpus) -> StoredCorpus:
            has_own = self.of(one).chunks not in (0, self.chunks)
            return one.in_chunks_of(_CHUNK_SEQUENCES) if has_own else one

        return corpus.each(in_own)

    def __str__(self) -> str:
        if self.samples:
            return f"{self.samples} samples"
        return f"{self.chunks} chunks" if self.chunks else "all"


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The arguments of a `MinibatchSource`, which documents them, checked together."""

    deserializers: SourceData = field(kw_only=False)
    max_samples: int = INFINITELY_REPEAT
    max_sweeps: int = INFINITELY_REPEAT
    randomize: bool = True
    randomization_window_in_chunks: int = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
    randomization_window_in_samples: int = 0
    randomization_seed: int = 0
    num_lanes: int | None = None
    layout: Layout | None = None
    frame_mode: bool = False
    truncation_length: int = 0
    balance: Balance = None
    missing: Literal["error", "drop"] = "error"
    max_errors: int = 0
    num_threads: int | None = None
    prefetch: int = 2
    memory_limit: int | None = None
    num_map_workers: int | None = None
    map_executor: Literal["threads", "processes"] | None = None
    map_timeout: float | None = None
    node_cache: ChunkCache | None = None
    events: Sequence[Event] | Sequence[Mapping[str, Any]] | PathLike[str] | str | None = None

    def __post_init__(self) -> None:
        self._check()
        # Not the user's own, which may be read only once.
        object.__setattr__(self, "deserializers", deserializers_of(self.deserializers))

    def _check(self) -> None:
        _ = self.limits, self.window
        layout = self.chosen_layout
        for name, least, bound in _BOUNDS:
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:  # by default
                check_int(name, value, least, bound)
        check_choice("missing", self.missing, "error", "drop")
        check_choice("map_executor", self.map_executor, "threads", "processes", None)
        seconds = self.map_timeout
        if seconds is not None and not check_number("map_timeout", seconds) > 0:
            raise ValueError(f"map_timeout must be above 0 seconds, got {seconds:g}")
        if seconds is not None and self.num_map_workers == 0:
            raise ValueError("map_timeout needs num_map_workers of at least 1")
        # By a method, as few import the class.
        if self.node_cache is not None and not isinstance(self.node_cache, ChunkCache):
            raise TypeError(f"node_cache must be an sh.NodeCache, got {shown(self.node_cache)}")
        if cost_of(self.balance) is not None:
            if layout.rows_go_on:
                kind = type(layout).__name__
                raise ValueError(f"balance is for shares that may change: rows of {kind} go on")
            if layout.fits_in_order and not self.randomize:
                raise ValueError(
                    "balance needs randomize=True: unshuffled sequences are dealt in turn"
                )

    @property
    def limits(self) -> Limits:
        """The end of the timeline."""
        return Limits.check(self.max_samples, self.max_sweeps)

    @property
    def window(self) -> Window:
        """The randomization window that was given."""
        return Window.check(
            self.randomize,
            self.randomization_window_in_chunks,
            self.randomization_window_in_samples,
        )

    @property
    def opened_from(self) -> list[Deserializer]:
        """The deserializers, whichever way they were given."""
        return cast(list[Deserializer], self.deserializers)

    @property
    def lanes(self) -> int:
        """Lanes that a shuffled sweep is read in."""
        return DEFAULT_NUM_LANES if self.num_lanes is None else self.num_lanes

    @property
    def threads(self) -> int:
        """Threads that prepare minibatches; none where none is to be prepared."""
        if self.prefetch == 0:
            return 0
        if self.num_threads is None:
            return max(1, (os.cpu_count() or 2) // 2)
        return self.num_threads

    @property
    def map_workers(self) -> int:
        """Workers that map sequences."""
        if self.num_map_workers is None:
            return os.cpu_count() or 1
        return self.num_map_workers

    @property
    def chosen_layout(self) -> Layout:
        """The layout, by whichever of its names it was given."""
        layout, length = self.layout, self.truncation_length
        check_int("truncation_length", length, 0, 2**31)
        if self.frame_mode and length:
            raise ValueError("frame_mode and truncation_length exclude each other")
        if layout is not None:
            if self.frame_mode or length:
                raise ValueError("give a layout, or frame_mode or truncation_length, not both")
            if not isinstance(layout, Layout):
                raise TypeError(
                    f"layout must be a Layout such as sh.Padded(), got {shown(layout)}"
                )
            return layout
        if length:
            from sweephand.layouts import TruncatedBPTT

            return TruncatedBPTT(length)
        return Frames() if self.frame_mode else Ragged()

    def to_json(self) -> dict[str, Any]:
        """Return the options that decide the minibatches of a corpus, as JSON types.

        They are what `MinibatchSource` takes, layout and balance by their fields.
        """
        options = {name: getattr(self, name) for name in _OF_MINIBATCHES}
        if isinstance(self.randomization_window_in_chunks, DefaultWindow):
            del options["randomization_window_in_chunks"]
        layout, balance = _by_fields(self.chosen_layout), _by_fields(self.balance)
        return {**options, "layout": layout, "balance": balance}


_BOUNDS = (
    ("randomization_seed", 0, 2**64),
    ("num_lanes", 1, 2**16),
    ("max_errors", 0, 2**63),
    ("num_threads", 0, 2**10),
    ("prefetch", 0, 2**16),
    ("memory_limit", 1, 2**63),
    ("num_map_workers", 0, 2**10),
)
_OF_MINIBATCHES = (
    "max_samples",
    "max_sweeps",
    "randomize",
    "randomization_seed",
    "randomization_window_in_chunks",
    "randomization_window_in_samples",
    "num_lanes",
    "missing",
    "max_errors",
)


def _by_fields(value: object) -> object:
    """Return an object as its name and the fields that it has as a dataclass."""
    if value is None or isinstance(value, str):
        return value
    named = fields(value) if is_dataclass(value) else ()
    found = {field.name: getattr(value, field.name) for field in named}
    return {"kind": type(value).__name__, **found}


def takes_arguments_of(
    make: Callable[P, T],
) -> Callable[[Callable[Concatenate[S, ...], None]], Callable[Concatenate[S, P], None]]:
    """Declare, for type checkers, that a method takes the arguments of a dataclass."""

    def decorate(
        method: Callable[Concatenate[S, ...], None],
    ) -> Callable[Concatenate[S, P], None]:
        parameters = signature(make).parameters.values()
        of_self = Parameter("self", Parameter.POSITIONAL_ONLY)
        own = signature(method).replace(parameters=[of_self, *parameters])
        method.__signature__ = own  # type: ignore[attr-defined]
        return method

    return decorate
