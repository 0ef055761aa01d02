"""Several corpora as one, for a mixture: their sequences are numbered corpus by corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import stream_spec
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ids import SequenceIds, hash_of, with_length
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.mapped_reader import no_padding
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import Sizing
from sweephand.corpus.streams import StreamInfo


@dataclass(frozen=True)
class ShareChange:
    """Change of the shares of a mixture's corpora from a time on.

    Attributes
    ----------
    time : int
        The key from which on they hold: nominal time, as what is due counts it.
    weights : object
        As a user gives them; None: as before.
    retired : str or None
        The corpus that has none any more.
    """

    time: int
    weights: object = None
    retired: str | None = None


@dataclass(frozen=True)
class Mixing:
    """Definition of a mixture: its corpora, their names and their rates.

    Attributes
    ----------
    names : tuple of str
        Of the corpora, in the order in which they are given.
    corpora : tuple of Corpus
    rates_of : callable
        Given the samples of every corpus, and how shares change, returns how fast the mixture
        goes through each.
    fingerprint : str
        The weights, in words, for the fingerprint.
    at_end : {"repeat", "stop", "drop"}
        What happens when a corpus ends.
    ledger : Ledger
        Where damaged sequences are counted.
    changes : tuple of ShareChange
        Of the shares, in the order of their times.
    num_added : int
        Corpora, the last ones, that have no share at first.
    """

    names: tuple[str, ...]
    corpora: tuple[Corpus, ...]
    rates_of: Callable[[Sequence[int], Sequence[ShareChange]], list[_core.order.Rate]]
    fingerprint: str
    at_end: str
    ledger: Ledger
    changes: tuple[ShareChange, ...] = ()
    num_added: int = 0

    @property
    def num_at_first(self) -> int:
        """Corpora that are there from the beginning."""
        return len(self.names) - self.num_added

    @property
    def at_first(self) -> Corpus:
        """The mixture without the corpora that are added."""
        count = self.num_at_first
        return mix(
            replace(self, names=self.names[:count], corpora=self.corpora[:count], num_added=0)
        )

    def each(self, change: Callable[[Corpus], Corpus]) -> Corpus:
        """Return the mixture of the corpora after a function was applied to each."""
        return mix(replace(self, corpora=tuple(change(corpus) for corpus in self.corpora)))

    @cached_property
    def rates(self) -> list[_core.order.Rate]:
        """How fast the mixture goes through each corpus."""
        samples = [corpus.core.num_samples for corpus in self.corpora]
        return self.rates_of(samples, self.changes)

    def changed(self, change: ShareChange) -> Corpus:
        """Return the mixture whose shares change once more, after all other changes.

        Raises
        ------
        TypeError, ValueError
            If there are no such shares.
        """
        found = replace(self, changes=(*self.changes, change))
        _ = found.rates
        return mix(found)

    @cached_property
    def first_sequences(self) -> NDArray[np.int64]:
        """Number in the mixture of the first sequence of every corpus, and the end."""
        return offsets_of([corpus.num_sequences for corpus in self.corpora])

    def keep(self, kept: NDArray[np.bool_]) -> Corpus:
        """Return the mixture with only the kept sequences."""
        from sweephand.corpus.keep import keep

        parts = np.split(kept, self.first_sequences[1:-1])
        for name, part in zip(self.names, parts, strict=True):
            if not part.any():
                raise ValueError(f"nothing is left of the corpus {name!r} of the mixture")
        corpora = [keep(corpus, part) for corpus, part in zip(self.corpora, parts, strict=True)]
        return mix(replace(self, corpora=tuple(corpora)))

    @cached_property
    def sizing(self) -> Sizing:
        """The sizes of all sequences."""
        sizings = [corpus.sizing for corpus in self.corpora]
        counts = [corpus.num_sequences for corpus in self.corpora]
        return Sizing(
            sizes=_core.index.JoinedSizes([one.sizes for one in sizings], counts),
            chunk_samples=np.concatenate([one.chunk_samples for one in sizings]),
            fingerprinted=all(one.fingerprinted for one in sizings),
        )


def mix(mixing: Mixing) -> Corpus:
    """Return the corpora of a mixture as one.

    Raises
    ------
    ValueError
        If their streams are not the same.
    """
    first, *others = mixing.corpora
    for name, other in zip(mixing.names[1:], others, strict=True):
        _check_alike(mixing.names[0], first, name, other)
    return Corpus(
        readers=[_reader(mixing, number) for number in range(len(first.readers))],
        ids=MixedIds(mixing.names, [c.ids for c in mixing.corpora], mixing.first_sequences),
        names=[
            mixing.fingerprint,
            *(
                f"{name}/{one}"
                for name, corpus in zip(mixing.names, mixing.corpora, strict=True)
                for one in corpus.names
            ),
        ],
        chunks=np.concatenate([corpus.chunk_sequences for corpus in mixing.corpora]),
        files=[file for corpus in mixing.corpora for file in corpus.files],
        num_dropped=sum(corpus.num_dropped for corpus in mixing.corpora),
        mixing=mixing,
    )


def _check_alike(name: str, corpus: Corpus, other_name: str, other: Corpus) -> None:
    streams, others = (
        [[info.name for info in reader.streams] for reader in one.readers]
        for one in (corpus, other)
    )
    if list(map(sorted, streams)) != list(map(sorted, others)):
        raise ValueError(
            f"the corpora of a mixture have the same streams: {name!r} has "
            f"{_words(streams)}, {other_name!r} has {_words(others)}; "
            "a map can rename, add and drop them"
        )
    theirs = {info.name: info for info in other.streams}
    for info in corpus.streams:
        kind, otherwise = _kind(info), _kind(theirs[info.name])
        if kind != otherwise:
            raise ValueError(
                f"stream {info.name!r} is {kind} in {name!r} and {otherwise} in "
                f"{other_name!r}; a StreamDef can give both one dtype and shape"
            )


def _words(streams: list[list[str]]) -> str:
    return " and ".join(", ".join(names) for names in streams)


def _kind(info: StreamInfo) -> str:
    flags = {"broadcast": info.broadcast, "defines_mb_size": info.defines_mb_size}
    return ", ".join([info.kind, *(flag for flag, is_set in flags.items() if is_set)])


def _reader(mixing: Mixing, number: int) -> MixedReader:
    readers = [corpus.readers[number] for corpus in mixing.corpora]
    samples = [corpus.core.num_samples for corpus in mixing.corpora]
    infos = {name: [_stream(one, name) for one in readers] for name in _names(readers[0])}
    return MixedReader(
        core=None,
        streams=[
            replace(found[0], is_single=all(info.is_single for info in found))
            for found in infos.values()
        ],
        chunk_sequences=np.concatenate([one.chunk_sequences for one in readers]),
        measure=lambda: mixing.sizing,
        resident=all(one.resident for one in readers),
        sample_bytes=float(np.average([one.sample_bytes for one in readers], weights=samples)),
        sized_by_streams=all(one.sized_by_streams for one in readers),
        load_threads=max(one.load_threads for one in readers),
        holds_stored=any(one.holds_stored for one in readers),
        open_chunks=sum(corpus.open_chunks for corpus in mixing.corpora),
        turns=[turn for one in readers for turn in one.turns],
        mixing=mixing,
        number=number,
    )


def _names(reader: Reader) -> list[str]:
    return [info.name for info in reader.streams]


def _stream(reader: Reader, name: str) -> StreamInfo:
    return next(info for info in reader.streams if info.name == name)


@dataclass(frozen=True)
class MixedReader(Reader):
    """Reads each sequence as its own corpus does.

    Attributes
    ----------
    mixing : Mixing or None
        What the mixture is made of; there is one.
    number : int
        Which reader of every corpus.
    """

    mixing: Mixing | None = None
    number: int = 0

    def _made(self, load_ahead: bool, led_by: int) -> _core.engine.MixedSequences:
        assert self.mixing is not None
        mixing = self.mixing
        members = [
            self._member(corpus, rate, load_ahead=load_ahead)
            for corpus, rate in zip(mixing.corpora, mixing.rates, strict=True)
        ]
        ids = MixedIds(mixing.names, [c.ids for c in mixing.corpora], mixing.first_sequences)
        return _core.engine.MixedSequences(
            members, load_ahead, self.number > 0 or led_by > 0, mixing.ledger.report_by(ids)
        )

    def _member(
        self, corpus: Corpus, rate: _core.order.Rate, *, load_ahead: bool
    ) -> _core.engine.MixedMember:
        reader = corpus.readers[self.number]
        names = _names(reader)
        has_size_stream = corpus.size_stream is not None
        led_by = len(corpus.chunk_sequences) if self.number else 0
        return _core.engine.MixedMember(
            member=reader.member(corpus.open_chunks, load_ahead=load_ahead, led_by=led_by),
            streams=[
                stream_spec(info, 0, column, reader, no_padding(info), has_size_stream)
                for column, info in enumerate(reader.streams)
            ],
            columns=[names.index(info.name) for info in self.streams],
            corpus=corpus.core,
            rate=rate,
        )


class MixedIds(SequenceIds):
    """Ids ``<corpus>/<id in it>``."""

    def __init__(
        self,
        names: Sequence[str],
        ids: Sequence[SequenceIds],
        first_sequences: NDArray[np.int64],
    ) -> None:
        self._names = list(names)
        self._ids = list(ids)
        self._firsts = first_sequences

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the mixture."""
        signed = numbers.astype(np.int64)
        found = np.empty(len(signed), object)
        corpora = self._corpora_of(signed)
        for corpus in np.unique(corpora).tolist():
            places = np.flatnonzero(corpora == corpus)
            own = self._ids[corpus].names(signed[places] - self._firsts[corpus])
            found[places] = [f"{self._names[corpus]}/{one}" for one in own]
        return found.tolist()

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the name of the corpus of each of these sequences."""
        return [self._names[corpus] for corpus in self._corpora_of(numbers.astype(np.int64))]

    def _corpora_of(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._firsts, numbers, side="right") - 1

    def fingerprint(self, count: int) -> str:
        """Return the digest that binds the first `count` numbers to their ids, by corpora."""
        ends = np.minimum([*self._firsts[1:].tolist(), count], count)[: len(self._ids)]
        counts = np.maximum(ends - self._firsts[: len(self._ids)], 0).tolist()
        fingerprints = [
            ids.fingerprint(own) for ids, own in zip(self._ids, counts, strict=True)
        ]
        pairs = zip(self._names, fingerprints, strict=True)
        return f"corpora {hash_of(with_length(text) for pair in pairs for text in pair)}"

    def number(self, name: str) -> int:
        """Return the number in the mixture of the sequence with this id."""
        return self._of_corpus(name, lambda ids, own: [ids.number(own)])[0]

    def numbers(self, name: str) -> list[int]:
        """Return the numbers in the mixture of the sequences made of a corpus's sequence."""
        return self._of_corpus(name, lambda ids, own: ids.numbers(own))

    def _of_corpus(
        self, name: str, numbers_of: Callable[[SequenceIds, str], list[int]]
    ) -> list[int]:
        corpus, _, own = name.partition("/")
        if corpus in self._names:
            place = self._names.index(corpus)
            first = int(self._firsts[place])
            try:
                return [first + number for number in numbers_of(self._ids[place], own)]
            except KeyError:
                pass
        raise KeyError(
            f"no sequence has the id {name!r}; those of a mixture are <corpus>/<id>, of the "
            f"corpora {', '.join(self._names)}"
        )
