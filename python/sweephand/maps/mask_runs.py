"""The loss masks of a corpus, found in one pass over it and kept beside its index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.loss_masks import LossMasks
from sweephand.corpus.one_pass import one_pass
from sweephand.corpus.stored import StoredCorpus
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError
from sweephand.maps.measured_store import MeasuredStore
from sweephand.maps.opening import Opening
from sweephand.maps.stored_streams import StoredStreams

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


def with_loss_masks(corpus: StoredCorpus, opening: Opening) -> StoredCorpus:
    """Return the corpus with the loss masks that its streams name, if they name any.

    Raises
    ------
    ValueError
        If several streams have masks, or there is no such mask.
    DataError
        If a sequence has not as many values in its mask as samples.
    """
    masked = [info for info in corpus.streams if info.loss_mask]
    if not masked:
        return corpus
    if len(masked) > 1:
        names = ", ".join(info.name for info in masked)
        raise ValueError(f"one stream of a source has a loss mask, got: {names}")
    (tokens,) = masked
    mask = _mask_of(corpus.streams, tokens)
    store = MeasuredStore.of(corpus, f"loss mask {mask.name} of {tokens.name}")
    kept = store.read_index()
    if kept is not None:
        _, (counts, bounds, _), _ = kept
        return replace(corpus, masks=LossMasks(offsets_of(counts), bounds - np.uint32(1)))
    num_errors = len(opening.ledger.errors)
    found = _found(corpus, tokens, mask, opening)
    if len(opening.ledger.errors) == num_errors:  # what is damaged may be mended
        counts = found.counts.astype(np.uint32)
        store.keep((counts, found.bounds + np.uint32(1), False))  # no size is 0
    return replace(corpus, masks=found)


def _mask_of(streams: Sequence[StreamInfo], tokens: StreamInfo) -> StreamInfo:
    mask = next((info for info in streams if info.name == tokens.loss_mask), None)
    if mask is None:
        names = ", ".join(info.name for info in streams)
        raise ValueError(
            f"the loss mask of stream {tokens.name!r} is {tokens.loss_mask!r}, and there is no "
            f"such stream among {names}"
        )
    if mask.shape or mask.is_variable or mask.broadcast:
        raise ValueError(
            f"the loss mask {mask.name!r} has {mask.kind}; it has one number or bool for each "
            f"sample of {tokens.name!r}"
        )
    return mask


def _found(
    corpus: StoredCorpus, tokens: StreamInfo, mask: StreamInfo, opening: Opening
) -> LossMasks:
    count = corpus.num_sequences
    runs: list[LossMasks] = []
    numbers: list[NDArray[np.uint64]] = []
    samples = max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, corpus.sample_bytes)))
    stored = StoredStreams(corpus)
    for which, batch in one_pass(corpus, opening.ledger, samples, load_ahead=True):
        if len(which) == 0:
            continue
        sequences = stored.sequences_of(batch)
        values, offsets = sequences[mask.name].as_arrays()
        wanted = sequences[tokens.name].as_arrays()[1]
        wrong = np.flatnonzero(np.diff(offsets) != np.diff(wanted))
        if len(wrong):
            (name,) = corpus.ids.names(which[wrong[:1]])
            have, want = np.diff(offsets)[wrong[0]], np.diff(wanted)[wrong[0]]
            raise DataError(
                f"it has {have} values for the {want} samples of {tokens.name!r}, whose loss "
                "mask it is",
                stream=mask.name,
                sequence=name,
            )
        runs.append(LossMasks.of(values, offsets))
        numbers.append(which)
    return _in_order(runs, numbers, count)


def _in_order(
    runs: Sequence[LossMasks], numbers: Sequence[NDArray[np.uint64]], count: int
) -> LossMasks:
    """Return the runs by the numbers of their sequences; those that are damaged have none."""
    counts = np.zeros(count, np.int64)
    for which, one in zip(numbers, runs, strict=True):
        counts[which] = one.counts
    # A pass is in storage order.
    bounds = [np.empty(0, np.uint32), *(one.bounds for one in runs)]
    return LossMasks(offsets_of(counts), np.concatenate(bounds))
