"""Corpus that a source serves: opened, joined, and cut to the limits of its layout."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.derived import frames, join
from sweephand.corpus.ledger import Ledger
from sweephand.layouts.attention import costs_of_items
from sweephand.maps import MapWorkers, OpenContext

if TYPE_CHECKING:
    from sweephand.corpus.corpus import Corpus
    from sweephand.corpus.streams import StreamInfo
    from sweephand.events.event_list import EventList
    from sweephand.layouts import Layout
    from sweephand.source.options import SourceOptions, Window


@dataclass(frozen=True, eq=False)
class OpenCorpus:
    """A corpus opened for the options of a source, laid out by none of its events."""

    corpus: Corpus  # the sequences that are served, in the chunks by which they are shuffled
    long: LongSequences  # sequences that the layout drops or splits
    layout: Layout  # with everything decided that follows from lengths
    window: Window
    ledger: Ledger  # of damaged items
    workers: MapWorkers  # what the maps of the corpus run on


def open_corpus(options: SourceOptions, events: EventList) -> OpenCorpus:
    """Open the corpus of a source."""
    ledger = Ledger(options.max_errors)
    workers = MapWorkers(options.map_workers, options.map_executor, options.map_timeout)
    try:
        opening = OpenContext(
            ledger=ledger,
            seed=options.randomization_seed,
            workers=workers,
            map_versions=events.map_versions,
            missing=options.missing,
            memory_limit=options.memory_limit,
        )
        opened = [deserializer.open_for(opening) for deserializer in options.opened_from]
        if options.window.explicit:
            opened = [corpus.in_window() for corpus in opened]
        joined = join(opened, options.missing)
        for at, name, _ in opening.map_versions:
            if not any(f"map {name} " in words for words in joined.names):
                raise ValueError(f"the event 'map_version' at {at}: there is no map {name!r}")
        layout = options.chosen_layout
        check_lengths(layout, joined)
        whole = lay_out(joined, layout, opening)
        weighted = [info.name for info in whole.streams if info.definition.label_weights]
        if weighted and whole.core.num_samples == whole.num_sequences:
            raise ValueError(
                f"label weights are of next tokens, and sequences of {weighted[0]!r} have none"
            )
        counted = {*(layout.limits or {}), *costs_of_items(options.balance)}
        if counted or any(one.counts for one in whole.parts.values()):
            from sweephand.maps import check_carried, with_counts  # brings files

            check_carried(whole.streams, sorted(counted))
            whole = whole.each(lambda one: with_counts(one, sorted(counted), opening))
        served, long = treat_long(layout, whole)
        served, long = treat_loaded(layout, served, long)
        check_lengths(layout, served)
        corpus = options.window.in_chunks(served)
        layout = layout.settle(corpus.core, corpus.counts)
        return OpenCorpus(corpus, long, layout, options.window.of(served), ledger, workers)
    except BaseException:
        workers.close()
        raise


def lay_out(
    corpus: Corpus, layout: Layout, opening: OpenContext, single: Collection[str] | None = None
) -> Corpus:
    """Return a corpus as a layout serves it, with its parts and loss masks.

    Where all sequences have one sample, only streams of `single` come one per sequence.
    """
    whole = _settle_singles(_in_layout(corpus, layout, opening.ledger), layout, single)
    whole = _with_parts(whole, layout)
    if not layout.cuts_sequences and any(info.is_masked for info in whole.streams):
        from sweephand.maps import with_loss_masks  # brings files

        whole = whole.each(lambda one: with_loss_masks(one, opening))
    return whole


def _in_layout(corpus: Corpus, layout: Layout, ledger: Ledger) -> Corpus:
    layout.check_streams([info.name for info in corpus.streams])
    carried = [info.name for info in corpus.streams if info.carried]
    if layout.cuts_sequences and carried:
        raise ValueError(
            f"stream {carried[0]!r} is carried beside whole sequences, and {layout!r} makes "
            "every sample a sequence of its own: take another layout, or leave the stream out"
        )
    if not layout.cuts_sequences:
        return corpus

    return corpus.each(lambda one: frames(one, ledger))


def _settle_singles(
    corpus: Corpus, layout: Layout, single: Collection[str] | None = None
) -> Corpus:
    """Return the corpus with `is_single` true of those streams that come one per sequence.

    Those that are broadcast come per sample. Rows and buckets must hold something: where all
    sequences have one sample, that is every stream. `is_sized` is true of those that have as
    many samples as sequences are long, whatever the other streams hold.
    """
    is_filling = not layout.fits_in_order or single is not None
    fills_rows, one_each = is_filling and corpus.core.common_size == 1, single or ()
    is_sole = sum(not info.carried for info in corpus.streams) == 1

    def settled(info: StreamInfo) -> StreamInfo:
        return replace(
            info,
            is_single=info.is_single
            and not (info.broadcast or info.carried)
            and (not fills_rows or info.name in one_each),
            is_sized=info.defines_mb_size
            or info.broadcast
            or (
                not info.carried
                and info.name not in one_each
                and (is_sole or (info.is_single and fills_rows))
            ),
        )

    return _with_streams(corpus, settled)


def _with_streams(corpus: Corpus, change: Callable[[StreamInfo], StreamInfo]) -> Corpus:
    return corpus.each(
        lambda one: one.read_by(
            replace(reader, streams=[*map(change, reader.streams)]) for reader in one.readers
        )
    )


def _with_parts(corpus: Corpus, layout: Layout) -> Corpus:
    """Return the corpus whose tokens have the parts that a layout names."""
    if layout.parts is not None and not any(info.definition.parts for info in corpus.streams):
        tokens = corpus.size_stream or next(
            (
                one.name
                for one in corpus.streams
                if not (one.is_single or one.carried) and one.shape == ()
            ),
            None,
        )
        corpus = _with_streams(
            corpus, lambda one: one.used(parts=layout.parts) if one.name == tokens else one
        )
    if any(info.definition.parts for info in corpus.streams) and layout.may_cut:
        raise ValueError(
            "sequences with parts are whole, and this layout cuts them: take sh.Packed with "
            "split_long='error' or 'drop', sh.Padded, sh.Bucketed or sh.Ragged"
        )
    return corpus


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
            f"sequences{whose} have one sample each: say where documents end, {stream!r} as "
            "(values, offsets), or by sequence_length= or end_of_document= of "
            "sh.RawTokensDeserializer or sh.open; for rows and images take sh.Ragged()"
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
    if limit.policy == "split":
        return corpus, LongSequences(0, 0, found.num_sequences, found.num_samples)
    longest = corpus.ids.names(np.array([found.sequence], np.uint64))[0]
    message = (
        f"{found.num_sequences} of {corpus.num_sequences} sequences have more samples than "
        f"{limit.what}; the longest is {longest!r} with {found.size}"
    )
    if limit.policy == "error":
        raise ValueError(f"{message}; {limit.advice}")
    sizes = corpus.core.sizes(0, corpus.num_sequences)
    return _without(corpus, sizes > limit.longest, LongSequences(), message)


def treat_loaded(
    layout: Layout, corpus: Corpus, long: LongSequences
) -> tuple[Corpus, LongSequences]:
    """Return the corpus without sequences that carry too much, where they are to be dropped."""
    if layout.over_limit == "alone":
        return corpus, long
    for name, most in (layout.limits or {}).items():
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
        corpus, long = _without(corpus, is_over, long, message)
    return corpus, long


def _without(
    corpus: Corpus, is_left_out: NDArray[np.bool_], long: LongSequences, message: str
) -> tuple[Corpus, LongSequences]:
    if is_left_out.all():
        raise ValueError(f"nothing is left: {message}")
    sizes = corpus.core.sizes(0, corpus.num_sequences)[is_left_out]
    long = replace(
        long,
        dropped_sequences=long.dropped_sequences + len(sizes),
        dropped_samples=long.dropped_samples + int(sizes.sum(dtype=np.int64)),
    )
    return corpus.keep(~is_left_out), long
