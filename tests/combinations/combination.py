"""A combination of features, as plain data that hypothesis can shrink."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from tests.combinations.made import Made, MadeCorpus, num_items
from tests.model import ModelSettings
from tests.model_layouts import NO_LIMITS, Limits
from tests.sources import DEFAULT_WINDOW_CHUNKS

import sweephand as sh

Chunks = tuple[tuple[int, ...], ...]
Weights = tuple[int, ...]
Knots = tuple[tuple[int, Weights], ...]

NAMES = ("web", "code", "books", "mail")
IN_CHUNKS = "Chunks"  # a user's deserializer; else arrays


@dataclass(frozen=True)
class EventSpec:
    """An event; `numbers` are ids, weights or the length of a skip."""

    kind: str  # ban, skip, weights, map_version
    at: int
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Action:
    """A call: take (size, workers), fresh, back (to a state), seek (a time), event."""

    kind: str
    size: int = 0
    workers: int = 1
    event: EventSpec | None = None


@dataclass(frozen=True)
class Combination:
    corpora: tuple[Chunks, ...]
    knots: Knots = ()  # of a mixture
    at_end: str = "repeat"
    form: str = "array"  # or IN_CHUNKS
    settings: ModelSettings = field(default_factory=ModelSettings)
    layout: sh.Layout = field(default_factory=sh.Ragged)
    balance: str | None = None
    maps: tuple[str, ...] = ()
    maps_mixture: bool = False
    joined: str | None = None  # or "error", "drop": what `missing` says
    carries: bool = False  # a stream "items" beside each sequence
    bare: int | None = None  # the corpus of a mixture that has no such stream
    masks: bool = False  # a stream "mask" of the loss on "x"
    weights: str | None = None  # of labels, a stream "weight": "each", or "one" of a sequence
    has_parts: bool = False  # a stream "part" of the samples of "x"
    max_samples: int | None = None
    max_sweeps: int | None = None
    events: tuple[EventSpec, ...] = ()
    engine: tuple[tuple[str, object], ...] = ()
    actions: tuple[Action, ...] = ()

    @property
    def most_items(self) -> int | None:
        """How many items a row holds, if there is a limit."""
        return (self.layout.limits or {}).get("items")

    @property
    def over_limit(self) -> str | None:
        return self.layout.over_limit if isinstance(self.layout, sh.Packed) else None

    def limits(self, corpus: int) -> Limits:
        """The limits of rows, for a corpus as it is made."""
        if self.most_items is None:
            return NO_LIMITS
        made = self.made[corpus].all
        return Limits(
            (self.most_items,), lambda sequence: (self.num_items(corpus, made[sequence]),)
        )

    def num_items(self, corpus: int, made: Made) -> int:
        return num_items(made.number) if corpus != self.bare else 0

    @property
    def is_mixture(self) -> bool:
        return bool(self.knots)

    @property
    def has_label(self) -> bool:
        """Sequences have their number as a label, which frames do not take from maps."""
        return self.maps_values or not isinstance(self.layout, sh.Frames)

    @property
    def names(self) -> tuple[str, ...]:
        """The corpora of a mixture."""
        return NAMES[: len(self.corpora)] if self.is_mixture else ("",)

    @property
    def stored(self) -> list[Chunks]:
        """All that is stored, as deserializers of this form have it in chunks."""
        if self.form == IN_CHUNKS:
            return list(self.corpora)
        return [_equal_chunks(one) for one in self.corpora]

    @property
    def order(self) -> ModelSettings:
        """The settings as a source has them."""
        settings = self.settings
        has_window = settings.window_chunks is not None or settings.window_samples is not None
        if self.form != IN_CHUNKS or has_window or not settings.randomize:
            return settings
        return replace(settings, window_chunks=DEFAULT_WINDOW_CHUNKS)

    @property
    def has_ids(self) -> bool:
        """The sequences are joined by ids of their own."""
        return self.joined is not None and self.form != IN_CHUNKS

    def key_of(self, number: int) -> int:
        """The id that a sequence is joined by, or its number."""
        return 3 * number + 1 if self.has_ids else number

    def stored_id(self, number: int) -> str:
        name = "Chunks" if self.form == IN_CHUNKS else "array"
        return str(self.key_of(number)) if self.has_ids else f"{name}__{number}"

    @property
    def maps_values(self) -> bool:
        """There is a map that is called when sequences are delivered, no filter alone."""
        return any(name != "is_kept" for name in self.maps)

    def left_out(self, chunks: Chunks) -> frozenset[int]:
        """Sequences that the joined corpus lacks."""
        count = sum(map(len, chunks))
        if self.joined != "drop":
            return frozenset()
        by_number = self.form == IN_CHUNKS  # what is not there is at the end
        return frozenset(range(1 + 3 * count // 4, count) if by_number else range(1, count, 4))

    @cached_property
    def made(self) -> list[MadeCorpus]:
        """The corpora after their maps, as the layout has them."""
        found = []
        for corpus in self.mapped:
            if isinstance(self.layout, sh.Packed) and self.layout.split_long == "drop":
                corpus = corpus.no_longer_than(self.layout.row_length)
            has_items = len(found) != self.bare
            if self.most_items is not None and self.over_limit == "drop" and has_items:
                corpus = corpus.carrying(self.most_items)
            if isinstance(self.layout, sh.Bucketed) and self.layout.drop_long:
                corpus = corpus.no_longer_than(max(map(int, self.layout.boundaries)))
            found.append(corpus)
        return found

    @cached_property
    def mapped(self) -> list[MadeCorpus]:
        """The corpora after their maps, with what is too long for the layout."""
        found = []
        for chunks in self.stored:
            corpus = MadeCorpus.of(
                chunks,
                self.stored_id,
                self.maps,
                self.settings.seed,
                self.left_out(chunks),
            )
            if isinstance(self.layout, sh.Frames):
                corpus = corpus.in_frames()
            found.append(corpus)
        return found

    def id_of(self, corpus: int, made: int) -> str:
        """The id of what is planned, as minibatches have it."""
        own = self.made[corpus].all[made].sequence_id
        return f"{self.names[corpus]}/{own}" if self.is_mixture else own

    @cached_property
    def all_ids(self) -> list[str]:
        """All that may be banned."""
        return [
            self.id_of(corpus, made)
            for corpus in range(len(self.corpora))
            for made in range(len(self.made[corpus].all))
        ]


def _equal_chunks(chunks: Chunks) -> Chunks:
    step = max(1, len(chunks[0]))
    sizes = [size for chunk in chunks for size in chunk]
    return tuple(tuple(sizes[i : i + step]) for i in range(0, len(sizes), step))
