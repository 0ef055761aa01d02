"""Run dry: the steps of training, from the index alone; no payload is read.

for example:
  sweephand plan tokens.npz --size 16384 --workers 8
  sweephand plan tokens.npz --size 16384 --chunk-size 256 --window-chunks 96
  sweephand plan tokens.npz --size 16384 --workers 8 --balance samples --png plan.png
  sweephand plan tokens.npz --size 16384 --row-length 4096 --buckets 8
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sweephand.cli.compare_layouts import layout_facts
from sweephand.cli.dry_run import DryRun, plan_sweep
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
from sweephand.cli.picture import keep_picture
from sweephand.source.source import MinibatchSource
from sweephand.terminal import pictures
from sweephand.terminal.numbers import in_bytes, in_count, in_percent
from sweephand.terminal.screen import Screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = "steps, padding by layout, and shares"


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
            "num_sequences": source.num_sequences_per_sweep,
            "whole_sweep": bool(steps.samples.sum() == source.num_samples_per_sweep),
            **steps.facts(size),
            **_window_facts(source, size, steps),
            **layout_facts(corpus, steps, size, arguments, screen),
        }
    _show(facts, screen)
    keep_picture(arguments, screen, facts, lambda: _draw(steps, facts))
    return facts


def _window_facts(source: MinibatchSource, size: int, steps: DryRun) -> dict[str, object]:
    """Return the cost of the window, and its expected quality of shuffling."""
    chunks, block, lanes = len(source.chunk_sequences), source.block_chunks, source.num_lanes
    is_uniform = block >= chunks
    window = min(chunks, block * lanes)
    predicted = 1.0
    if not is_uniform:
        minibatch = float(steps.sequences.mean())
        predicted = predicted_variance_ratio(
            minibatch, window, chunks, num_lanes=_lanes_in_turn(source, steps)
        )
    return {
        "shuffled": source.is_randomized,
        "by_score": source.timeline.options.order is not None,
        "uniform": source.is_randomized and is_uniform,
        "num_chunks": chunks,
        "num_lanes": lanes,
        "block_chunks": min(block, chunks),
        "open_chunks": window,
        "memory_bound_bytes": source.memory_bound(size),
        "predicted_variance_ratio": predicted if source.is_randomized else None,
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
        return "by score" if facts["by_score"] else "that of the corpus"
    if facts["uniform"]:
        return "uniform: the whole corpus is shuffled as one"
    block, lanes = facts["block_chunks"], in_count(facts["num_lanes"])
    what = "chunk" if block == 1 else f"block of {in_count(block)} chunks"
    return f"shuffled within a window: one {what} open in each of {lanes} lanes"


def _draw(steps: DryRun, facts: dict[str, Any]) -> Figure:
    has_shares = steps.shares.shape[1] > 1
    layouts = facts["layouts"]
    figure, panels = pictures.new_figure(
        f"{in_count(facts['steps'])} steps of up to {in_count(facts['size'])} samples",
        2 + has_shares,
    )
    pictures.draw_counts(panels[0], steps.samples)
    panels[0].set(xlabel="samples in a step", ylabel="steps")
    pictures.draw_bars(
        panels[1],
        {found["layout"]: 100 * found["waste"] for found in layouts.values()},
        [_in_shapes(found["shapes"]) for found in layouts.values()],
    )
    panels[1].set_xlabel("padding, per cent of the cells")
    if has_shares:
        pictures.draw_counts(panels[2], 100 * steps.imbalance)
        panels[2].set(xlabel="fullest worker over the mean, per cent", ylabel="steps")
    return figure


def _in_shapes(number: int) -> str:
    return f"{in_count(number)} shape{'s' if number > 1 else ''}"
