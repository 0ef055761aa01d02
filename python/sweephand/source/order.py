"""The order of a corpus on nominal time, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.id_words import digests_of_names
from sweephand.corpus.mixing import Mixing
from sweephand.layouts import Layout, Packed
from sweephand.source.limits import END_OF_TIME, FULL_DATA_SWEEP, INFINITELY_REPEAT, MAX_TIME
from sweephand.source.options import SourceOptions
from sweephand.source.scores import ScoredOrder
from sweephand.source.window import Window

_OF_A_CORPUS = 10  # the purpose of a key: docs/order.md, "Mixtures"
_ENDLESS = 2**62  # nominal time of a mixture


def make_order(
    corpus: Corpus, options: SourceOptions, window: Window, scores: ScoredOrder | None = None
) -> tuple[_core.order.Timeline, int]:
    """Return the order of a corpus, and its end in samples or INFINITELY_REPEAT.

    Raises
    ------
    ValueError
        If the limits of the options make no sense for the corpus.
    """
    if corpus.mixing is not None:
        return _mixed(corpus, corpus.mixing, options, window)
    settings = _settings_of(options, window, options.randomization_seed)
    if scores is not None:
        settings.scores = scores.core
    order = _core.order.SweepTimeline(corpus.core, settings)
    return order, options.limits.in_samples(corpus.core.num_samples)


def make_planner(
    order: _core.order.Timeline, layout: Layout, end: int, row_length: int | None = None
) -> _core.compose.Planner:
    """Return the planner of minibatches of an order, at its start.

    Parameters
    ----------
    end : int
        In samples, at most `END_OF_TIME`.
    row_length : int, optional
        Of packed rows, if another than the layout's.
    """
    if row_length is not None:
        assert isinstance(layout, Packed)
        layout = replace(layout, row_length=row_length)
    return _core.compose.Planner(order, layout.planner_choices, end)


def common_boundary(planners: Sequence[_core.compose.Planner], time: int) -> int:
    """Return the first time from `time` on at which a part of every planner begins."""
    found, before = planners[0].boundary(time), None
    # The beginning of a part in one length may be inside a part in another.
    while len(planners) > 1 and found != before and found < END_OF_TIME:
        before = found
        for planner in planners:
            if found < END_OF_TIME:  # past the end of the data there is none
                found = planner.boundary(found)
    return found


def _settings_of(
    options: SourceOptions, window: Window, seed: int
) -> _core.order.OrderSettings:
    return _core.order.OrderSettings(
        seed=seed,
        num_lanes=options.lanes,
        window_chunks=window.chunks,
        window_samples=window.samples,
        randomize=options.randomize,
    )


def _mixed(
    corpus: Corpus, mixing: Mixing, options: SourceOptions, window: Window
) -> tuple[_core.order.MixedTimeline, int]:
    samples, sweeps = options.limits.samples, options.limits.sweeps
    if samples == FULL_DATA_SWEEP:
        raise ValueError("a mixture has no sweep: give max_samples in samples")
    if sweeps != INFINITELY_REPEAT and mixing.at_end != "stop":
        raise ValueError(
            f"max_sweeps is for one corpus, and for a mixture with at_end='stop'; this one has "
            f"at_end={mixing.at_end!r}: give max_samples"
        )
    sizes = [one.core.num_samples for one in mixing.corpora]
    if mixing.at_end == "repeat":
        return _order_of(corpus, mixing, options, window, None), samples
    count = 1 if sweeps in (INFINITELY_REPEAT, FULL_DATA_SWEEP) else sweeps
    ends = [size * count for size in sizes]
    if max(ends) > MAX_TIME:
        raise ValueError(f"{count} sweeps of {max(sizes)} samples pass 2^63")
    if mixing.at_end == "stop":
        ends = _ends_of_first(_order_of(corpus, mixing, options, window, None), mixing, ends)
    order = _order_of(corpus, mixing, options, window, ends)
    return order, min(samples, sum(order.own_times(_ENDLESS)))


def _ends_of_first(
    order: _core.order.MixedTimeline, mixing: Mixing, ends: list[int]
) -> list[int]:
    """Return the position of every corpus at the end of the first to end."""
    keys = [rate.reached(end) for rate, end in zip(mixing.rates, ends, strict=True)]
    first = keys.index(min(keys))
    return order.own_times(order.time_of(first, ends[first]))


def _order_of(
    corpus: Corpus,
    mixing: Mixing,
    options: SourceOptions,
    window: Window,
    ends: list[int] | None,
) -> _core.order.MixedTimeline:
    seed = options.randomization_seed
    digests = digests_of_names(list(mixing.names)).tolist()
    return _core.order.MixedTimeline(
        corpus=corpus.core,
        settings=_settings_of(options, window, seed),
        timelines=[
            _core.order.SweepTimeline(
                one.core,
                _settings_of(
                    options,
                    options.window.for_corpus(one)[0],
                    _core.base.derive_key([1, seed, _OF_A_CORPUS, digest]),
                ),
            )
            for one, digest in zip(mixing.corpora, digests, strict=True)
        ],
        rates=mixing.rates,
        limits=ends or [INFINITELY_REPEAT] * len(mixing.corpora),
        tells_sweeps=mixing.at_end == "stop",
        num_at_first=mixing.num_at_first,
    )
