"""Combinations at random: plain data, few and small where hypothesis shrinks them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.combinations import mapped
from tests.combinations.combination import (
    IN_CHUNKS,
    NAMES,
    Action,
    Chunks,
    Combination,
    EventSpec,
)
from tests.model import ModelSettings

import sweephand as sh

LONGEST = 20
TIMES = st.integers(0, 250)

# A part of a mixture has up to 2^20 sequences, and small corpora in chunks of their own take
# tens of seconds to open such a part: of layouts of parts, mixtures are drawn as arrays, and
# not for `TruncatedBPTT`, whose parts are the largest.
PARTS = sh.Packed | sh.Bucketed | sh.TruncatedBPTT


# Corpora and their order ----------------------------------------------------------------------


@st.composite
def corpora(draw: st.DrawFn, *, is_for_rows: bool = False) -> Chunks:
    """A tiny corpus, one of single samples, or one of sequences; rows are of sequences."""
    most = draw(
        st.sampled_from([1, 4, LONGEST] if not is_for_rows else [4, 4, LONGEST] * 4 + [1])
    )
    chunk = st.lists(
        st.integers(1, most), min_size=1, max_size=draw(st.sampled_from([1, 3, 9]))
    )
    chunks = draw(st.lists(chunk, min_size=1, max_size=draw(st.sampled_from([1, 2, 7]))))
    if is_for_rows and most > 1:
        chunks[0][0] = max(2, chunks[0][0])
    return tuple(map(tuple, chunks))


@st.composite
def settings(draw: st.DrawFn) -> ModelSettings:
    window = draw(st.sampled_from([None, "chunks", "samples"]))
    return ModelSettings(
        seed=draw(st.sampled_from([0, 1, 7, 2**64 - 1])),
        num_lanes=draw(st.sampled_from([1, 2, 3, 4, 6, 48])),
        window_chunks=draw(st.integers(1, 12)) if window == "chunks" else None,
        window_samples=draw(st.integers(1, 99)) if window == "samples" else None,
        randomize=draw(st.sampled_from([True, True, True, False])),
    )


def layouts(is_mixture: bool) -> st.SearchStrategy[sh.Layout]:
    """Half of them have rows."""
    lengths = st.integers(4, 40)
    packed = st.builds(
        sh.Packed,
        lengths,
        st.sampled_from(["split", "split", "drop", "error"]),
        look_ahead=st.sampled_from([1, 4, 64]),
        micro_batch_rows=st.sampled_from([None, None, 1, 2, 3]),
    )
    bptt = packed if is_mixture else st.builds(sh.TruncatedBPTT, st.integers(2, 12))
    padded = st.builds(
        sh.Padded, side=st.sampled_from(["left", "right"]), multiple_of=st.sampled_from([1, 8])
    )
    bucketed = st.one_of(
        st.builds(lambda ends: sh.Bucketed(sorted({*ends, LONGEST * 2})), st.sets(lengths)),
        st.builds(lambda end: sh.Bucketed([4, end], drop_long=True), st.integers(5, 20)),
    )
    frames = st.just(sh.Frames())
    kinds = [st.just(sh.Ragged()), padded, packed, packed, packed, bucketed, bptt, frames]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


@st.composite
def maps(draw: st.DrawFn, is_joined: bool) -> tuple[str, ...]:
    """What is joined has a size of its own, so that a map of the other leaves that one."""
    names = mapped.SAME_SIZE + (("is_kept",) if is_joined else mapped.OTHER_SIZE)
    return tuple(draw(st.lists(st.sampled_from(names), max_size=3, unique=True)))


def engines() -> st.SearchStrategy[dict[str, Any]]:
    """Who makes minibatches; processes take long to begin."""
    return st.fixed_dictionaries(
        {
            "num_threads": st.sampled_from([0, 1, 2]),
            "prefetch": st.sampled_from([0, 1, 3]),
            "num_map_workers": st.sampled_from([0, 1, 2]),
            "map_executor": st.sampled_from(["threads"] * 30 + ["processes"]),
        }
    ).map(_possible)


def _possible(engine: dict[str, Any]) -> dict[str, Any]:
    if engine["map_executor"] == "processes":
        engine["num_map_workers"] = max(1, engine["num_map_workers"])
    return engine


# Events ---------------------------------------------------------------------------------------


def weights(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    some = st.lists(st.sampled_from([0, 1, 1, 3, 9]), min_size=count, max_size=count)
    return some.map(lambda found: tuple(found) if any(found) else (1, *found[1:]))


@st.composite
def knots(draw: st.DrawFn, count: int) -> Any:
    """Weights that hold, or change from time to time."""
    times = draw(st.just([0]) | st.lists(TIMES, min_size=1, max_size=3, unique=True))
    return tuple((time, draw(weights(count))) for time in sorted(times))


@st.composite
def events(draw: st.DrawFn, combination: Combination) -> tuple[EventSpec, ...]:
    """A list by time, of which some are at one time."""
    kinds = ["ban", "ban"]
    if not isinstance(combination.layout, sh.Bucketed | sh.TruncatedBPTT):
        kinds.append("skip")  # of those, tests/events/test_events.py tries skips
    if combination.is_mixture:
        kinds += ["weights", "weights"]
    if "versioned" in combination.maps:
        kinds += ["map_version"]
    times = sorted(draw(st.lists(TIMES | st.just(60), max_size=4)))
    count = len(combination.corpora)
    found: list[EventSpec] = []
    for at in times:
        kind = draw(st.sampled_from(kinds))
        if kind == "map_version" and any(one.kind == kind for one in found):
            continue
        found.append(EventSpec(kind, at, draw(numbers_of(kind, count))))
    return tuple(found)


def numbers_of(kind: str, count: int) -> st.SearchStrategy[tuple[int, ...]]:
    if kind == "ban":
        return st.lists(st.integers(0, 60), min_size=1, max_size=6).map(tuple)
    if kind == "skip":
        return st.tuples(st.integers(1, 90))
    if kind == "weights":
        return weights(count)
    return st.just(())


# Runs -----------------------------------------------------------------------------------------


@st.composite
def actions(draw: st.DrawFn) -> tuple[Action, ...]:
    """Mostly calls, of which the size and the number of workers change."""
    found = []
    for kind in draw(
        st.lists(
            st.sampled_from(["take", "take", "take", "take", "fresh", "back", "seek", "event"]),
            min_size=1,
            max_size=10,
        )
    ):
        if kind == "event":
            name = draw(st.sampled_from(["ban", "ban", "skip", "weights", "map_version"]))
            delay = draw(st.integers(0, 60))
            spec = EventSpec(name, delay, draw(numbers_of(name, len(NAMES))))
            found.append(Action("event", event=spec))
            continue
        size = draw(st.integers(1, 120))
        found.append(Action(kind, size, draw(st.sampled_from([1, 1, 2, 3, 4]))))
    return tuple(found)


@st.composite
def combinations(draw: st.DrawFn) -> Combination:
    is_mixture = draw(st.booleans())
    count = draw(st.sampled_from([1, 2, 2, 3, 4])) if is_mixture else 1
    at_end = draw(st.sampled_from(["repeat", "stop", "drop"])) if is_mixture else "repeat"
    limit = draw(st.sampled_from([None, "samples", "sweeps"]))
    if is_mixture and limit == "sweeps" and at_end != "stop":
        limit = None
    joined = draw(st.sampled_from([None, None, "error", "drop"]))
    layout = draw(layouts(is_mixture))
    is_slow = is_mixture and isinstance(layout, PARTS)
    has_rows = isinstance(layout, sh.Packed | sh.TruncatedBPTT)
    names = draw(maps(joined is not None))
    keeps_sizes = not set(names) - {*mapped.SAME_SIZE, "is_kept"}
    combination = Combination(
        corpora=tuple(draw(corpora(is_for_rows=has_rows)) for _ in range(count)),
        knots=draw(knots(count)) if is_mixture else (),
        at_end=at_end,
        form="array" if is_slow else draw(st.sampled_from(["array", IN_CHUNKS])),
        settings=draw(settings()),
        layout=layout,
        balance=draw(st.sampled_from([None, None, None, None, "samples", "attention"])),
        maps=names,
        maps_mixture=is_mixture and joined is None and draw(st.booleans()),
        joined=joined,
        carries=draw(st.integers(0, 2)) == 0,
        masks=keeps_sizes and draw(st.integers(0, 2)) == 0,
        weights=draw(st.sampled_from([None, "each", "one"])) if keeps_sizes else None,
        has_parts=keeps_sizes and draw(st.sampled_from([not layout.may_cut, False, False])),
        max_samples=draw(st.integers(1, 500)) if limit == "samples" else None,
        max_sweeps=draw(st.integers(1, 3)) if limit == "sweeps" else None,
        engine=tuple(draw(engines()).items()),
        actions=draw(actions()),
    )
    if combination.carries and count > 1 and draw(st.booleans()):
        combination = replace(combination, bare=draw(st.integers(0, count - 1)))
    if combination.carries and isinstance(layout, sh.Packed) and draw(st.booleans()):
        combination = replace(combination, layout=draw(limited(layout)))
    return replace(combination, events=draw(events(combination)))


def limited(layout: sh.Packed) -> st.SearchStrategy[sh.Packed]:
    """The layout with rows of few items; sequences carry three at most."""
    policies = st.sampled_from(["alone", "alone", "drop", "error"])
    return st.builds(
        lambda most, over: replace(layout, limits={"items": most}, over_limit=over),
        st.integers(2, 6),
        policies,
    )
