"""Counts of items that sequences carry beside rows: of a map, or found in one kept pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError
from sweephand.maps.kept_pass import KeptPass
from sweephand.maps.open_context import OpenContext

_PASS = "counts of {}"
_MOST_ITEMS = 2**32 - 2


def check_carried(streams: Iterable[StreamInfo], names: Iterable[str]) -> None:
    """Raise ValueError if there is no stream of a name, or it is not carried."""
    known = {info.name: info for info in streams}
    for name in names:
        if name not in known:
            raise ValueError(
                f"there is no stream {name!r} to be limited or to cost, there are: "
                f"{', '.join(known)}"
            )
        if not known[name].carried:
            raise ValueError(
                f"limits and costs are of carried streams: {name!r} needs "
                "StreamDef(carried=True)"
            )


def with_counts(
    corpus: StoredCorpus, names: Collection[str], opening: OpenContext
) -> StoredCorpus:
    """Return the corpus with the number of items that each sequence has of carried streams.

    Names that it has no stream of are left out. DataError if a sequence carries 2^32 - 2 items
    or more.
    """
    own = {info.name for info in corpus.streams}
    names = [name for name in names if name in own]
    found = {name: corpus.counts[name] for name in names if name in corpus.counts}
    kept = KeptPass(corpus, opening)
    for name in names:
        if name not in found and (known := kept.recall(_PASS.format(name))) is not None:
            found[name] = known.values
    if missing := [name for name in names if name not in found]:
        found |= _found(corpus, missing, kept)
        for name in missing:
            kept.keep(_PASS.format(name), found[name])
    return replace(corpus, counts={name: found[name] for name in names})


def _found(
    corpus: StoredCorpus, names: Collection[str], kept: KeptPass
) -> dict[str, NDArray[np.uint32]]:
    """Return the counts of all sequences; those that are damaged carry nothing."""
    numbers = {info.name: number for number, info in enumerate(corpus.streams)}
    found = {name: np.zeros(corpus.num_sequences, np.uint32) for name in names}
    for which, batch in kept.batches():
        for name in names:
            offsets = batch.sample_offsets(numbers[name])
            counts = np.ones(len(which), int) if offsets is None else np.diff(offsets)
            if counts.max() > _MOST_ITEMS:
                (who,) = corpus.ids.names(which[[int(counts.argmax())]])
                raise DataError(
                    f"it carries {counts.max()} items, {_MOST_ITEMS} are the most",
                    stream=name,
                    sequence=who,
                )
            found[name][which] = counts
    return found
