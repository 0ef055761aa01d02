"""Run dry: the steps of training, from the index alone; no payload is read.

for example:
  sweephand plan tokens.npz --size 16384 --window-chunks 96
  sweephand plan tokens.npz --size 16384 --workers 8 --balance samples
  sweephand plan tokens.npz --size 16384 --row-length 4096
"""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.options import (
    add_corpus,
    add_order,
    add_size,
    count,
    make_source,
    minibatch_size,
    open_corpus,
    option,
)
from sweephand.cli.screen import Screen, in_bytes, in_count, in_percent
from sweephand.deserializers.deserializer import Deserializer
from sweephand.layouts import Bucketed, Packed
from sweephand.layouts.attention import Attention
from sweephand.source.open_corpus import flat_parts
from sweephand.source.source import MinibatchSource

_BUCKETS = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    add_size(parser)
    add_order(parser)
    option(parser, "--workers K", count, "who share every minibatch", 1)
    parser.add_argument(
        "--balance",
        choices=["samples", "attention"],
        help="even the shares by moving few sequences: by samples, or by what attention costs",
    )
    option(
        parser,
        "--row-length L",
        count,
        "of packed rows; by default a power of two, for the longest sequence or, if that is "
        "less, so that a worker gets a row",
    )
    option(parser, "--steps N", count, "plan only the first steps of the sweep")


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = open_corpus(arguments)
    with make_source(corpus, arguments, balance=arguments.balance) as source:
        size = minibatch_size(arguments, source.timeline)
        steps = _plan_sweep(source, size, arguments, screen)
        facts: dict[str, Any] = {
            "size": size,
            "workers": arguments.workers,
            "balance": arguments.balance,
            "num_samples": source.num_samples_per_sweep,
            "dropped_samples": int(source.stats()["dropped_samples"]),
            "num_sequences": source.num_sequences_per_sweep,
            "whole_sweep": bool(steps.samples.sum() == source.num_samples_per_sweep),
            "steps": len(steps.samples),
            "samples_per_step": _spread(steps.samples),
            "sequences_per_step": _spread(steps.sequences),
            "fill": float(steps.samples.mean() / size),
            **_window_facts(source, size),
        }
    if arguments.workers > 1:
        facts["share_samples"] = _spread(steps.shares)
        facts["share_imbalance"] = _spread(_over_mean(steps.shares))
        facts["share_cost_imbalance"] = _spread(_over_mean(steps.costs))
    facts |= _layout_facts(corpus, steps, size, arguments, screen)
    _show(facts, screen)
    return facts


def _window_facts(source: MinibatchSource, size: int) -> dict[str, object]:
    """Return the window and its cost."""
    plan = source.timeline
    chunks, block, lanes = len(plan.corpus.chunk_starts), plan.block_chunks, plan.num_lanes
    return {
        "shuffled": plan.options.randomize,
        "uniform": plan.options.randomize and block >= chunks,
        "num_chunks": chunks,
        "num_lanes": lanes,
        "block_chunks": min(block, chunks),
        "open_chunks": min(chunks, block * lanes),
        "memory_bound_bytes": source.memory_bound(size),
    }


def _show(facts: dict[str, Any], screen: Screen) -> None:
    counts = {name: in_count(one) for name, one in facts.items() if isinstance(one, int)}
    whole = "in a sweep" if facts["whole_sweep"] else "(not a whole sweep)"
    laid = in_count(facts["num_samples"] + facts["dropped_samples"])
    screen.facts(
        {
            "minibatch": f"{counts['size']} samples",
            "steps": f"{counts['steps']} {whole}",
            "fill": f"{in_percent(facts['fill'])} of the size that was asked for",
            "samples": f"{laid} in = {counts['num_samples']} served + "
            f"{counts['dropped_samples']} dropped, in a sweep",
            "order": _order_in_words(facts),
            "chunks open": f"{counts['open_chunks']} of {counts['num_chunks']}",
            "memory": f"at most about {in_bytes(facts['memory_bound_bytes'])} beside resident "
            "data",
        }
    )
    screen.heading("Steps")
    spreads = {
        "samples in a step": "samples_per_step",
        "sequences in a step": "sequences_per_step",
    }
    if facts["workers"] > 1:
        spreads[f"samples of each of {facts['workers']} workers"] = "share_samples"
        spreads["fullest worker over the mean"] = "share_imbalance"
        spreads["fullest worker by attention"] = "share_cost_imbalance"
    rows = [
        (words, *map(in_percent if "imbalance" in name else in_count, facts[name].values()))
        for words, name in spreads.items()
    ]
    screen.table(["", "min", "mean", "max"], rows)
    screen.heading("Layouts, in a step")
    rows = [
        (
            found["layout"],
            in_percent(found["waste"]),
            in_count(round(found["cells_per_step"])),
            in_count(found["shapes"]),
            in_percent(found["imbalance"]),
        )
        for found in facts["layouts"].values()
    ]
    screen.table(["", "padding", "cells", "shapes", "fullest worker"], rows)
    recommended = facts["recommended"]
    screen.text(f"\n{recommended['layout']} is recommended: {recommended['reason']}.")


def _order_in_words(facts: dict[str, Any]) -> str:
    if not facts["shuffled"]:
        return "that of the corpus"
    if facts["uniform"]:
        return "uniform: the whole corpus is shuffled as one"
    block, lanes = facts["block_chunks"], in_count(facts["num_lanes"])
    what = "chunk" if block == 1 else f"block of {in_count(block)} chunks"
    return f"shuffled within a window: one {what} open in each of {lanes} lanes"


def _layout_facts(
    corpus: Deserializer,
    steps: _DryRun,
    size: int,
    arguments: argparse.Namespace,
    screen: Screen,
) -> dict[str, object]:
    """Return the figures of each layout on the corpus, and the recommended layout."""
    flat = np.stack([np.ones_like(steps.shares), steps.shares], axis=2)
    found = {
        "ragged": _figures("Ragged()", steps.samples, flat),
        "padded": _figures("Padded()", steps.samples, steps.grids),
    }

    def add(name: str, text: str, source: MinibatchSource) -> None:
        planned = _plan_sweep(source, size, arguments, screen)
        found[name] = _figures(text, planned.samples, planned.grids)

    with make_source(corpus, arguments, layout=Bucketed("auto", _BUCKETS)) as source:
        add("bucketed", f'Bucketed("auto", {_BUCKETS})', source)
        assert isinstance(source.layout, Bucketed)
        longest = source.layout.default_bucket_key
        are_flat = bool(flat_parts(source.timeline.corpus))
    if not are_flat or arguments.row_length:  # packed rows refuse sequences of one sample each
        room = max(1, size // arguments.workers).bit_length() - 1
        row_length = arguments.row_length or 1 << min((longest - 1).bit_length(), room)
        splits = row_length < longest
        rows = Packed(row_length, "split" if splits else "error")
        text = f'Packed({row_length}, "split")' if splits else f"Packed({row_length})"
        with make_source(corpus, arguments, layout=rows) as source:
            add("packed", text, source)
    return {"layouts": found, "recommended": _recommended(found)}


def _figures(
    layout: str, samples: NDArray[np.int64], grids: NDArray[np.int64]
) -> dict[str, Any]:
    """Return the figures of a layout over the planned steps, from its dense arrays."""
    cells = grids.prod(axis=2)
    return {
        "layout": layout,
        "steps": len(samples),
        "waste": float(1 - samples.sum() / cells.sum()),  # padding, of all cells
        # over all workers, on average
        "cells_per_step": float(cells.sum(axis=1).mean()),
        "shapes": len(np.unique(grids.reshape(-1, 2), axis=0)),
        "imbalance": float(_over_mean(cells).mean()),
    }


def _recommended(layouts: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the layout that pads least, and why it is taken."""
    if not layouts["padded"]["waste"]:
        return {
            "layout": "Ragged()",
            "reason": "all sequences of a step have one length: there is nothing to pad",
        }
    dense = [one for name, one in layouts.items() if name != "ragged"]
    best, *others = sorted(dense, key=lambda one: float(one["waste"]))
    waste = ", ".join(f"{one['layout']} {in_percent(one['waste'])}" for one in others)
    reason = f"it pads {in_percent(best['waste'])}, {waste}"
    if "packed" in layouts and best is layouts["packed"]:
        reason += "; for a model that cannot keep segments apart take the next"
    return {"layout": best["layout"], "reason": reason}


class _DryRun(NamedTuple):
    """Contents of every planned step, one entry each."""

    # over all workers
    samples: NDArray[np.int64]
    sequences: NDArray[np.int64]
    # rows and columns of each worker's dense array; in layouts of whole sequences a row per
    # sequence, as wide as the worker's longest one
    grids: NDArray[np.int64]
    shares: NDArray[np.int64]  # samples that each worker gets
    # what the sequences of each cost by attention, in samples of short ones
    costs: NDArray[np.float64]


def _plan_sweep(
    source: MinibatchSource, size: int, arguments: argparse.Namespace, screen: Screen
) -> _DryRun:
    """Plan a sweep, or its first ``--steps``, while a progress bar is shown."""
    total, workers = source.num_samples_per_sweep, arguments.workers
    if arguments.steps:
        total = min(total, size * arguments.steps)
    plans = [
        source.plan(size, num_data_partitions=workers, partition_index=rank)
        for rank in range(workers)
    ]
    rows = []
    cost = Attention().cost
    with screen.progress("plan", total) as advance:
        for step in islice(zip(*plans, strict=True), arguments.steps):
            grids = [
                share.shape or (share.num_sequences, int(share.sizes.max(initial=0)))
                for share in step
            ]
            rows.append(
                (
                    step[0].global_num_samples,
                    sum(share.num_sequences for share in step),
                    grids,
                    [share.num_samples for share in step],
                    [cost(share.sizes.astype(np.float64)).sum() for share in step],
                )
            )
            advance(step[0].global_num_samples)
    return _DryRun(*map(np.array, zip(*rows, strict=True)))


def _over_mean(of_workers: NDArray[Any]) -> NDArray[np.float64]:
    """Return of every step by how much the largest number of a worker exceeds the mean."""
    over: NDArray[np.float64] = of_workers.max(axis=1) / of_workers.mean(axis=1) - 1
    return over


def _spread(numbers: NDArray[Any]) -> dict[str, float]:
    return {
        "min": numbers.min().item(),
        "mean": float(numbers.mean()),
        "max": numbers.max().item(),
    }
