"""Frames: every sample of a corpus as a sequence of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of, ranges
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.deserializer import Opened, Sizing, Stored, sum_chunks


def as_frames(sequences: Opened, ledger: Ledger) -> Opened:
    """Return the corpus with every sample as its own sequence.

    Sequences that do not have the samples that they had when they were measured go into the
    ledger. Streams of a sequence that differ in length are a DataError when the chunk is
    loaded: where the data are resident, when the engine is made.
    """
    sizing = sequences.size_by(_size_stream(sequences))
    core = _core.read.FrameDeserializer(
        sequences.core,
        [info.name for info in sequences.streams],
        _stored_corpus(sequences, sizing),
        ledger.add,
    )
    return replace(
        sequences,
        stored=None if sequences.stored is None else _frames_of(sequences.stored),
        core=core,
        chunk_sequences=sizing.chunk_samples,
        size_by=lambda _: Sizing(_core.index.CommonSize(1), sizing.chunk_samples),
        ids=FrameIds(sequences, sizing),
        keys=None,
    )


def _stored_corpus(sequences: Opened, sizing: Sizing) -> _core.index.Corpus:
    """Return what the core holds, in its chunks."""
    stored = sequences.stored
    if stored is None:
        return _core.index.Corpus(sequences.chunk_sequences, sizing.chunk_samples, sizing.sizes)
    counts = stored.chunk_sequences
    if stored.sizes is None:
        return _core.index.Corpus(counts, counts, _core.index.CommonSize(1))
    starts = offsets_of(counts.astype(np.int64))
    return _core.index.Corpus(
        counts, sum_chunks(stored.sizes, starts), _core.index.StoredSizes(stored.sizes)
    )


def _frames_of(stored: Stored) -> Stored:
    starts = offsets_of(stored.chunk_sequences.astype(np.int64))
    sizes = np.ones(starts[-1], np.uint32) if stored.sizes is None else stored.sizes
    offsets = offsets_of(sizes)
    return Stored(
        chunk_sequences=np.diff(offsets[starts]).astype(np.uint64),
        sizes=None,
        numbers=ranges(offsets, stored.numbers.astype(np.int64)).astype(np.uint64),
    )


def _size_stream(one: Opened) -> str | None:
    return next((info.name for info in one.streams if info.defines_mb_size), None)


class FrameIds(SequenceIds):
    """Ids of samples: ``<id of the sequence>#<sample in it>``.

    Parameters
    ----------
    sequences : Opened
        The corpus that the samples come from.
    sizing : Sizing
        The samples in each of its sequences.
    """

    def __init__(self, sequences: Opened, sizing: Sizing) -> None:
        self._sequences = sequences
        self._sizing = sizing

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the samples with these numbers in the corpus."""
        signed = numbers.astype(np.int64)
        sequence = np.searchsorted(self._offsets, signed, side="right") - 1
        frames = (signed - self._offsets[sequence]).tolist()
        names = self._sequences.ids.names(sequence)
        return [f"{name}#{frame}" for name, frame in zip(names, frames, strict=True)]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sample with this id."""
        sequence, _, text = name.rpartition("#")
        if text.isdecimal() and str(int(text)) == text:
            number = self._sequences.ids.number(sequence)
            first, end = int(self._offsets[number]), int(self._offsets[number + 1])
            if int(text) < end - first:
                return first + int(text)
        raise KeyError(f"no sample has the id {name!r}")

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """The first sample of every sequence, and the end; made when an id is asked for."""
        corpus = _core.index.Corpus(
            self._sequences.chunk_sequences, self._sizing.chunk_samples, self._sizing.sizes
        )
        sizes = corpus.sizes(0, corpus.num_sequences)
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
