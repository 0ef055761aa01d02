"""Write the golden orders from the model: `python -m tests.golden.make`, by hand and once.

A golden file is a promise, so this leaves alone what exists. A changed order is a new
`order_version` with files of its own beside the old ones. Keys and mixed words are hexadecimal.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests import model, model_layouts
from tests.model import ModelCorpus, ModelSettings
from tests.model_mixtures import ModelMixture

FOLDER = Path(__file__).parent

Case = dict[str, Any]
Chunks = list[list[int]]


def main() -> None:
    write("mixing", mixing())
    write("permutations", [permutation(size) for size in permutation_sizes()])
    write("sweeps", [sweeps(*case) for case in SWEEPS])
    write("minibatches", [minibatches(*case) for case in MINIBATCHES])
    write("layouts", [layouts(*case) for case in LAYOUTS])
    write("rows", [layouts(*case) for case in ROWS_TOGETHER])
    write("mixtures", [mixtures(*case) for case in MIXTURES])


def write(name: str, cases: list[Case]) -> None:
    """One line for each value, so that a difference can be read."""
    lines = [
        ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in case.items())
        for case in cases
    ]
    path = FOLDER / f"order_{model.ORDER_VERSION}_{name}.json"
    if path.exists():
        return
    with path.open("x") as file:
        file.write("[{\n" + "\n}, {\n".join(lines) + "\n}]\n")


def mixing() -> list[Case]:
    words = [0, 1, 2, model.G, 2**32, 2**63, model.MASK]
    keys = [[], [0], [1], [1, 0], [0, 1], [1, 7, 2, 3, 4], [1, model.MASK, 2, 2**40, 0]]
    bounds = [1, 2, 3, 1000, 2**20, 2**31 + 1]
    return [
        {"function": "mix64", "cases": [[hex(x), hex(model.mix64(x))] for x in words]},
        {
            "function": "derive_key",
            "cases": [[[hex(w) for w in ws], hex(model.derive_key(*ws))] for ws in keys],
        },
        {
            "function": "scale",
            "cases": [
                [hex(x), bound, model.scale(x, bound)]
                for x, bound in ((model.mix64(bound + 1), bound) for bound in bounds)
            ],
        },
    ]


def permutation_sizes() -> list[int]:
    edges = {2**k + d for k in (1, 2, 3, 5, 8, 10, 12, 16, 20) for d in (-1, 0, 1)}
    return sorted(edges | {2**24 + 1, 10**9, 10**12, 2**62})


def permutation(size: int) -> Case:
    """First items, last items, places of the first items, and a digest of all items or many."""
    key = model.derive_key(size)
    permutation = model.Permutation(size, key)
    digested = size if size <= 2**20 + 1 else 2**16
    return {
        "size": size,
        "key": hex(key),
        "first": permutation.take(0, min(size, 16)).tolist(),
        "last": permutation.take(max(size - 8, 0), min(size, 8)).tolist(),
        "places": [permutation.place(item) for item in range(min(size, 8))],
        "digested": digested,
        "sha256": digest(permutation.take(0, digested)),
    }


def digest(items: NDArray[np.int64]) -> str:
    """SHA-256 of the items as little-endian 64-bit integers."""
    return hashlib.sha256(items.astype("<i8").tobytes()).hexdigest()


def spread(num_chunks: int, most_sequences: int, most_samples: int) -> Chunks:
    """Chunks of uneven numbers of uneven sequences, some of them empty."""
    return [
        [(c * 31 + i * 17) % most_samples + 1 for i in range(c * 7 % (most_sequences + 1))]
        for c in range(num_chunks)
    ]


ROWS = [[1] * 4] * 6
TEN = [[7, 2, 2, 2, 2], [2, 2, 2, 2, 2]]
HOLES = [[], [3, 1, 4], [], [], [1, 5], [9, 2, 6, 5], []]
LONG = [[5, 3], [120, 4, 4], [1, 2, 3, 4, 5, 6]]
UNEVEN = spread(29, 5, 9)
EXAMPLE = [[6, 3, 5, 4, 7, 2, 1, 3, 6, 2]]

SWEEPS: list[tuple[str, Chunks, dict[str, Any], list[int]]] = [
    ("rows, the defaults", ROWS, {}, [0, 1, 2]),
    ("rows, the next seed", ROWS, {"seed": 1}, [0, 1, 2]),
    ("rows, 4 lanes", ROWS, {"num_lanes": 4}, [0, 1]),
    ("rows, windowed", ROWS, {"seed": 7, "num_lanes": 3, "window_chunks": 6}, [0, 1]),
    ("storage order", HOLES, {"seed": 3, "num_lanes": 6, "randomize": False}, [0, 1]),
    ("one lane", TEN, {"seed": 11, "num_lanes": 1}, [0, 1, 2]),
    ("two lanes", TEN, {"seed": 11, "num_lanes": 2}, [0, 1, 2]),
    ("empty chunks", HOLES, {"seed": 5, "num_lanes": 3}, [0, 1, 2]),
    ("empty blocks", HOLES, {"seed": 5, "num_lanes": 2, "window_chunks": 1}, [0, 1, 2]),
    ("one long sequence", LONG, {"seed": 2, "num_lanes": 6}, [0, 1]),
    ("a window in samples", LONG, {"seed": 2, "num_lanes": 2, "window_samples": 210}, [0, 1]),
    ("one sequence", [[3]], {"seed": model.MASK}, [0, 2**40]),
    ("one row among empty chunks", [[], [1], []], {"num_lanes": 4, "window_chunks": 3}, [0]),
    ("uneven", UNEVEN, {"seed": 42, "num_lanes": 6}, [0, 1]),
    ("uneven, in chunks", UNEVEN, {"seed": 42, "num_lanes": 6, "window_chunks": 20}, [0, 1]),
    ("uneven, in samples", UNEVEN, {"seed": 42, "num_lanes": 6, "window_samples": 99}, [0, 1]),
    ("a far sweep", UNEVEN, {"seed": 2**63 + 1, "num_lanes": 12}, [10**12]),
    ("many chunks, the window of 128", spread(200, 3, 40), {"window_chunks": 128}, [0, 1]),
]


def sweeps(name: str, chunks: Chunks, settings: dict[str, Any], numbers: list[int]) -> Case:
    """The sequence numbers of some sweeps in order, and the lane of each."""
    corpus, chosen = ModelCorpus.of(chunks), ModelSettings(**settings)
    entries = {r: model.sweep_entries(corpus, chosen, r) for r in numbers}
    return {
        "name": name,
        "chunks": chunks,
        "settings": settings,
        "orders": {r: [entry.sequence for entry in entries[r]] for r in numbers},
        "lanes": {r: [entry.lane for entry in entries[r]] for r in numbers},
    }


MINIBATCHES: list[tuple[str, Chunks, dict[str, Any], int, int | None, list[int], list[int]]] = [
    # name, chunks, settings, first nominal time, limit, requests, numbers of workers
    ("CNTK's ten sequences", TEN, {"randomize": False}, 0, 51, [4] * 16, [1, 2, 3]),
    ("rows", ROWS, {"num_lanes": 4}, 0, None, [3, 4, 5, 6, 7, 8, 60], [1, 2, 3, 4]),
    ("rows, K divides P", ROWS, {"num_lanes": 6}, 20, 90, [6] * 13, [1, 2, 3, 6]),
    ("uneven", UNEVEN, {"seed": 42, "num_lanes": 6}, 0, None, [64, 1, 9, 500, -1, -1], [2, 4]),
    ("one long sequence", LONG, {"num_lanes": 2}, 0, 400, [16] * 6 + [200, -1, 1], [1, 2]),
]


def minibatches(
    name: str,
    chunks: Chunks,
    settings: dict[str, Any],
    time: int,
    limit: int | None,
    requests: list[int],
    workers: list[int],
) -> Case:
    """Consecutive minibatches; a share is the nominal times of its sequences."""
    corpus, chosen = ModelCorpus.of(chunks), ModelSettings(**settings)
    steps = list(model.minibatches(corpus, chosen, requests, time, limit))
    return {
        "name": name,
        "chunks": chunks,
        "settings": settings,
        "time": time,
        "limit": limit,
        "requests": requests,
        "sequences": [[entry.sequence for entry in taken] for taken in steps],
        "times": [[entry.time for entry in taken] for taken in steps],
        "sweeps_ended": [model.sweeps_ended(corpus, taken) for taken in steps],
        "shares": {
            k: [times_of_shares(corpus, chosen, taken, k) for taken in steps] for k in workers
        },
        "shares balanced by samples": {
            k: [times_of_shares(corpus, chosen, taken, k, "samples") for taken in steps]
            for k in workers
            if chosen.randomize
        },
    }


LAYOUTS: list[tuple[str, str, int | list[int], Chunks, dict[str, Any], list[int]]] = [
    # name, layout, its parameter, chunks, settings, requests
    (
        "the worked example of rows",
        "packed",
        10,
        EXAMPLE,
        {"randomize": False},
        [10, 25, 9, 40],
    ),
    ("rows of one lane", "packed", 12, UNEVEN, {"seed": 42, "num_lanes": 1}, [36] * 18),
    ("rows", "packed", 12, UNEVEN, {"seed": 42, "num_lanes": 6}, [60, 1, 24, 500, 36]),
    ("rows, windowed", "packed", 9, UNEVEN, {"num_lanes": 3, "window_chunks": 6}, [90] * 9),
    ("split sequences", "packed", 16, LONG, {"seed": 2, "num_lanes": 2}, [32] * 8),
    ("buckets", "bucketed", [2, 5, 9], UNEVEN, {"seed": 42, "num_lanes": 6}, [20] * 30),
    ("buckets, any size", "bucketed", [4, 9], UNEVEN, {"num_lanes": 4}, [9, 40, 1, 30] * 6),
    ("buckets in order", "bucketed", [3, 9], HOLES, {"randomize": False}, [9] * 8),
    ("CNTK's rows", "bptt", 3, [[5, 2, 4]], {"randomize": False}, [6] * 3),
    ("continued rows", "bptt", 4, UNEVEN, {"seed": 42, "num_lanes": 6}, [20] * 24),
    ("continued rows of a long sequence", "bptt", 8, LONG, {"num_lanes": 2}, [24] * 17),
]


# Rows of one cell make packs of 512 and of 2,048 rows small enough to be written down.
TOGETHER = "packed, lanes together"
ROWS_TOGETHER: list[tuple[str, str, int | list[int], Chunks, dict[str, Any], list[int]]] = [
    ("one lane", TOGETHER, 12, UNEVEN, {"seed": 42, "num_lanes": 1}, [36] * 18),
    ("six lanes", TOGETHER, 12, UNEVEN, {"seed": 42, "num_lanes": 6}, [60, 1, 24, 500, 36]),
    ("the default lanes", TOGETHER, 12, UNEVEN, {"seed": 7}, [120] * 6),
    ("windowed", TOGETHER, 9, UNEVEN, {"num_lanes": 3, "window_chunks": 6}, [90] * 9),
    ("split sequences", TOGETHER, 16, LONG, {"seed": 2, "num_lanes": 2}, [32] * 8),
    (
        "windows of several packs",
        TOGETHER,
        1,
        [[3, 4, 5] for _ in range(200)],
        {"num_lanes": 2, "window_chunks": 40},
        [60] * 12,
    ),
    ("a long sweep", TOGETHER, 1, [[5, 9, 2, 4] * 50] * 5, {"num_lanes": 4}, [250] * 11),
]


MIXTURES: list[tuple[str, dict[str, Chunks], list[Any], str, dict[str, Any], int]] = [
    ("three, even", {"a": UNEVEN, "b": LONG, "c": [[1] * 7]}, [(0, [3, 2, 1])], "repeat",
     {"seed": 5, "num_lanes": 3}, 60),
    ("annealed", {"web": UNEVEN, "code": [[2, 9], [4]]}, [(40, [9, 1]), (200, [1, 4])],
     "repeat", {"seed": 7, "num_lanes": 2, "window_chunks": 2}, 60),
    ("one comes late", {"web": UNEVEN, "code": [[2, 9], [4]]}, [(30, [1, 0]), (31, [1, 1])],
     "repeat", {"num_lanes": 4}, 40),
    ("until one ends", {"web": UNEVEN, "code": [[2, 9], [4]]}, [(0, [1, 2])], "stop",
     {"seed": 1, "num_lanes": 2}, 200),
    ("those that end drop out", {"a": UNEVEN, "b": LONG, "c": [[1] * 7]},
     [(0, [1, 5, 1]), (500, [4, 1, 9])], "drop", {"seed": 2, "num_lanes": 2}, 400),
    ("unshuffled", {"a": UNEVEN, "b": LONG}, [(0, [1, 2])], "repeat", {"randomize": False}, 30),
]  # fmt: skip


def mixtures(
    name: str,
    corpora: dict[str, Chunks],
    knots: list[Any],
    at_end: str,
    settings: dict[str, Any],
    count: int,
) -> Case:
    """What comes first as (time, corpus, sequence, sweep, lane)."""
    mixture = ModelMixture(
        {key: ModelCorpus.of(chunks) for key, chunks in corpora.items()},
        knots,
        ModelSettings(**settings),
        at_end,
    )
    order = itertools.islice(mixture.order(), count)
    return {
        "name": name,
        "corpora": corpora,
        "weights": knots,
        "at_end": at_end,
        "settings": settings,
        "order": [[one.time, one.corpus, one.sequence, one.sweep, one.lane] for one in order],
    }


def layouts(
    name: str,
    layout: str,
    parameter: Any,
    chunks: Chunks,
    settings: dict[str, Any],
    requests: list[int],
) -> Case:
    """Consecutive minibatches as (time, columns, rows of (sequence, first sample, samples))."""
    corpus, chosen = ModelCorpus.of(chunks), ModelSettings(**settings)
    plans = {
        "packed": _packed,
        "packed, lanes together": _packed,
        "bucketed": _bucketed,
        "bptt": _bptt,
    }[layout]
    return {
        "name": name,
        "layout": layout,
        "parameter": parameter,
        "chunks": chunks,
        "settings": settings,
        "requests": requests,
        "minibatches": plans(corpus, chosen, parameter, requests),
    }


def _packed(
    corpus: ModelCorpus,
    settings: ModelSettings,
    length: int,
    requests: list[int],
) -> list[Any]:
    sweeps = (model_layouts.packed_sweep(corpus, settings, length, 64, r) for r in count())
    rows = itertools.chain.from_iterable(sweeps)
    found = []
    for request in requests:
        taken = list(itertools.islice(rows, max(1, request // length)))
        found.append([taken[0].time, length, [_pieces(row.pieces) for row in taken]])
    return found


def _bucketed(
    corpus: ModelCorpus, settings: ModelSettings, boundaries: list[int], requests: list[int]
) -> list[Any]:
    steps = model_layouts.bucketed(corpus, settings, boundaries, iter(requests))
    return [
        [step.time, step.key, [[[entry.sequence, 0, entry.size]] for entry in step.entries]]
        for step in steps
    ]


def _bptt(
    corpus: ModelCorpus, settings: ModelSettings, length: int, requests: list[int]
) -> list[Any]:
    steps = model_layouts.bptt(corpus, settings, length, iter(requests))
    return [[step.time, length, [_pieces(row) for row in step.rows]] for step in steps]


def _pieces(row: Iterable[model_layouts.Piece]) -> list[list[int]]:
    return [[piece.sequence, piece.first, piece.size] for piece in row]


def times_of_shares(*arguments: Any) -> list[list[int]]:
    return [[entry.time for entry in share] for share in model.shares(*arguments)]


if __name__ == "__main__":
    main()
