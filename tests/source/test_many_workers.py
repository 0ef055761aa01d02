"""The shares of any number of workers unite to the minibatch, which does not depend on it.

In every run for some random cases; SWEEPHAND_CASES=10000 tries as many.
"""

import os
import random

import numpy as np

import sweephand as sh

CASES = int(os.environ.get("SWEEPHAND_CASES", "50"))
MOST_LANES = 4096
LAYOUTS = [sh.Ragged(), sh.Ragged(), sh.Frames(), sh.Packed(24), sh.Bucketed([4, 20])]


def make_source(draw: random.Random) -> sh.MinibatchSource:
    """Return a random source; many of its lanes may be empty."""
    lengths = [draw.choice((1, draw.randint(1, 20))) for _ in range(draw.randint(1, 120))]
    offsets = np.cumsum([0, *lengths])
    corpus = sh.ArrayDeserializer(
        {"x": (np.zeros(int(offsets[-1]), np.uint8), offsets)}, chunk_size=draw.randint(1, 9)
    )
    window = draw.choice((None, draw.randint(1, 12)))
    given = {} if window is None else {"randomization_window_in_chunks": window}
    layout = draw.choice(LAYOUTS)
    return sh.MinibatchSource(
        corpus,
        layout=layout,
        num_lanes=draw.choice((draw.randint(1, 64), draw.randint(1, MOST_LANES))),
        randomization_seed=draw.randint(0, 2**64 - 1),
        balance=draw.choice((None, "samples")) if layout.shares_by_lanes else None,
        num_threads=0,
        **given,
    )


def test_shares_of_any_number_of_workers_unite_to_the_minibatch() -> None:
    draw = random.Random(CASES)
    for case in range(CASES):
        source = make_source(draw)
        workers = draw.randint(1, min(64, source.num_lanes))
        if case % 50 == 0:
            workers = draw.randint(1, source.num_lanes)
        size, start = draw.randint(1, 200), draw.randint(0, 3 * source.num_samples_per_sweep)
        whole = next(source.plan(size, start=start))
        shares = [
            next(
                source.plan(
                    size, start=start, num_data_partitions=workers, partition_index=index
                )
            )
            for index in range(workers)
        ]
        found = np.concatenate([share.sequences for share in shares])
        assert sorted(found) == sorted(whole.sequences), case
        places = {(share.nominal_time, share.next_position.time) for share in shares}
        assert places == {(whole.nominal_time, whole.next_position.time)}, case
