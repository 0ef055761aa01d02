"""Packed rows of fine-tuning beside other packers: fill, balance between ranks, start, rate.

    pip install "sweephand[torch]" trl datasets grain
    OMP_NUM_THREADS=1 python benchmarks/packing.py [SEQUENCES]

Conversations of log-normal lengths go into rows of 4,096 tokens, 4 rows on each of 8 ranks. TRL
is `pack_dataset` ("bfd") and its collator without padding; Grain is `FirstFitPackIterDataset`;
the buffer is first fit by descending length over 20,000 shuffled sequences at a time, as
axolotl's multipack does. Rates are tokens as int64 with positions and labels, a second of all
threads' processors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sweephand as sh

ROW, ROWS, RANKS = 4096, 4, 8
SIZE = ROW * ROWS * RANKS
STEPS = 40  # minibatches that rates are measured over
BUFFER = 20_000  # sequences that a buffer looks over
COST = sh.Attention()
Rows = Iterator[list[NDArray[np.int64]]]  # of a global minibatch: the lengths in each row


def make_tokens(count: int) -> list[NDArray[np.int32]]:
    """Return conversations of 16 to 4,096 tokens, 300 in the middle."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(300), 0.9, count), 16, ROW).astype(int)
    return [np.arange(length, dtype=np.int32) for length in lengths]


def grouped(rows: Iterator[NDArray[np.int64]]) -> Rows:
    while len(found := list(islice(rows, ROWS * RANKS))) == ROWS * RANKS:
        yield found


def imbalance(minibatches: Rows) -> float:
    """Return the most that the fullest rank costs over the mean; rows are dealt in turn."""
    worst = 0.0
    for rows in minibatches:
        costs = [
            sum(COST.cost(row.astype(float)).sum() for row in rows[rank::RANKS])
            for rank in range(RANKS)
        ]
        worst = max(worst, max(costs) / np.mean(costs))
    return worst


def fill(rows: list[NDArray[np.int64]]) -> float:
    return float(sum(row.sum() for row in rows) / (len(rows) * ROW))


def rate(steps: Iterator[int]) -> float:
    """Return tokens a processor second."""
    next(steps)
    begin = time.process_time()
    count = sum(islice(steps, STEPS))
    return count / (time.process_time() - begin)


# -- contenders: seconds to start, fill, imbalance, tokens a second --


def ours(tokens: list[NDArray[np.int32]]) -> tuple[float, ...]:
    offsets = np.cumsum([0, *map(len, tokens)])
    flat = np.concatenate(tokens)
    streams = sh.StreamDefs(tokens=sh.StreamDef(dtype="int64"))
    begin = time.perf_counter()

    def make(**options: Any) -> sh.MinibatchSource:
        corpus = sh.ArrayDeserializer({"tokens": (flat, offsets)}, streams)
        return sh.MinibatchSource(corpus, layout=sh.Packed(ROW), balance=COST, **options)

    source = make()
    source.next_minibatch(SIZE)
    start = time.perf_counter() - begin

    def steps() -> Iterator[int]:
        for minibatch in source.minibatches(SIZE):
            data = minibatch["tokens"]
            _ = data.asarray(), data.labels(), minibatch.position_ids
            yield minibatch.num_samples

    sweep = make(max_sweeps=1)
    filled = [(one.num_samples, one.shape) for one in sweep.plan(SIZE)]
    cells = sum(rows * length for _, shape in filled if shape for rows, length in [shape])
    shares = zip(
        *(
            make(max_sweeps=1).plan(SIZE, num_data_partitions=RANKS, partition_index=rank)
            for rank in range(RANKS)
        ),
        strict=True,
    )
    worst = 0.0
    for step in list(shares)[:-1]:
        costs = [COST.cost(share.sizes.astype(float)).sum() for share in step]
        worst = max(worst, float(max(costs) / np.mean(costs)))
    return start, sum(count for count, _ in filled) / cells, worst, rate(steps())


def trl(tokens: list[NDArray[np.int32]]) -> tuple[float, ...]:
    import datasets
    from torch.utils.data import DataLoader
    from trl.data_utils import pack_dataset
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"input_ids": tokens})
    begin = time.perf_counter()
    packed = pack_dataset(whole, ROW).shuffle(seed=0)
    collator = DataCollatorForLanguageModeling(0, padding_free=True)
    loader = DataLoader(packed, ROWS * RANKS, collate_fn=collator)
    next(iter(loader))
    start = time.perf_counter() - begin

    def steps() -> Iterator[int]:
        for batch in loader:
            yield batch["input_ids"].numel()

    rows = [np.array(one) for one in packed["seq_lengths"]]
    return start, fill(rows), imbalance(grouped(iter(rows))), rate(steps())


def grain(tokens: list[NDArray[np.int32]]) -> tuple[float, ...]:
    import grain.python as grain
    from grain.experimental import FirstFitPackIterDataset

    begin = time.perf_counter()

    def packed() -> Any:
        shuffled = grain.MapDataset.source(tokens).shuffle(seed=0)
        return FirstFitPackIterDataset(
            shuffled.map(lambda one: {"tokens": one}).to_iter_dataset(),
            length_struct={"tokens": ROW},
            num_packing_bins=ROWS * RANKS,
        )

    next(iter(packed()))
    start = time.perf_counter() - begin

    def steps() -> Iterator[int]:
        rows = iter(packed())
        while found := list(islice(rows, ROWS * RANKS)):
            values = np.stack([one["tokens"] for one in found]).astype(np.int64)
            segments = np.stack([one["tokens_segment_ids"] for one in found])
            labels = np.where(segments[:, 1:] == segments[:, :-1], values[:, 1:], -100)
            assert len(labels) == len(found)
            yield int((segments > 0).sum())

    def lengths(row: Any) -> NDArray[np.int64]:
        return np.bincount(row["tokens_segment_ids"])[1:]

    rows = [lengths(row) for row in packed()]
    return start, fill(rows), imbalance(grouped(iter(rows))), rate(steps())


def buffer(tokens: list[NDArray[np.int32]]) -> tuple[float, ...]:
    lengths = np.array([len(one) for one in tokens])
    order = np.random.default_rng(0).permutation(len(tokens))

    def rows() -> Iterator[NDArray[np.int64]]:
        for at in range(0, len(order), BUFFER):
            bins: list[list[int]] = []
            room: list[int] = []
            for length in sorted(lengths[order[at : at + BUFFER]].tolist(), reverse=True):
                spare = np.array(room) >= length
                place = int(spare.argmax()) if spare.any() else len(bins)
                if place == len(bins):
                    bins.append([])
                    room.append(ROW)
                bins[place].append(length)
                room[place] -= length
            mixed = np.random.default_rng(at).permutation(len(bins))
            yield from (np.array(bins[one]) for one in mixed)

    found = list(rows())
    return np.nan, fill(found), imbalance(grouped(iter(found))), np.nan


def main(count: int = 100_000) -> None:
    """Print a row for each."""
    tokens = make_tokens(count)
    print(f"{count:,} sequences, {sum(map(len, tokens)):,} tokens")
    print("packer      start s   fill  imbalance  M tokens/s")
    for contender in (ours, trl, grain, buffer):
        try:
            start, full, worst, speed = contender(tokens)
        except ModuleNotFoundError as error:
            print(f"{contender.__name__:10} needs {error.name}")
            continue
        print(
            f"{contender.__name__:10}{start:9.2f}{full:8.4f}{worst:10.3f}{speed / 1e6:11.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
