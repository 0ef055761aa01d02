"""Frames: every sample of a corpus as a sequence of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from sweephand import _core
from sweephand.corpus.columns import offsets_of, ranges
from sweephand.corpus.corpus import Corpus, DerivedOrder, StoredCorpus
from sweephand.corpus.ids import PartIds, hash_of, with_length
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Reader, StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.errors import DataError


def frames(sequences: Corpus, ledger: Ledger) -> Corpus:
    """Return the corpus with every sample as its own sequence.

    Sequences that do not have the samples that they had when they were measured go into the
    ledger, and joined ones whose streams differ in length. Streams of one deserializer that
    differ in length are a DataError when the chunk is loaded: where the data are resident,
    when the engine is made.
    """
    return sequences.each(lambda one: _frames(one, ledger))


def _frames(sequences: StoredCorpus, ledger: Ledger) -> StoredCorpus:
    sequences = _of_equal_lengths(sequences, ledger)
    starts = cache(lambda: offsets_of(sequences.core.sizes(0, sequences.num_sequences)))
    order = sequences.order
    if order is not None:
        order = DerivedOrder(
            order,
            sequences.num_sequences,
            lambda numbers: ranges(starts(), numbers.astype(np.int64)).astype(np.uint64),
        )
    return replace(
        sequences,
        readers=[_frames_of(reader, ledger) for reader in sequences.readers],
        ids=FrameIds(sequences.ids, starts),
        chunks=_core.index.Starts(sequences.sizing.chunk_samples),
        keys=None,
        order=order,
    )


def _of_equal_lengths(sequences: StoredCorpus, ledger: Ledger) -> StoredCorpus:
    """Leave out sequences of joined corpora that are not equally long in all of them."""
    if len(sequences.readers) == 1:
        return sequences
    sizes = np.stack([reader.sizes() for reader in sequences.readers])
    is_equal = (sizes == sizes[0]).all(axis=0)
    for number in np.flatnonzero(~is_equal).tolist():
        lengths = ", ".join(map(str, sizes[:, number].tolist()))
        name = sequences.ids.names(np.array([number], np.uint64))[0]
        ledger.add(
            DataError(
                f"frames need equal lengths; the deserializers have {lengths} samples",
                sequence=name,
            )
        )
    if not is_equal.any():
        raise ValueError("nothing is left: no sequence is equally long in all deserializers")
    return sequences.keep(is_equal)


def _frames_of(reader: Reader, ledger: Ledger) -> StoredReader:
    if not isinstance(reader, StoredReader):
        raise ValueError(
            "frames are cut of what is stored, and these sequences are mapped when they are "
            "delivered; keep what the map makes by cache=True"
        )
    sizing = reader.sizing
    corpus = _core.index.Corpus(reader.chunks, sizing.samples, sizing.sizes)
    loaded, parts = corpus, None
    if reader.parts is not None:
        samples = sizing.sizes.sums(reader.parts)
        parts = _core.index.Starts(samples.counts())
        loaded = _core.index.Corpus(reader.parts, samples, sizing.sizes)
    chunks, numbers = _core.index.Starts(sizing.chunk_samples), reader.numbers
    if numbers is not None:
        offsets = offsets_of(corpus.sizes(0, corpus.num_sequences))
        numbers = ranges(offsets, numbers.astype(np.int64)).astype(np.uint64)
    return replace(
        reader,
        core=_core.read.FrameDeserializer(
            reader.core, [info.name for info in reader.streams], loaded, ledger.add
        ),
        streams=[replace(info, is_single=True) for info in reader.streams],
        chunks=chunks,
        measure=lambda: Sizing.one_each(chunks),
        numbers=numbers,
        parts=parts,
        chunked=None,
    )


class FrameIds(PartIds):
    """Ids of samples: ``<id of the sequence>#<sample in it>``."""

    def fingerprint(self, count: int) -> str:
        starts = self.starts()
        own = with_length(self.ids.fingerprint(len(starts) - 1))
        return f"frames {hash_of([own, starts.astype('<i8', copy=False).data])}"
