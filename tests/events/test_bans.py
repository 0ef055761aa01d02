"""A ban moves no boundary: a run with it differs from one without in banned sequences alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pytest

import sweephand as sh

LAYOUTS = [
    sh.Ragged(),
    sh.Padded(),
    sh.Packed(16),
    sh.Packed(8, split_long="split"),
    sh.Packed(16, lanes="apart"),
    sh.Packed(16, micro_batch_rows=2),
    sh.Bucketed([4, 9]),
    sh.Bucketed([4, 9], num_sequences=5),
    sh.TruncatedBPTT(4),
    sh.Frames(),
]
WORKERS: list[tuple[int, Any]] = [(1, None), (3, None), (4, "samples"), (2, "attention")]


def corpus(seed: int, longest: int = 9) -> sh.ArrayDeserializer:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, int(rng.integers(20, 60)))
    return sh.ArrayDeserializer(
        {"x": [np.full(length, number) for number, length in enumerate(lengths)]}
    )


def alone(seed: int) -> Any:
    return corpus(seed)


def all_of_one_sample(seed: int) -> Any:
    return corpus(seed, longest=2)


def mixed(seed: int) -> Any:
    corpora = {"a": corpus(seed), "b": corpus(seed + 100), "c": corpus(seed + 200)}
    return sh.Mixture(corpora, {"a": 3, "b": 1, "c": 2})


Step = tuple[int, int, int, list[list[str]], list[list[str]], list[Any]]


def steps_of(
    data: Any, layout: sh.Layout, sizes: list[int], workers: int, options: dict[str, Any]
) -> list[Step]:
    """Of every minibatch: begin, samples, sweeps, and each share: ids, banned ids, shapes."""
    steps = []
    with sh.MinibatchSource(data, layout=layout, num_lanes=4, **options) as source:
        for size in sizes:
            state = source.get_checkpoint_state()
            shares = []
            for rank in range(workers):
                source.restore_from_checkpoint(state)
                shares.append(source.next_minibatch(size, None, None, workers, rank))
            first = shares[0]
            assert len({(one.nominal_time, one.global_num_samples) for one in shares}) == 1
            steps.append((
                first.nominal_time,
                first.global_num_samples,
                first.sweeps_ended,
                [one.ids for one in shares],
                [one.banned_ids for one in shares],
                [one["x"].asarray().shape[:2] for one in shares if packs(layout)],
            ))  # fmt: skip
    return steps


def packs(layout: sh.Layout) -> bool:
    return isinstance(layout, sh.Packed)


def pieces_of(
    data: Any, layout: sh.Layout, sizes: list[int], options: dict[str, Any]
) -> list[list[tuple[int, str]]]:
    """Of every minibatch without events: when each sequence or piece begins, and its id."""
    with sh.MinibatchSource(data, layout=layout, num_lanes=4, **options) as source:
        found = []
        for size in sizes:
            one = source.next_minibatch(size)
            lengths = map(len, one["x"].as_sequences())
            times = accumulate(lengths, initial=one.nominal_time)
            found.append(list(zip(times, one.ids, strict=False)))
        return found


def is_part_of(some: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return all(name in rest for name in some)


CASES = [
    (data_of, layout, workers)
    for data_of in (alone, all_of_one_sample, mixed)
    for layout in LAYOUTS
    for workers in WORKERS
    # What is refused by name.
    if not (data_of is all_of_one_sample and isinstance(layout, sh.Packed | sh.TruncatedBPTT))
    if not (data_of is mixed and getattr(layout, "lanes", "") == "apart")
    if not (workers[1] is not None and isinstance(layout, sh.TruncatedBPTT))
]


@pytest.mark.parametrize(
    ("data_of", "layout", "workers"), CASES, ids=lambda one: getattr(one, "__name__", str(one))
)
@pytest.mark.parametrize("seed", range(2))
def test_a_run_with_bans_differs_in_the_banned_sequences_alone(
    seed: int, data_of: Callable[[int], Any], layout: sh.Layout, workers: tuple[int, Any]
) -> None:
    count, balance = workers
    rng = np.random.default_rng(seed)
    data = data_of(seed)
    sizes = rng.integers(1, 70, 14).tolist()
    if isinstance(layout, sh.Bucketed | sh.TruncatedBPTT):
        sizes = [40] * 14
    options = {"randomization_seed": seed, "balance": balance, "max_samples": 3000}
    pieces = pieces_of(data, layout, sizes, {**options, "balance": None})
    coming = [piece for step in pieces for piece in step]
    end = coming[-1][0] + 1
    bans = []
    for at in rng.integers(1, end, 3).tolist():
        names = [name for time, name in coming if time >= at]
        bans.append(sh.events.Ban(at=at, ids=tuple(rng.choice(names, 6).tolist())))
    since: dict[str, int] = {}
    for ban in bans:
        for name in ban.ids:
            since[name] = min(ban.at, since.get(name, ban.at))
    plain = steps_of(data, layout, sizes, count, options)
    found = steps_of(data, layout, sizes, count, {**options, "events": bans})
    changed = 0
    for before, after, own in zip(plain, found, pieces, strict=True):
        assert before[:3] == after[:3]
        assert before[5] == after[5]
        gone = Counter(name for time, name in own if time >= since.get(name, end))
        assert Counter(chain(*after[4])) == gone
        for whole, kept, banned in zip(before[3], after[3], after[4], strict=True):
            assert is_part_of(kept, whole)
            assert is_part_of(banned, whole)
            assert Counter(whole) == Counter([*kept, *banned])
        changed += any(gone)
    assert changed


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_a_ban_holds_inside_the_minibatch_in_which_its_time_lies(layout: sh.Layout) -> None:
    data, options = alone(7), {"randomization_seed": 7}
    (pieces,) = pieces_of(data, layout, [60], options)
    for time, name in pieces[1:]:
        for at in (time, time + 1):
            events = [sh.events.Ban(at=at, ids=(name,))]
            with sh.MinibatchSource(
                data, layout=layout, num_lanes=4, events=events, **options
            ) as source:
                minibatch = source.next_minibatch(60)
            gone = [begin for begin, other in pieces if other == name and begin >= at]
            assert minibatch.banned_ids == [name] * len(gone)
