"""Labels of a minibatch: their kind, and how many there are over all workers."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.streams import StreamInfo

LABELS = "labels"


def spread_weights(
    weights: NDArray[Any], counts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the weight of every sample; `counts` are one or as many weights a sequence."""
    return np.repeat(weights, np.repeat(np.where(counts == lengths, 1, lengths), counts))


class LabelKind(Enum):
    """The part of a minibatch that labels belong to."""

    SAMPLES = auto()  # one to a sample
    SEQUENCES = auto()  # one to a sequence
    NEXT_TOKENS = auto()  # one to a sample that is not the last of its sequence
    MASKED = auto()  # one to a sample of a loss mask that is not the first of its sequence
    UNKNOWN = auto()  # their number is known after they are read

    def count(self, counted: _core.compose.PieceCount) -> int:
        """Return the number of labels over all workers, without those of banned sequences."""
        if self is LabelKind.UNKNOWN:
            raise ValueError(
                "how many labels the other workers have is not known before they are read: let "
                f"their stream define the size, {LABELS}=StreamDef(..., defines_mb_size=True)"
            )
        if self is LabelKind.SEQUENCES:
            return counted.pieces
        if self is LabelKind.MASKED:
            return counted.labels
        last = counted.ends if self is LabelKind.NEXT_TOKENS else 0
        return counted.samples - last


def are_tokens(info: StreamInfo) -> bool:
    """Return True if samples are integers, of which `MinibatchData.labels` makes labels."""
    return not info.is_sparse and info.shape == () and info.dtype.kind in "iu"


def check_tokens(info: StreamInfo) -> None:
    """Raise TypeError if there are no labels of a stream."""
    if info.carried:
        raise TypeError(
            f"stream {info.name!r} is carried beside the tokens, and has no next ones"
        )
    if not are_tokens(info):
        raise TypeError(
            f"labels are made of integers, stream {info.name!r} has samples of "
            f"{info.dtype}, shape {info.shape}"
        )


def kind_of_stream(labels: StreamInfo) -> LabelKind:
    """Return the kind of a stream of labels in which every sample is a label."""
    if labels.is_sized:
        return LabelKind.SAMPLES
    return LabelKind.SEQUENCES if labels.is_single else LabelKind.UNKNOWN


def kind_without_stream(
    streams: Collection[StreamInfo], corpus: _core.index.Corpus
) -> LabelKind:
    """Return the kind of labels where no stream holds them.

    They are the next tokens of the size-defining stream, or else of the first with a length of
    its own, and on those a loss mask says; its samples if it holds no tokens, or if all
    sequences have one sample.
    """
    if corpus.num_samples == corpus.num_sequences:
        return LabelKind.SAMPLES
    lengthy = [
        info for info in streams if not (info.is_single or info.broadcast or info.carried)
    ]
    chosen = [info for info in streams if info.defines_mb_size] or lengthy
    if any(info.is_masked for info in streams):
        return LabelKind.MASKED
    return LabelKind.NEXT_TOKENS if chosen and are_tokens(chosen[0]) else LabelKind.SAMPLES


def kind_of_corpus(streams: Collection[StreamInfo], corpus: _core.index.Corpus) -> LabelKind:
    """Return the kind of labels of minibatches with all these streams."""
    for info in streams:
        if info.name == LABELS:
            return kind_of_stream(info)
    return kind_without_stream(streams, corpus)
