"""Balance by attention says before the first step how near it comes to the mean."""

import re
import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest

import sweephand as sh

WORKERS = 8


def make_source(longest: int, layout: Any = None, **options: Any) -> sh.MinibatchSource:
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(5, 1, 20_000), 1, longest).astype(int)
    offsets = np.cumsum([0, *lengths])
    corpus = sh.ArrayDeserializer({"x": (np.zeros(offsets[-1], np.uint8), offsets)})
    layout = layout or sh.Ragged()
    return sh.MinibatchSource(
        corpus, layout=layout, num_lanes=WORKERS, num_threads=0, **options
    )


def measured(source: sh.MinibatchSource, size: int, equal_at: int = 24_576) -> float:
    """Return the cost of the fullest worker over the mean, at worst of four steps."""
    plans = [
        source.plan(size, num_data_partitions=WORKERS, partition_index=rank)
        for rank in range(WORKERS)
    ]
    cost = sh.Attention(equal_at=equal_at).cost
    worst = 0.0
    for step in islice(zip(*plans, strict=True), 4):
        costs = [cost(share.sizes.astype(float)).sum() for share in step]
        worst = max(worst, max(costs) / np.mean(costs))
    return worst


def hints_of(source: sh.MinibatchSource, size: int, **share: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):  # it is said once
            next(source.minibatches(size, **share))
            source.current_position = 0
    return [str(one.message) for one in found]


ONE = {"num_data_partitions": WORKERS, "partition_index": 3}


@pytest.mark.parametrize(
    ("layout", "share"),
    [(sh.Ragged(), 2048), (sh.Packed(8192, micro_batch_rows=1), 16_384)],
)
@pytest.mark.parametrize("equal_at", [24_576, 4096])
def test_a_hint_has_the_figure_of_the_shares(layout: Any, share: int, equal_at: int) -> None:
    source = make_source(8000, layout, balance=sh.Attention(equal_at=equal_at))
    size = share * WORKERS
    [hint] = hints_of(source, size, **ONE)
    found = re.search(r"costs (\d\.\d+) of the mean", hint)
    assert found
    assert float(found[1]) == pytest.approx(measured(source, size, equal_at), abs=1e-3)
    assert float(found[1]) > 1.02
    assert ("packed row" in hint.split("; ")[0]) == isinstance(layout, sh.Packed)


@pytest.mark.parametrize(
    ("longest", "size", "balance", "share"),
    [
        (300, 16_384, "attention", ONE),  # near enough
        (8000, 16_384, None, ONE),
        (8000, 16_384, "samples", ONE),
        (8000, 16_384, "attention", {}),  # one worker
    ],
)
def test_who_is_near_or_asks_for_no_such_balance_is_told_nothing(
    longest: int, size: int, balance: Any, share: Any
) -> None:
    source = make_source(longest, balance=balance)
    assert hints_of(source, size * WORKERS, **share) == []


def test_no_minibatch_changes_by_the_question() -> None:
    source, other = (make_source(8000, balance="attention") for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sh.SweephandHint)
        asked = next(source.minibatches(16_384 * WORKERS, **ONE)).ids
    assert asked == other.next_minibatch(16_384 * WORKERS, None, None, WORKERS, 3).ids
