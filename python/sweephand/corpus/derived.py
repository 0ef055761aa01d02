"""Corpora made of corpora: several joined to one, and every sample as a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import offsets_of, ranges
from sweephand.corpus.corpus import Corpus, DerivedOrder, StoredCorpus
from sweephand.corpus.ids import NumberKeys, PartIds, hash_of, with_length
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import Reader, StoredReader
from sweephand.corpus.sizes import Sizing
from sweephand.errors import DataError


def join(corpora: Sequence[Corpus], missing: Literal["error", "drop"] = "error") -> Corpus:
    """Join corpora by key; the first one defines sequences, chunks, order and keys.

    ValueError if stream names or keys repeat, or a sequence is missing somewhere and that is an
    error.
    """
    names = [info.name for corpus in corpora for info in corpus.streams]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"two deserializers have a stream called {twice!r}; give one another name"
        )
    if len(corpora) == 1:
        return corpora[0]
    stored = [corpus.to_join() for corpus in corpora]
    kept, found = _match(stored, missing)
    primary = stored[0].keep(kept)
    others = [
        reader.take(numbers[kept])
        for corpus, numbers in zip(stored[1:], found, strict=True)
        for reader in corpus.readers
    ]
    return replace(
        primary,
        readers=[*primary.readers, *others],
        names=[name for corpus in corpora for name in corpus.names],
        num_dropped=primary.num_dropped + int((~kept).sum()),
    )


def _match(
    corpora: Sequence[StoredCorpus], missing: Literal["error", "drop"]
) -> tuple[NDArray[np.bool_], list[NDArray[np.uint64]]]:
    """Return a mask of the first's sequences found in all, and their numbers in the rest."""
    _refuse_mixed_keys(corpora)
    primary, *others = (_keys_of(corpus, which) for which, corpus in enumerate(corpora))
    kept = np.ones(len(primary), np.bool_)
    found = []
    for which, keys in enumerate(others, 1):
        places = {key: number for number, key in enumerate(keys)}
        numbers = np.array([places.get(key, -1) for key in primary], np.int64)
        lacking = np.flatnonzero(numbers < 0)
        if lacking.size and missing == "error":
            shown = ", ".join(repr(primary[i]) for i in lacking[:3])
            raise ValueError(
                f"{lacking.size} of {len(primary)} sequences are missing in deserializer "
                f"{which}, such as those with the keys {shown}; missing='drop' leaves them out"
            )
        kept &= numbers >= 0
        found.append(numbers.astype(np.uint64))
    if not kept.any():
        raise ValueError("the keys of the joined deserializers do not match: nothing is left")
    return kept, found


def _refuse_mixed_keys(corpora: Sequence[StoredCorpus]) -> None:
    by_number = [c.keys is None or isinstance(c.keys, NumberKeys) for c in corpora]
    without = [n for n, is_number in enumerate(by_number) if is_number]
    with_keys = [n for n, is_number in enumerate(by_number) if not is_number]
    if without:  # where ids that are integers find their numbers
        with_keys = [n for n in with_keys if not _are_integers(corpora[n])]
    if with_keys and without:
        raise ValueError(
            f"deserializers {with_keys} have ids, {without} have none: give ids= to all or "
            "none, and skip_sequence_ids=True to CNTK's text to join it by number"
        )


def _are_integers(corpus: StoredCorpus) -> bool:
    """Return True if all ids are integers, and not the sequence ids that CNTK's text has."""
    keys = [] if corpus.keys is None else corpus.keys()
    return isinstance(keys, list) and all(key.isdecimal() for key in keys)


def _keys_of(corpus: StoredCorpus, which: int) -> list[str]:
    """Return the keys as text: one deserializer's 7 is another's "7"."""
    if corpus.keys is None:
        return [str(number) for number in range(corpus.num_sequences)]
    keys = corpus.keys()
    listed = [str(key) for key in (keys if isinstance(keys, list) else keys.tolist())]
    if len(set(listed)) != len(listed):
        twice = next(key for key, count in Counter(listed).items() if count > 1)
        raise ValueError(f"the key {twice!r} is there twice in deserializer {which}")
    return listed


def frames(sequences: StoredCorpus, ledger: Ledger) -> StoredCorpus:
    """Return the corpus with every sample as its own sequence.

    Sequences that do not have the samples that they had when they were measured go into the
    ledger, and joined ones whose streams differ in length. Streams of one deserializer that
    differ in length are a DataError when the chunk is loaded: where the data are resident,
    when the engine is made.
    """
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
