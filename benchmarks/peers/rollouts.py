"""Rollouts packed and dealt beside NeMo-RL's and Megatron's rules, and tokens that rows crop.

    pip install sweephand
    python -m benchmarks.peers.rollouts [WORKERS...]

8,192 log-normal lengths of one step go into rows of 8,192, each a micro-batch. NeMo-RL sorts by
length and takes the first row that fits, or pairs classes of lengths before (MFFD); it opens
rows until all workers have as many, and deals them in turn. Megatron's RL sorts, keeps one row
open, with at most 16 sequences, and gives each worker the next rows, or deals them in turn. The
rules are those of their sources of 2026, in our words. Imbalance is the cost n + n² / 24,576 of
the fullest worker over the mean. nanochat's loader ends a row with a part of the shortest
document in sight, and drops the rest of it.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

import sweephand as sh

ROW, COUNT, COST = 8192, 8192, sh.Attention()
Sizes = Sequence[int]
Rows = list[list[int]]  # the lengths in each row


def first_fit(sizes: Sizes) -> Rows:
    """Return rows, each length in the first one with room, in the order given."""
    rows: Rows = []
    room: list[int] = []
    for size in sizes:
        row = next((row for row, left in enumerate(room) if left >= size), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(ROW)
        rows[row].append(size)
        room[row] -= size
    return rows


def largest_below(rising: list[int], room: int) -> int | None:
    """Take the largest length that fits; None if none does."""
    place = bisect_left(rising, room + 1)
    return rising.pop(place - 1) if place else None


def modified(sizes: Sizes) -> Rows:
    """Return rows by classes: above a half, a third and a sixth of a row, and others."""
    rising = sorted(sizes)
    bounds = [bisect_left(rising, ROW // part + 1) for part in (6, 3, 2)]
    tiny, small, medium, large = (
        rising[begin:end] for begin, end in zip([0, *bounds], [*bounds, None], strict=True)
    )
    rows = [[size] for size in reversed(large)]
    for row in rows:
        found = largest_below(medium, ROW - sum(row))
        row += [] if found is None else [found]
    for row in reversed(rows):
        if len(row) == 1 and len(small) > 1 and small[0] + small[1] <= ROW - row[0]:
            least = small.pop(0)
            row += [least, largest_below(small, ROW - row[0] - least) or 0]
    rest = sorted([*tiny, *small, *medium])
    for row in rows:
        while (found := largest_below(rest, ROW - sum(row))) is not None:
            row.append(found)
    return rows + first_fit(rest[::-1])


def nemo(pack: Callable[[Sizes], Rows], sizes: Sizes, workers: int) -> list[Rows]:
    """Return the rows of each worker, of which all have as many."""
    rows = pack(sorted(sizes, reverse=True))
    for giver in sorted(rows, key=len, reverse=True):
        while len(rows) % workers and len(giver) > 1:
            rows.append([giver.pop()])
    return [rows[worker::workers] for worker in range(workers)]


def megatron(in_turn: bool, sizes: Sizes, workers: int) -> list[Rows]:
    """Return the rows of each worker, filled up by empty ones."""
    rows: Rows = [[]]
    for size in sorted(sizes, reverse=True):
        if sum(rows[-1]) + size > ROW or len(rows[-1]) == 16:
            rows.append([])
        rows[-1].append(size)
    each = -(-len(rows) // workers)
    rows += [[] for _ in range(each * workers - len(rows))]
    if in_turn:
        return [rows[worker::workers] for worker in range(workers)]
    return [rows[worker * each : (worker + 1) * each] for worker in range(workers)]


def ours(sizes: np.ndarray, workers: int) -> sh.LengthsPlan:
    """Return our plan of the same rows."""
    return sh.plan_lengths(
        sizes, sh.Packed(ROW), num_data_partitions=workers, balance="attention"
    )


def report(name: str, fill: float, costs: Sequence[float], count: int, seconds: float) -> None:
    """Print a row of the table."""
    print(
        f"| {name} | {100 * fill:.2f} % | {max(costs) / np.mean(costs):.3f} | {count} |"
        f" {1e3 * seconds:.2f} ms |"
    )


def timed(plan: Callable[[], object], times: int = 5) -> tuple[object, float]:
    """Return a result, and the seconds of the fastest call."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        found = plan()
        took.append(time.perf_counter() - begin)
    return found, min(took)


def compare(workers: int) -> None:
    """Print a table for so many workers."""
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.lognormal(6.5, 1.0, COUNT), 1, ROW).astype(np.int64)
    print(f"\n{COUNT} rollouts, {sizes.mean():.0f} tokens on average, {workers} workers\n")
    print("| rule | filled | fullest worker over the mean | micro-batches | time |")
    print("|---|---|---|---|---|")
    plan, seconds = timed(lambda: ours(sizes, workers), 50)
    count = plan.num_micro_batches
    report("ours", plan.fill_ratio, plan.loads.sum(axis=1).tolist(), count, seconds)
    given = sizes.tolist()
    for name, rule in (
        ("NeMo-RL, first fit decreasing", lambda: nemo(first_fit, given, workers)),
        ("NeMo-RL, modified", lambda: nemo(modified, given, workers)),
        ("Megatron RL, next rows", lambda: megatron(False, given, workers)),
        ("Megatron RL, in turn", lambda: megatron(True, given, workers)),
    ):
        dealt, seconds = timed(rule)
        placed = sorted(size for rows in dealt for row in rows for size in row)
        assert placed == sorted(given), name
        counts = {len(rows) for rows in dealt}
        fill = sum(given) / (workers * max(counts) * ROW)
        costs = [sum(COST.cost(float(n)) for row in rows for n in row) for rows in dealt]
        report(name, fill, costs, max(counts), seconds)


def cropped(sizes: Sizes, row_length: int, in_sight: int = 1000) -> float:
    """Return the share of tokens that best-fit-crop drops of a stream of documents."""
    coming = iter(sizes)
    sight = sorted(size for size, _ in zip(coming, range(in_sight), strict=False))
    served = read = 0
    while len(sight) == in_sight:
        room = row_length
        while room and len(sight) == in_sight:
            found = largest_below(sight, room) or sight.pop(0)
            kept = min(found, room)
            served, read, room = served + kept, read + found, room - kept
            for size in coming:
                sight.insert(bisect_left(sight, size), size)
                break
    return 1 - served / read


def compare_cropping() -> None:
    """Print what rows of 2,049 cells drop of documents, and how full ours are."""
    rng = np.random.default_rng(0)
    sizes = np.maximum(rng.lognormal(np.log(700), 1.0, 100_000), 8).astype(np.int64)
    plan = sh.plan_lengths(sizes, sh.Packed(2049, split_long="split"))
    lost = cropped(sizes.tolist(), 2049)
    print(f"\n{sizes.mean():.0f} tokens on average: best-fit-crop drops {100 * lost:.1f} %,")
    print(f"ours {plan.account['dropped']}, and rows are {100 * plan.fill_ratio:.2f} % full")


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["8", "64"]:
        compare(int(argument))
    compare_cropping()
