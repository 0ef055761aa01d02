"""Run dry: the steps of training, from the index alone; no payload is read.

for example:
  sweephand plan tokens.npz --size 16384 --workers 8
  sweephand plan tokens.npz --size 16384 --chunk-size 256 --window-chunks 96
  sweephand plan tokens.npz --size 16384 --workers 8 --balance samples
  sweephand plan tokens.npz --size 16384 --row-length 4096 --buckets 8
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Self

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
from sweephand.deserializers.deserializer import Deserializer
from sweephand.layouts import Bucketed, Packed
from sweephand.layouts.attention import Attention
from sweephand.source.open_corpus import flat_parts
from sweephand.source.source import MinibatchSource
from sweephand.terminal.numbers import in_bytes, in_count, in_percent
from sweephand.terminal.screen import Screen


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
    widths = "what padded widths are rounded up to a multiple of"
    option(parser, "--multiple-of N", count, widths, 1)
    option(
        parser,
        "--row-length L",
        count,
        "of packed rows; by default a power of two, for the longest sequence or, if that is "
        "less, so that a worker gets a row",
    )
    option(parser, "--buckets N", count, "how many, 16 by default", 16)
    option(parser, "--steps N", count, "plan only the first steps of the sweep")


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = open_corpus(arguments)
    with make_source(corpus, arguments, balance=arguments.balance) as source:
        size = minibatch_size(arguments, source.timeline)
        steps = plan_sweep(source, size, arguments, screen)
        facts: dict[str, Any] = {
            "size": size,
            "workers": arguments.workers,
            "balance": arguments.balance,
            "num_samples": source.num_samples_per_sweep,
            "dropped_samples": int(source.stats()["dropped_samples"]),
            "num_sequences": source.num_sequences_per_sweep,
            "whole_sweep": bool(steps.samples.sum() == source.num_samples_per_sweep),
            **steps.facts(size),
            **_window_facts(source, size, steps),
            **layout_facts(corpus, steps, size, arguments, screen),
        }
    _show(facts, screen)
    return facts


def _window_facts(source: MinibatchSource, size: int, steps: DryRun) -> dict[str, object]:
    """Return the cost of the window, and its expected quality of shuffling."""
    plan = source.timeline
    chunks, block, lanes = len(plan.corpus.chunk_starts), plan.block_chunks, plan.num_lanes
    is_uniform = block >= chunks
    window = min(chunks, block * lanes)
    predicted = 1.0
    if not is_uniform:
        minibatch = float(steps.sequences.mean())
        predicted = predicted_variance_ratio(
            minibatch, window, chunks, num_lanes=_lanes_in_turn(source, steps)
        )
    return {
        "shuffled": plan.options.randomize,
        "uniform": plan.options.randomize and is_uniform,
        "num_chunks": chunks,
        "num_lanes": lanes,
        "block_chunks": min(block, chunks),
        "open_chunks": window,
        "memory_bound_bytes": source.memory_bound(size),
        "predicted_variance_ratio": predicted if plan.options.randomize else None,
    }


def _lanes_in_turn(source: MinibatchSource, steps: DryRun) -> int:
    """Return how many lanes a prediction may count on.

    Lanes are read at one rate in samples: only where sequences are equal do minibatches draw
    evenly from them.
    """
    return source.num_lanes if steps.has_equal_sequences else 1


def predicted_variance_ratio(
    minibatch: float, window_chunks: float, num_chunks: float, *, num_lanes: int = 1
) -> float:
    """Return the variance of minibatch means over that of a uniform order, of a sorted corpus.

    With one lane this is ``1 + minibatch / window_chunks * (1 - window_chunks / num_chunks)``,
    less a term of order ``1 / window_chunks``. Lanes are read in turn, so every minibatch draws
    evenly from them, and that takes the spread between lanes off. It is the mean over seeds: a
    single sweep scatters around it by a third, less if it holds many windows.
    """

    def variance_of_mean(window: float) -> float:  # over that of one sequence
        if window >= num_chunks:
            return 0.0
        return (num_chunks - window) / (window * (num_chunks - 1))

    block = min(num_chunks, max(1.0, window_chunks / num_lanes))
    num_blocks = min(minibatch, num_lanes, num_chunks / block)
    return 1 + minibatch * variance_of_mean(block * num_blocks) - variance_of_mean(block)


def _show(facts: dict[str, Any], screen: Screen) -> None:
    steps = in_count(facts["steps"])
    shown = {
        "minibatch": f"{in_count(facts['size'])} samples",
        "steps": f"{steps} {'in a sweep' if facts['whole_sweep'] else '(not a whole sweep)'}",
        "fill": f"{in_percent(facts['fill'])} of the size that was asked for",
        "samples": (
            f"{in_count(facts['num_samples'] + facts['dropped_samples'])} in = "
            f"{in_count(facts['num_samples'])} served + "
            f"{in_count(facts['dropped_samples'])} dropped, in a sweep"
        ),
        "order": _order_in_words(facts),
        "chunks open": f"{in_count(facts['open_chunks'])} of {in_count(facts['num_chunks'])}",
        "memory": f"at most about {in_bytes(facts['memory_bound_bytes'])} beside resident data",
    }
    if facts["predicted_variance_ratio"] is not None:
        shown["noise"] = (
            f"about {facts['predicted_variance_ratio']:.2f} times the variance of uniformly "
            "drawn minibatches, were the corpus sorted"
        )
    screen.facts(shown)
    screen.heading("Steps")
    rows = [
        _row("samples in a step", facts["samples_per_step"]),
        _row("sequences in a step", facts["sequences_per_step"]),
    ]
    if "share_samples" in facts:
        rows.append(
            _row(f"samples of each of {facts['workers']} workers", facts["share_samples"])
        )
        imbalance = map(in_percent, facts["share_imbalance"].values())
        rows.append(("fullest worker over the mean", *imbalance))
        by_cost = map(in_percent, facts["share_cost_imbalance"].values())
        rows.append(("fullest worker by attention", *by_cost))
    screen.table(["", "min", "mean", "max"], rows)
    screen.heading("Layouts, in a step")
    header = ["", "padding", "cells", "rows", "shapes", "fullest worker"]
    screen.table(header, [_layout_row(found) for found in facts["layouts"].values()])
    recommended = facts["recommended"]
    screen.text(f"\n{recommended['layout']} is recommended: {recommended['reason']}.")


def _layout_row(found: dict[str, Any]) -> tuple[str, ...]:
    return (
        found["layout"],
        in_percent(found["waste"]),
        in_count(round(found["cells_per_step"])),
        in_count(found["rows_per_step"]),
        in_count(found["shapes"]),
        in_percent(found["imbalance"]),
    )


def _row(name: str, spread: dict[str, float]) -> tuple[str, ...]:
    return (name, *(in_count(spread[which]) for which in ("min", "mean", "max")))


def _order_in_words(facts: dict[str, Any]) -> str:
    if not facts["shuffled"]:
        return "that of the corpus"
    if facts["uniform"]:
        return "uniform: the whole corpus is shuffled as one"
    block, lanes = facts["block_chunks"], in_count(facts["num_lanes"])
    what = "chunk" if block == 1 else f"block of {in_count(block)} chunks"
    return f"shuffled within a window: one {what} open in each of {lanes} lanes"


_LITTLE_PADDING = 0.05
_SPLIT = ', "split"'


@dataclass(frozen=True)
class LayoutFigures:
    """Figures of a layout over the planned steps."""

    layout: str  # as Python spells it
    steps: int  # minibatches
    waste: float  # padding, of all cells
    # over all workers, on average
    cells_per_step: float
    rows_per_step: float
    shapes: int  # different shapes of a worker's dense array
    # by how much the worker with most cells exceeds the mean, on average over steps
    imbalance: float
    split_sequences: int = 0  # those that are longer than a row and cut, in a sweep

    @classmethod
    def of(
        cls,
        layout: str,
        samples: NDArray[np.int64],
        grids: NDArray[np.int64],
        split_sequences: int = 0,
    ) -> Self:
        """Return the figures of dense arrays."""
        cells = grids.prod(axis=2)
        return cls(
            layout=layout,
            steps=len(samples),
            waste=float(1 - samples.sum() / cells.sum()),
            cells_per_step=float(cells.sum(axis=1).mean()),
            rows_per_step=float(grids[:, :, 0].sum(axis=1).mean()),
            shapes=len(np.unique(grids.reshape(-1, 2), axis=0)),
            imbalance=float(over_mean(cells).mean()),
            split_sequences=split_sequences,
        )

    @property
    def percent(self) -> str:
        """The waste, for people."""
        return in_percent(self.waste)


def layout_facts(
    corpus: Deserializer,
    steps: DryRun,
    size: int,
    arguments: argparse.Namespace,
    screen: Screen,
) -> dict[str, object]:
    """Return the figures of each layout on the corpus, and the recommended layout."""
    found = _whole_sequences(steps, arguments.multiple_of)

    def add(name: str, text: str, source: MinibatchSource) -> None:
        planned = plan_sweep(source, size, arguments, screen)
        split = int(source.stats()["split_sequences"])
        found[name] = LayoutFigures.of(text, planned.samples, planned.grids, split)

    buckets = Bucketed("auto", arguments.buckets)
    with make_source(corpus, arguments, layout=buckets) as source:
        add("bucketed", f'Bucketed("auto", {arguments.buckets})', source)
        assert isinstance(source.layout, Bucketed)
        longest = source.layout.default_bucket_key
        are_flat = bool(flat_parts(source.timeline.corpus))
    if not are_flat or arguments.row_length:  # packed rows refuse sequences of one sample each
        row_length = arguments.row_length or _row_length(longest, size // arguments.workers)
        splits = row_length < longest
        rows = Packed(row_length, "split" if splits else "error")
        with make_source(corpus, arguments, layout=rows) as source:
            add("packed", f"Packed({row_length}{_SPLIT if splits else ''})", source)
    name, reason = recommend(found, steps.has_equal_sequences)
    return {
        "layouts": {name: asdict(figures) for name, figures in found.items()},
        "recommended": {"layout": found[name].layout, "reason": reason},
    }


def _row_length(longest: int, samples_per_worker: int) -> int:
    """Return the power of two for the longest sequence, or that a worker has room for."""
    room = max(1, samples_per_worker).bit_length() - 1
    return 1 << min((longest - 1).bit_length(), room)


def _whole_sequences(steps: DryRun, multiple_of: int) -> dict[str, LayoutFigures]:
    flat = np.stack([np.ones_like(steps.shares), steps.shares], axis=2)
    padded = "Padded()" if multiple_of == 1 else f"Padded(multiple_of={multiple_of})"
    return {
        "ragged": LayoutFigures.of("Ragged()", steps.samples, flat),
        "padded": LayoutFigures.of(padded, steps.samples, steps.grids),
    }


def recommend(figures: dict[str, LayoutFigures], equal_sequences: bool) -> tuple[str, str]:
    """Return the name of the layout to take, and why."""
    if equal_sequences:
        return "ragged", "all sequences have one length: there is nothing to pad"
    padded, bucketed, packed = (figures.get(name) for name in ("padded", "bucketed", "packed"))
    assert padded is not None
    assert bucketed is not None
    if padded.waste <= _LITTLE_PADDING and padded.shapes <= bucketed.shapes:
        return "padded", f"it pads only {padded.percent} in {padded.shapes} shapes"
    if packed is None:
        return (
            "bucketed",
            f"it pads {bucketed.percent}; there are no packed rows of a corpus whose sequences "
            "have one sample each",
        )
    if bucketed.waste <= packed.waste:
        return (
            "bucketed",
            f"it pads {bucketed.percent}, rows of packed sequences {packed.percent}: the "
            "corpus is small, or the rows are short for its sequences",
        )
    count = packed.split_sequences
    cut = f" and cuts {count} sequence{'s' * (count != 1)}" if count else ""
    return (
        "packed",
        f"it pads {packed.percent}{cut} where padded rows have {padded.percent}; for a model "
        f"that cannot keep segments apart take {bucketed.layout}, {bucketed.percent}",
    )


@dataclass(frozen=True)
class DryRun:
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
    has_equal_sequences: bool  # all sequences have the same size
    longest: int  # samples of the longest sequence

    @property
    def num_steps(self) -> int:
        """Steps that were planned."""
        return len(self.samples)

    @property
    def cells(self) -> NDArray[np.int64]:
        """Cells of each worker's dense array: int64, shape (steps, workers)."""
        cells: NDArray[np.int64] = self.grids.prod(axis=2)
        return cells

    @property
    def imbalance(self) -> NDArray[np.float64]:
        """The excess of the fullest share over the mean share, for every step."""
        return over_mean(self.shares)

    def facts(self, size: int) -> dict[str, object]:
        """Return the figures as JSON types; `size` is the minibatch size that was asked for."""
        facts: dict[str, object] = {
            "steps": self.num_steps,
            "samples_per_step": _spread(self.samples),
            "sequences_per_step": _spread(self.sequences),
            "fill": float(self.samples.mean() / size),
        }
        if self.shares.shape[1] > 1:
            facts["share_samples"] = _spread(self.shares)
            facts["share_imbalance"] = _spread(self.imbalance)
            facts["share_cost_imbalance"] = _spread(over_mean(self.costs))
            longest = Attention().cost(float(self.longest))
            facts["longest_cost_of_share"] = longest / float(self.costs.mean())
            facts["empty_shares"] = int((self.shares == 0).sum())
        return facts


def plan_sweep(
    source: MinibatchSource, size: int, arguments: argparse.Namespace, screen: Screen
) -> DryRun:
    """Plan a sweep, or its first ``--steps``, while a progress bar is shown."""
    total, workers = source.num_samples_per_sweep, arguments.workers
    if arguments.steps:
        total = min(total, size * arguments.steps)
    plans = [
        source.plan(size, num_data_partitions=workers, partition_index=rank)
        for rank in range(workers)
    ]
    samples, sequences, grids, shares, costs = [], [], [], [], []
    cost = Attention().cost
    extremes: set[int] = set()
    with screen.progress("plan", total) as advance:
        for step in islice(zip(*plans, strict=True), arguments.steps):
            samples.append(step[0].global_num_samples)
            sequences.append(sum(share.num_sequences for share in step))
            shares.append([share.num_samples for share in step])
            costs.append([cost(share.sizes.astype(np.float64)).sum() for share in step])
            held = [share.sizes for share in step if share.num_sequences]
            grids.append(
                [share.shape or _padded(share.sizes, arguments.multiple_of) for share in step]
            )
            extremes.update(int(size) for sizes in held for size in (sizes.min(), sizes.max()))
            advance(samples[-1])
    return DryRun(
        samples=np.array(samples),
        sequences=np.array(sequences),
        grids=np.array(grids, np.int64),
        shares=np.array(shares),
        costs=np.array(costs),
        has_equal_sequences=len(extremes) == 1,
        longest=max(extremes, default=0),
    )


def over_mean(of_workers: NDArray[Any]) -> NDArray[np.float64]:
    """Return of every step by how much the largest number of a worker exceeds the mean."""
    over: NDArray[np.float64] = of_workers.max(axis=1) / of_workers.mean(axis=1) - 1
    return over


def _padded(sizes: NDArray[np.uint32], multiple_of: int) -> tuple[int, int]:
    """Return the shape of a grid with a row per sequence."""
    return len(sizes), -(-int(sizes.max(initial=0)) // multiple_of) * multiple_of


def _spread(numbers: NDArray[Any]) -> dict[str, float]:
    return {
        "min": numbers.min().item(),
        "mean": float(numbers.mean()),
        "max": numbers.max().item(),
    }
