"""Items that count: labels and their weights, and what sequences carry beside rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.corpus import LossMasks, StoredCorpus, concat_masks
from sweephand.corpus.streams import StreamInfo
from sweephand.errors import DataError
from sweephand.maps.kept_pass import KeptPass, PassFindings, batches
from sweephand.maps.sequence_map import StoredStreams
from sweephand.maps.workers import OpenContext
from sweephand.minibatch.labels import LABELS, are_tokens, spread_weights


def with_loss_masks(corpus: StoredCorpus, opening: OpenContext) -> StoredCorpus:
    """Return the corpus with the loss masks that its streams name, if they name any.

    The first sample of a part is no label of the one before it. ValueError if several streams
    have masks, parts or weights, or there are no such streams; DataError if a sequence has not
    as many values in them as samples, its parts descend, or a weight is not finite.
    """
    masked = [info for info in corpus.streams if info.is_masked]
    if not masked:
        return corpus
    if len(masked) > 1:
        names = ", ".join(info.name for info in masked)
        raise ValueError(
            f"one stream of a source has a loss mask, parts or label weights, got: {names}"
        )
    (tokens,) = masked
    if tokens.definition.label_weights and not are_tokens(tokens):
        raise ValueError(f"label weights are of next tokens, {tokens.name!r} has {tokens.form}")
    if tokens.definition.label_weights and any(info.name == LABELS for info in corpus.streams):
        raise ValueError(
            f"the label weights of {tokens.name!r} are of its next tokens, and the labels are "
            f"the stream {LABELS!r}: give that another name, or leave the weights out"
        )
    beside = {
        option: _beside(corpus.streams, tokens, name, option)
        for option, name in tokens.definition.beside.items()
    }
    names = " ".join(f"{option} {info.name}" for option, info in beside.items())
    kept = KeptPass(corpus, opening, f"{names} of {tokens.name}")
    if (known := kept.recall()) is not None:
        weights = known.arrays["weights"]
        return replace(corpus, masks=LossMasks(offsets_of(known.counts), known.values, weights))
    found = _masks_of(corpus, opening, tokens, beside)
    counts = found.counts.astype(np.uint32)
    kept.keep(PassFindings(counts, found.bounds, arrays={"weights": found.weights}))
    return replace(corpus, masks=found)


_WORDS = {  # the stream, and what it has for a sample
    "loss_mask": ("loss mask", "mask"),
    "parts": ("stream of parts", "part"),
    "label_weights": ("stream of label weights", "weight"),
}


def _beside(
    streams: Sequence[StreamInfo], tokens: StreamInfo, name: str, option: str
) -> StreamInfo:
    what = _WORDS[option][0]
    found = next((info for info in streams if info.name == name), None)
    if found is None:
        names = ", ".join(info.name for info in streams)
        raise ValueError(
            f"the {what} of stream {tokens.name!r} is {name!r}, and there is no such stream "
            f"among {names}"
        )
    kinds = {"parts": "biu", "label_weights": "biufV"}.get(option, found.dtype.kind)
    is_number = found.dtype.kind in kinds
    is_plain = not (found.is_variable or found.broadcast or found.definition.transforms)
    if found.shape or not (is_plain and is_number):
        raise ValueError(
            f"the {what} {name!r} has {found.form}; it has one number for each sample of "
            f"{tokens.name!r}, as it is stored or mapped, without transforms"
        )
    return found


def _masks_of(
    corpus: StoredCorpus,
    opening: OpenContext,
    tokens: StreamInfo,
    beside: Mapping[str, StreamInfo],
) -> LossMasks:
    runs: list[LossMasks] = []
    counts = np.zeros(corpus.num_sequences, np.int64)  # damaged sequences have no runs
    stored = StoredStreams(corpus)
    for which, batch in batches(corpus, opening):
        sequences = stored.sequences_of(batch)
        offsets = sequences[tokens.name].as_arrays()[1]
        is_on, weights = np.ones(offsets[-1], np.bool_), None
        for option, other in beside.items():
            values, own = sequences[other.name].as_arrays()
            if option == "label_weights":
                values = values.astype(np.float64)
            refuse = partial(_error, corpus, which, other.name)
            lengths, have = np.diff(offsets), np.diff(own)
            _check(refuse, tokens.name, option, values, have, lengths)
            if option == "loss_mask":
                is_on &= values != 0
            elif option == "parts":
                is_on &= ~_part_starts(refuse, values, offsets)
            else:
                weights = spread_weights(values, have, lengths)
        runs.append(runs_of(is_on, offsets, weights))
        counts[which] = runs[-1].counts
    joined = concat_masks(runs)  # as a pass is in storage order
    return LossMasks(offsets_of(counts), joined.bounds, joined.weights)


def _check(
    refuse: Refuse,
    tokens: str,
    option: str,
    values: NDArray[Any],
    have: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Refuse values of a wrong number, and those that say nothing."""
    is_wrong, is_bad = have != lengths, values != values
    if option == "label_weights":
        is_wrong &= have != 1
        is_bad = ~np.isfinite(values)
    if len(wrong := np.flatnonzero(is_wrong)):
        at = wrong[0]
        raise refuse(
            at, f"it has {have[at]} values for the {lengths[at]} samples of {tokens!r}"
        )
    if len(bad := np.flatnonzero(is_bad)):
        at = np.searchsorted(np.cumsum(have), bad[0], side="right")
        number = bad[0] - have[:at].sum()
        reason = f"the {_WORDS[option][-1]} of sample {number} is {values[bad[0]]}"
        raise refuse(at, reason)


def runs_of(
    is_on: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
) -> LossMasks:
    """Return the runs of samples that a loss is taken on, each of one weight."""
    goes_on = np.zeros(len(is_on) + 1, np.bool_)  # from the sample before, and the end
    goes_on[1:-1] = is_on[1:] & is_on[:-1]
    if weights is not None:
        goes_on[1:-1] &= weights[1:] == weights[:-1]
    goes_on[offsets] = False
    first = np.flatnonzero(is_on & ~goes_on[:-1])
    end = np.flatnonzero(is_on & ~goes_on[1:]) + 1
    sequences = np.searchsorted(offsets, first, side="right") - 1
    bounds = np.stack([first, end], axis=1) - offsets[sequences][:, None]
    return LossMasks(
        offsets_of(2 * np.bincount(sequences, minlength=len(offsets) - 1)),
        bounds.reshape(-1).astype(np.uint32),
        np.empty(0) if weights is None else weights[first],
    )


def _part_starts(
    refuse: Refuse, values: NDArray[Any], offsets: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which samples are the first of a part that is not the first of its sequence."""
    is_within = np.ones(len(values), np.bool_)
    is_within[offsets[:-1][np.diff(offsets) > 0]] = False
    starts, descends = np.zeros(len(values), np.bool_), np.zeros(len(values), np.bool_)
    starts[1:] = values[1:] != values[:-1]
    descends[1:] = values[1:] < values[:-1]
    wrong = np.flatnonzero(descends & is_within)
    if len(wrong):
        number = np.searchsorted(offsets, wrong[0], side="right") - 1
        raise refuse(number, "the numbers of its parts descend")
    return starts & is_within


Refuse = Callable[[Any, str], DataError]
"""Returns the error of the sequence at a place of a batch, with a reason."""


def _error(
    corpus: StoredCorpus, which: NDArray[np.uint64], stream: str, at: Any, reason: str
) -> DataError:
    (name,) = corpus.ids.names(which[[at]])
    return DataError(reason, stream=stream, sequence=name)


_MOST_ITEMS = 2**32 - 2


def check_carried(streams: Iterable[StreamInfo], names: Iterable[str]) -> None:
    """Raise ValueError if there is no carried stream of a name."""
    carried = [info.name for info in streams if info.carried]
    for name in names:
        if name not in carried:
            raise ValueError(
                "limits and costs are of carried streams, StreamDef(carried=True): "
                f"{name!r} is none, there are: {', '.join(carried)}"
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
    if missing := [name for name in names if name not in found]:
        kept = KeptPass(corpus, opening, f"counts of {', '.join(missing)}")
        if (known := kept.recall()) is None:
            none = np.zeros(0, np.uint32)
            known = PassFindings(none, none, arrays=_carried(corpus, missing, opening))
            kept.keep(known)
        found |= known.arrays
    return replace(corpus, counts={name: found[name] for name in names})


def _carried(
    corpus: StoredCorpus, names: Collection[str], opening: OpenContext
) -> dict[str, NDArray[np.uint32]]:
    """Return the counts of all sequences; those that are damaged carry nothing."""
    numbers = {info.name: number for number, info in enumerate(corpus.streams)}
    found = {name: np.zeros(corpus.num_sequences, np.uint32) for name in names}
    for which, batch in batches(corpus, opening):
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
