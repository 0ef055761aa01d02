"""Run dry: the steps of training, from the index alone; no payload is read.

for example:
  sweephand plan tokens.npz --size 16384 --workers 8
  sweephand plan tokens.npz --size 16384 --chunk-size 256 --window-chunks 96 --shuffle-report
  sweephand plan tokens.npz --size 16384 --workers 8 --balance samples --png plan.png
  sweephand plan tokens.npz --size 16384 --row-length 4096 --buckets 8
"""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sweephand.cli.compare_layouts import layout_facts
from sweephand.cli.dry_run import DryRun, plan_sweep
from sweephand.cli.options import (
    add_corpus,
    add_order,
    add_size,
    count,
    flag,
    make_source,
    minibatch_size,
    open_corpus,
    option,
)
from sweephand.cli.picture import keep_picture
from sweephand.shuffle.prediction import predicted_variance_ratio
from sweephand.shuffle.quality import ShuffleReport, shuffle_report
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
    report = "measure how well the planned order shuffles, taking the corpus as sorted"
    flag(parser, "--shuffle-report", report)


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
        report = None
        if arguments.shuffle_report:
            report = _report(source, size, steps)
            facts["shuffle_report"] = report.as_dict()
    _show(facts, screen)
    if report:
        _show_report(report, screen)
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


def _report(source: MinibatchSource, size: int, steps: DryRun) -> ShuffleReport:
    order = [step.sequences for step in islice(source.plan(size), steps.num_steps)]
    sequences = np.concatenate(order)
    chunks, block = source.chunk_sequences, source.block_chunks
    return shuffle_report(
        sequences,
        chunks,
        minibatch=max(2, round(len(sequences) / len(order))),
        window_chunks=None if block >= len(chunks) else block * source.num_lanes,
        num_lanes=_lanes_in_turn(source, steps),
    )


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


def _show_report(report: ShuffleReport, screen: Screen) -> None:
    screen.heading(
        f"Shuffle report: {in_count(report.num_places)} sequences in minibatches of "
        f"{report.minibatch}, the corpus taken as sorted"
    )
    worst = max(report.same_chunk_neighbours)
    screen.table(
        ["", "found", "to expect", "uniform", "p if uniform"],
        [
            (
                "variance of minibatch means",
                f"{report.variance_ratio:.3f}",
                f"{report.predicted_variance_ratio:.3f}",
                "1.000",
                f"{report.variance_p_value:.3g}",
            ),
            (
                "chunks in a minibatch",
                f"{report.distinct_chunks:.1f}",
                f"{report.predicted_distinct_chunks:.1f}",
                "",
                "",
            ),
            (
                "neighbours of one chunk, worst tenth",
                f"{worst:.4f}",
                "",
                f"{report.uniform_same_chunk_neighbours:.4f}",
                f"{report.neighbours_p_value:.3g}",
            ),
            (
                "correlation of neighbours",
                f"{report.lag_correlation:+.4f}",
                "",
                "+0.0000",
                f"{report.lag_p_value:.3g}",
            ),
            (
                "tenths of the corpus, chi-square",
                f"{report.decile_chi_square:.3f}",
                "",
                "1.000",
                f"{report.decile_p_value:.3g}",
            ),
        ],
    )
    screen.text(
        "p is the chance that a uniform order is as far out: small ones are the rule for a "
        "window, and a defect where the order should be uniform."
    )


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
