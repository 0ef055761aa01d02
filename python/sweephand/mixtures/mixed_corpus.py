"""The corpora of a mixture as a single corpus, numbered corpus by corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import no_padding, stream_spec
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import (
    Corpus,
    LossMasks,
    SettingsOf,
    ShareChange,
    StoredCorpus,
    TimelineEnd,
    concat_masks,
)
from sweephand.corpus.ids import SequenceIds, hash_of, places_in, with_length
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Change, Reader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.streams import StreamInfo

if TYPE_CHECKING:
    from sweephand.files.source_file import SourceFile


_END_OF_TIME = 2**63
_ENDLESS = 2**62  # nominal time of a mixture
_NEVER = 2**64 - 1


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MixedCorpus(Corpus):
    """Corpora on one timeline, each read at its rate."""

    has_sweeps = False
    corpora: Mapping[str, StoredCorpus]  # by name, in the order in which they are given
    # given the samples of every corpus, and how shares change, returns how fast the mixture
    # goes through each
    rates_of: Callable[[Sequence[int], Sequence[ShareChange]], list[_core.order.Rate]]
    fingerprint: str  # the weights, in words, for the fingerprint
    at_end: str  # what happens when a corpus ends
    ledger: Ledger  # where damaged sequences are counted
    changes: tuple[ShareChange, ...] = ()  # of the shares, in the order of their times

    def __post_init__(self) -> None:
        (name, first), *others = self.corpora.items()
        for other_name, other in others:
            _check_names(name, first, other_name, other)
        known: dict[str, tuple[str, StreamInfo]] = {}
        for other_name, other in self.corpora.items():
            for info in other.streams:
                _check_alike(*known.setdefault(info.name, (other_name, info)), other_name, info)

    @property
    def parts(self) -> Mapping[str, StoredCorpus]:
        return self.corpora

    @cached_property
    def readers(self) -> Sequence[Reader]:
        first = next(iter(self.corpora.values()))
        return [_reader(self, number) for number in range(len(first.readers))]

    @cached_property
    def ids(self) -> MixedIds:
        """Ids ``<corpus>/<id in it>``."""
        ids = {name: one.ids for name, one in self.corpora.items()}
        return MixedIds(ids, self.first_sequences)

    @cached_property
    def names(self) -> Sequence[str]:
        return [
            self.fingerprint,
            *(f"{name}/{one}" for name, corpus in self.corpora.items() for one in corpus.names),
        ]

    @cached_property
    def chunk_starts(self) -> _core.index.Starts:
        counts = [one.chunk_sequences for one in self.corpora.values()]
        return _core.index.Starts(np.concatenate(counts))

    @cached_property
    def first_sequences(self) -> NDArray[np.int64]:
        """Number in the mixture of the first sequence of every corpus, and the end."""
        return offsets_of([one.num_sequences for one in self.corpora.values()])

    @cached_property
    def files(self) -> Sequence[SourceFile]:
        return [file for one in self.corpora.values() for file in one.files]

    @cached_property
    def num_dropped(self) -> int:
        return sum(one.num_dropped for one in self.corpora.values())

    @cached_property
    def sizing(self) -> Sizing:
        sizings = [one.sizing for one in self.corpora.values()]
        counts = [one.num_sequences for one in self.corpora.values()]
        return Sizing(
            sizes=_core.index.JoinedSizes([one.sizes for one in sizings], counts),
            samples=_core.index.Starts.of_samples(
                np.concatenate([one.chunk_samples for one in sizings])
            ),
            fingerprinted=all(one.fingerprinted for one in sizings),
        )

    @cached_property
    def masks(self) -> LossMasks | None:  # type: ignore[override]
        masks = [one.masks for one in self.corpora.values() if one.masks is not None]
        return concat_masks(masks) if len(masks) == len(self.corpora) else None

    @cached_property
    def counts(self) -> Mapping[str, NDArray[np.uint32]]:  # type: ignore[override]
        parts = list(self.corpora.values())
        names = {name: None for one in parts for name in one.counts}
        nothing = [np.zeros(one.num_sequences, np.uint32) for one in parts]
        return {
            name: np.concatenate(
                [one.counts.get(name, none) for one, none in zip(parts, nothing, strict=True)]
            )
            for name in names
        }

    @cached_property
    def samples(self) -> list[int]:
        """Samples of every corpus."""
        return [one.core.num_samples for one in self.corpora.values()]

    @cached_property
    def rates(self) -> list[_core.order.Rate]:
        """The rate of each corpus on the timeline of the mixture."""
        return self.rates_of(self.samples, self.changes)

    def each(self, change: Callable[[StoredCorpus], StoredCorpus]) -> MixedCorpus:
        return replace(
            self, corpora={name: change(corpus) for name, corpus in self.corpora.items()}
        )

    def named(self, words: str) -> MixedCorpus:
        return self  # its corpora and weights are its names

    def keep(self, kept: NDArray[np.bool_]) -> MixedCorpus:
        corpora = {}
        parts = np.split(kept, self.first_sequences[1:-1])
        for (name, corpus), part in zip(self.corpora.items(), parts, strict=True):
            if not part.any():
                raise ValueError(f"nothing is left of the corpus {name!r} of the mixture")
            corpora[name] = corpus.keep(part)
        return replace(self, corpora=corpora)

    def to_join(self) -> StoredCorpus:
        raise ValueError("join inside of a mixture, as in sh.Mixture({'web': [words, labels]})")

    def changed(self, change: ShareChange) -> MixedCorpus:
        if change.time >= _END_OF_TIME:  # nothing comes from there on
            return self
        found = replace(self, changes=(*self.changes, change))
        _ = found.rates
        return found

    def timeline(
        self, settings_of: SettingsOf, end: TimelineEnd
    ) -> tuple[_core.order.Timeline, int]:
        samples, sweeps = end.of_mixture(self.at_end)
        if sweeps is None:
            return self._order(settings_of, [_NEVER] * len(self.corpora)), samples
        ends = [sweeps * size for size in self.samples]
        if max(ends) >= _END_OF_TIME:
            raise ValueError(f"{sweeps} sweeps of {max(self.samples)} samples pass 2^63")
        if self.at_end == "stop":
            ends = self._ends_of_first(settings_of, ends)
        order = self._order(settings_of, ends)
        return order, min(samples, sum(order.own_times(_ENDLESS)))

    def _ends_of_first(self, settings_of: SettingsOf, ends: list[int]) -> list[int]:
        """Return the position of every corpus at the end of the first to end."""
        order = self._order(settings_of, [_NEVER] * len(ends))
        keys = [rate.reached(end) for rate, end in zip(self.rates, ends, strict=True)]
        first = keys.index(min(keys))
        return order.own_times(order.time_of(first, ends[first]))

    def _order(self, settings_of: SettingsOf, ends: list[int]) -> _core.order.MixedTimeline:
        return _core.order.MixedTimeline(
            corpus=self.core,
            settings=settings_of(self, ""),
            timelines=[
                _core.order.SweepTimeline(one.core, settings_of(one, name))
                for name, one in self.corpora.items()
            ],
            rates=self.rates,
            limits=ends,
            tells_sweeps=self.at_end == "stop",
        )


def _check_names(name: str, corpus: StoredCorpus, other_name: str, other: StoredCorpus) -> None:
    """Raise ValueError unless both have the same streams, but for those that are carried."""
    needed, others = (
        [sorted(info.name for info in reader.streams if not info.carried) for reader in readers]
        for readers in (corpus.readers, other.readers)
    )
    if needed != others:
        own, its = (", ".join(info.name for info in one.streams) for one in (corpus, other))
        raise ValueError(
            f"the corpora of a mixture have the same streams: {name!r} has {own}, "
            f"{other_name!r} has {its}; a map can rename, add and drop them"
        )


def _check_alike(name: str, info: StreamInfo, other_name: str, other: StreamInfo) -> None:
    """Raise ValueError unless a stream has one kind and the same classes in two corpora."""
    if info.classes != other.classes:
        raise ValueError(
            f"the numbers of stream {info.name!r} are other classes in {name!r} than in "
            f"{other_name!r}; give all corpora the same, sh.classes({info.name!r}, names=[...])"
        )
    kind, otherwise = _kind(info), _kind(other)
    if kind != otherwise:
        raise ValueError(
            f"stream {info.name!r} is {kind} in {name!r} and {otherwise} in "
            f"{other_name!r}; a StreamDef can give both one dtype and shape"
        )


def _kind(info: StreamInfo) -> str:
    options = info.definition.of_form().given()
    options.pop("transforms", None)
    flags = (name if value is True else f"{name}={value}" for name, value in options.items())
    return ", ".join([info.form, *flags])


def _reader(mixture: MixedCorpus, number: int) -> MixedReader:
    corpora = list(mixture.corpora.values())
    readers = [corpus.readers[number] for corpus in corpora]
    infos: dict[str, list[StreamInfo]] = {}  # corpora may lack carried streams
    for reader in readers:
        for info in reader.streams:
            infos.setdefault(info.name, []).append(info)
    return MixedReader(
        streams=[
            replace(found[0], is_single=all(info.is_single for info in found))
            for found in infos.values()
        ],
        chunks=_core.index.Starts(np.concatenate([one.chunks.counts() for one in readers])),
        measure=lambda: mixture.sizing,
        resident=all(one.resident for one in readers),
        sample_bytes=float(
            np.average([one.sample_bytes for one in readers], weights=mixture.samples)
        ),
        is_parsed=any(one.is_parsed for one in readers),
        float_bytes=max(one.float_bytes for one in readers),
        sized_by_streams=all(one.sized_by_streams for one in readers),
        load_threads=max(one.load_threads for one in readers),
        holds_stored=any(one.holds_stored for one in readers),
        open_chunks=sum(corpus.open_chunks for corpus in corpora),
        call_locks=[call_lock for one in readers for call_lock in one.call_locks],
        mixture=mixture,
        number=number,
        members=readers,
    )


def _names(reader: Reader) -> list[str]:
    return [info.name for info in reader.streams]


@dataclass(frozen=True, kw_only=True, repr=False)
class MixedReader(Reader):
    """Reads each sequence as its own corpus does."""

    mixture: MixedCorpus
    number: int  # which reader of every corpus
    members: Sequence[Reader]  # what reads each corpus: that reader, or it through a cache

    @property
    def is_mapped(self) -> bool:
        return any(member.is_mapped for member in self.members)

    def through(self, corpus: Any, chunks: slice, change: Change) -> Reader:
        members, first = [], chunks.start
        for part, member in zip(corpus.parts.values(), self.members, strict=True):
            own = slice(first, first := first + len(part.chunk_starts))
            members.append(member.through(part, own, change))
        return replace(self, members=members)

    def _loader(
        self, load_ahead: bool, led_by: int
    ) -> tuple[None, _core.engine.MixedSequences]:
        mixture = self.mixture
        corpora = zip(mixture.corpora.values(), self.members, mixture.rates, strict=True)
        return None, _core.engine.MixedSequences(
            [self._member(*one, load_ahead=load_ahead) for one in corpora],
            load_ahead,
            self.number > 0 or led_by > 0,
            mixture.ledger.report_by(mixture.ids),
        )

    def _member(
        self, corpus: StoredCorpus, reader: Reader, rate: _core.order.Rate, *, load_ahead: bool
    ) -> _core.engine.MixedMember:
        absent = [info for info in self.streams if info.name not in _names(reader)]
        names = [*_names(reader), *(info.name for info in absent)]
        has_size_stream = corpus.size_stream is not None
        specs = [
            stream_spec(info, 0, column, reader, no_padding(info), has_size_stream)
            for column, info in enumerate([*reader.streams, *absent])
        ]
        led_by = len(corpus.chunk_starts) if self.number else 0
        return _core.engine.MixedMember(
            member=reader.member(corpus.open_chunks, load_ahead=load_ahead, led_by=led_by),
            streams=specs[: len(reader.streams)],
            columns=[names.index(info.name) for info in self.streams],
            absent=specs[len(reader.streams) :],
            corpus=corpus.core,
            rate=rate,
        )


@dataclass(frozen=True)
class MixedIds(SequenceIds):
    """Ids ``<corpus>/<id in it>``."""

    ids: Mapping[str, SequenceIds]  # by the name of the corpus
    firsts: NDArray[np.int64]  # number of the first sequence of each corpus, and the end

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        found = np.empty(len(numbers), object)
        corpora, own = places_in(self.firsts, numbers)
        for number, (corpus, ids) in enumerate(self.ids.items()):
            places = np.flatnonzero(corpora == number)
            if places.size:
                found[places] = [f"{corpus}/{one}" for one in ids.names(own[places])]
        return found.tolist()

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        names = list(self.ids)
        return [names[corpus] for corpus in places_in(self.firsts, numbers)[0].tolist()]

    def fingerprint(self, count: int) -> str:
        counts = np.diff(np.minimum(self.firsts, count)).tolist()
        own = [one.fingerprint(n) for one, n in zip(self.ids.values(), counts, strict=True)]
        pairs = zip(self.ids, own, strict=True)
        return f"corpora {hash_of(with_length(text) for pair in pairs for text in pair)}"

    def number(self, name: str) -> int:
        return self._of_corpus(name, lambda ids, own: [ids.number(own)])[0]

    def numbers(self, name: str) -> list[int]:
        return self._of_corpus(name, lambda ids, own: ids.numbers(own))

    def _of_corpus(
        self, name: str, numbers_of: Callable[[SequenceIds, str], list[int]]
    ) -> list[int]:
        corpus, _, own = name.partition("/")
        if corpus in self.ids:
            first = int(self.firsts[list(self.ids).index(corpus)])
            try:
                return [first + number for number in numbers_of(self.ids[corpus], own)]
            except KeyError:
                pass
        raise KeyError(f"no sequence has the id {name!r}; those of a mixture are <corpus>/<id>")
