"""When chunks are read next, as a cache is told, and when their sequences come."""

import numpy as np
import pytest

from sweephand import _core

SWEEPS = 3
NEVER = 2**64 - 1


def make(counts: list[int], lanes: int, window: int, randomize: bool) -> _core.order.Timeline:
    chunks = np.array(counts, np.uint64)
    sizes = _core.index.StoredSizes(np.ones(int(chunks.sum()), np.uint32))
    return _core.order.SweepTimeline(
        _core.index.Corpus(chunks, chunks, sizes),
        _core.order.OrderSettings(
            seed=5, num_lanes=lanes, window_chunks=window, window_samples=0, randomize=randomize
        ),
    )


def all_uses(
    uses: _core.order.ChunkUses, chunk: int, readers: list[_core.order.LaneReader], end: int
) -> list[int]:
    """Return every time at which a chunk is begun."""
    alone = np.array([chunk], np.uint64)
    found, now = [], int(uses.next(alone, 0, readers, False)[0])
    while now < end:
        found.append(now)
        now = int(uses.next(alone, now, readers, True)[0])
    return found


@pytest.mark.parametrize("randomize", [True, False])
@pytest.mark.parametrize(("lanes", "window"), [(1, 3), (4, 8), (6, 6), (6, 24)])
def test_every_sequence_comes_while_its_chunk_is_said_to_be_read(
    lanes: int, window: int, randomize: bool
) -> None:
    counts = np.random.default_rng(4).integers(0, 60, 50).tolist()
    timeline = make(counts, lanes, window, randomize)
    lanes = lanes if randomize else 1
    sweep, ends = sum(counts), np.cumsum(counts)
    block = max(1, window // lanes) * max(counts) * lanes  # its longest time
    order = timeline.sequences(0, SWEEPS * sweep)
    chunk_at = np.searchsorted(ends, order, side="right")
    uses = _core.order.ChunkUses(timeline, NEVER, True)
    for chunk, count in enumerate(counts):
        begins = all_uses(uses, chunk, [_core.order.LaneReader(1, 0)], SWEEPS * sweep)
        times = np.flatnonzero(chunk_at == chunk)
        assert len(times) == SWEEPS * count
        for time in times.tolist():
            assert any(begin - lanes <= time <= begin + block + lanes for begin in begins)
        assert len(begins) <= SWEEPS * (2 + block // (sweep // lanes))


def test_workers_have_the_uses_of_their_lanes() -> None:
    timeline = make([20] * 40, lanes=6, window=12, randomize=True)
    uses = _core.order.ChunkUses(timeline, NEVER, True)
    end = SWEEPS * 800

    def of(*readers: tuple[int, int]) -> list[list[int]]:
        told = [_core.order.LaneReader(*one) for one in readers]
        return [all_uses(uses, chunk, told, end) for chunk in range(40)]

    whole, parts = of((1, 0)), [of((3, index)) for index in range(3)]
    for chunk in range(40):
        assert sorted({t for part in parts for t in part[chunk]}) == whole[chunk]
    assert of((3, 0), (3, 2)) == [
        sorted({*a, *b}) for a, b in zip(parts[0], parts[2], strict=True)
    ]
    by_sequence = _core.order.ChunkUses(timeline, NEVER, False)  # everybody reads all lanes
    told = [_core.order.LaneReader(3, 1)]
    assert [all_uses(by_sequence, chunk, told, end) for chunk in range(40)] == whole


def test_the_use_that_is_under_way_is_not_the_next() -> None:
    timeline = make([10] * 30, lanes=1, window=3, randomize=True)
    uses = _core.order.ChunkUses(timeline, NEVER, True)
    reader = [_core.order.LaneReader(1, 0)]
    for chunk in range(30):
        alone = np.array([chunk], np.uint64)
        first, second, *_ = [one for one in all_uses(uses, chunk, reader, 1200) if one]
        for time in (first - 1, first, first + 29):  # it is read ahead, or just now
            assert uses.next(alone, time, reader, True)[0] == second
            assert uses.next(alone, time, reader, False)[0] == max(first, time)
        assert uses.next(alone, first + 30, reader, True)[0] != second
        assert uses.next(alone, first + 30, reader, False)[0] == second


def test_nothing_is_needed_when_the_timeline_has_ended() -> None:
    timeline = make([10] * 30, lanes=1, window=3, randomize=True)
    uses = _core.order.ChunkUses(timeline, 300, True)
    chunks = np.arange(30, dtype=np.uint64)
    reader = [_core.order.LaneReader(1, 0)]
    assert (uses.next(chunks, 0, reader, False) < 300).all()
    assert (uses.next(chunks, 0, reader, True) == NEVER).all()
    assert (
        uses.next(chunks, 299, reader, False) == NEVER
    ).sum() == 27  # but for the last block


def test_what_is_far_away_is_told_to_be_so() -> None:
    timeline = make([10] * 30, lanes=30, window=30, randomize=True)
    uses = _core.order.ChunkUses(timeline, NEVER, True)
    chunks = np.arange(30, dtype=np.uint64)
    rare = [_core.order.LaneReader(30, 7)]  # of thirty workers one reads a chunk
    found = uses.next(chunks, 0, rare, False)
    assert (found <= 5 * 300).all()
    assert (found == 5 * 300).sum() > 15
