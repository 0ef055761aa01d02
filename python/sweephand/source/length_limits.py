"""Sequences that a layout refuses, leaves out or splits: too long, or with too much beside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sweephand import _core

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.layouts import Layout


@dataclass(frozen=True)
class LongSequences:
    """Counts of sequences, per sweep, that a layout dropped or split."""

    dropped_sequences: int = 0
    dropped_samples: int = 0
    split_sequences: int = 0
    split_samples: int = 0


def check_lengths(layout: Layout, corpus: Corpus) -> None:
    """Refuse sequences of one sample each in a layout of rows."""
    for name, part in flat_parts(corpus).items() if layout.has_rows else ():
        whose = f" of the corpus {name!r}" if name else ""
        lengthy = [info.name for info in part.streams if not (info.broadcast or info.carried)]
        stream = part.size_stream or (lengthy or ["tokens"])[0]
        raise ValueError(
            f"{type(layout).__name__} is for sequences, and all {part.num_sequences} "
            f"sequences{whose} have one sample each: its rows would be single samples in "
            "shuffled order, none with a next one. If they are tokens of documents, say where "
            f"these end: {stream!r} as (values, offsets), or sequence_length= or "
            "end_of_document= of sh.RawTokensDeserializer or sh.open; for rows and images take "
            "sh.Ragged(), the default"
        )


def flat_parts(corpus: Corpus) -> dict[str, Corpus]:
    """Return the parts of a corpus whose sequences have one sample each."""
    return {
        name: part
        for name, part in corpus.parts.items()
        if part.core.num_samples == part.core.num_sequences
    }


def treat_long(layout: Layout, corpus: Corpus) -> tuple[Corpus, LongSequences]:
    """Return the corpus that the layout serves, and counts of its long sequences."""
    limit = layout.length_limit
    if limit is None:
        return corpus, LongSequences()
    found = _core.index.find_long(corpus.core, limit.longest)
    if found.num_sequences == 0:
        return corpus, LongSequences()
    counts = (found.num_sequences, found.num_samples)
    if limit.policy == "split":
        return corpus, LongSequences(0, 0, *counts)
    longest = corpus.ids.names(np.array([found.sequence], np.uint64))[0]
    message = (
        f"{found.num_sequences} of {corpus.num_sequences} sequences have more samples than "
        f"{limit.what}; the longest is {longest!r} with {found.size}"
    )
    if limit.policy == "error":
        raise ValueError(f"{message}; {limit.advice}")
    if found.num_sequences == corpus.num_sequences:
        raise ValueError(f"nothing is left: {message}")
    sizes = corpus.core.sizes(0, corpus.num_sequences)
    return corpus.keep(sizes <= limit.longest), LongSequences(*counts)


def treat_loaded(
    layout: Layout, corpus: Corpus, long: LongSequences
) -> tuple[Corpus, LongSequences]:
    """Return the corpus without sequences that carry too much, where they are to be dropped."""
    if layout.over_limit == "alone":
        return corpus, long
    for name, most in layout.load_limits.items():
        counts = corpus.counts[name]
        is_over = counts > most
        if not is_over.any():
            continue
        first = corpus.ids.names(np.array([counts.argmax()], np.uint64))[0]
        message = (
            f"{is_over.sum()} of {corpus.num_sequences} sequences carry more than the limit of "
            f"{most} of stream {name!r}; the most has {first!r} with {counts.max()}"
        )
        if layout.over_limit == "error":
            raise ValueError(
                f"{message}; raise the limit, or take over_limit='drop' or 'alone'"
            )
        if is_over.all():
            raise ValueError(f"nothing is left: {message}")
        sizes = corpus.core.sizes(0, corpus.num_sequences)[is_over]
        long = replace(
            long,
            dropped_sequences=long.dropped_sequences + len(sizes),
            dropped_samples=long.dropped_samples + int(sizes.sum(dtype=np.int64)),
        )
        corpus = corpus.keep(~is_over)
    return corpus, long
