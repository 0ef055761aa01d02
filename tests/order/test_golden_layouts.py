"""Rows and buckets that no later version may change, read from a file that no test writes."""

import json
from collections.abc import Iterable
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import pytest
from tests import model_layouts
from tests.model import ModelCorpus, ModelSettings
from tests.source.rows import source_of

import sweephand as sh

FOLDER = Path(__file__).parents[1] / "golden"
CASES = [
    case
    for name in ("layouts", "rows")
    for case in json.loads((FOLDER / f"order_1_{name}.json").read_text())
]
LAYOUTS = {
    "packed": lambda length: sh.Packed(length, "split"),
    "packed, lanes together": lambda length: sh.Packed(length, "split"),
    "bucketed": sh.Bucketed,
    "bptt": sh.TruncatedBPTT,
}


def packed(
    corpus: ModelCorpus, settings: ModelSettings, length: int, requests: list[int]
) -> list[Any]:
    sweeps = (model_layouts.packed_sweep(corpus, settings, length, 64, r) for r in count())
    rows = chain.from_iterable(sweeps)
    found = []
    for request in requests:
        taken = list(islice(rows, max(1, request // length)))
        found.append([taken[0].time, length, [pieces_of(row.pieces) for row in taken]])
    return found


def bucketed(
    corpus: ModelCorpus, settings: ModelSettings, boundaries: list[int], requests: list[int]
) -> list[Any]:
    steps = model_layouts.bucketed(corpus, settings, boundaries, iter(requests))
    return [
        [step.time, step.key, [[[entry.sequence, 0, entry.size]] for entry in step.entries]]
        for step in steps
    ]


def bptt(
    corpus: ModelCorpus, settings: ModelSettings, length: int, requests: list[int]
) -> list[Any]:
    steps = model_layouts.bptt(corpus, settings, length, iter(requests))
    return [[step.time, length, [pieces_of(row) for row in step.rows]] for step in steps]


def pieces_of(row: Iterable[model_layouts.Piece]) -> list[list[int]]:
    return [[piece.sequence, piece.first, piece.size] for piece in row]


MODELS = {
    "packed": packed,
    "packed, lanes together": packed,
    "bucketed": bucketed,
    "bptt": bptt,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rows_of_the_model_are_the_golden_ones(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    found = MODELS[case["layout"]](corpus, settings, case["parameter"], case["requests"])
    assert found == case["minibatches"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rows_of_a_source_are_the_golden_ones(case: dict[str, Any]) -> None:
    corpus, settings = ModelCorpus.of(case["chunks"]), ModelSettings(**case["settings"])
    if settings.window_chunks is None and settings.window_samples is None:
        settings = ModelSettings(**case["settings"], window_samples=2**40)  # one block
    layout = LAYOUTS[case["layout"]](case["parameter"])
    with source_of("told chunks", corpus, settings, layout=layout) as source:
        found = []
        for size in case["requests"]:
            batch = source.next_minibatch(size)._plan
            rows: list[list[list[int]]] = [[] for _ in range(batch.num_rows)]
            firsts = batch.cells().reshape(-1, 4)[:, [0, 2]].tolist()
            places = firsts or [[row, 0] for row in range(batch.num_rows)]
            pieces = zip(
                places, batch.sequences().tolist(), batch.sizes().tolist(), strict=True
            )
            for (row, first), sequence, samples in pieces:
                rows[row].append([sequence, first, samples])
            found.append([batch.nominal_time, batch.row_length, rows])
    assert found == case["minibatches"]
