"""Simulation of a cluster, as tables and a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand.terminal import pictures
from sweephand.terminal.numbers import in_bytes, in_count, in_percent, in_rate, in_seconds
from sweephand.terminal.screen import Screen

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(facts: dict[str, Any], screen: Screen) -> None:
    """Write the tables."""
    cluster, planned, figures = facts["cluster"], facts["planned"], facts["arithmetic"]
    memory, start, steady = figures["memory"], figures["start"], figures["steady"]
    screen.facts(
        {
            "corpus": f"{in_count(facts['num_samples'])} samples in "
            f"{in_count(facts['num_chunks'])} chunks of {in_bytes(figures['chunk_bytes'])}",
            "lengths": f"{facts['lengths']}: {in_count(round(facts['mean_length']))} in the "
            f"mean, up to {in_count(facts['longest'])}",
            "workers": f"{in_count(cluster['workers'])}, and {in_count(cluster['lanes'])} "
            f"lanes; open in each, in chunks: {in_count(cluster['block_chunks'])}",
            "minibatch": f"{in_count(cluster['size'])} samples{_rows(facts)}",
        }
    )
    part = f", at 1/{planned['scale']} of the size" if planned["scale"] > 1 else ""
    _show_balance(facts, screen, part)
    screen.heading("A worker")
    reads = figures["chunk_reads"]
    sharing = max(shared["sharing_seconds"] for shared in planned["balance"].values())
    screen.facts(
        {
            "place": f"{in_seconds(planned['placing_seconds'])}, run here{part}",
            "plan a step": f"{in_seconds(planned['planning_seconds'])}, and to share it "
            f"{in_seconds(sharing)}, run here{part}",
            "chunk reads": f"{in_count(reads['mean'])} in a sweep, at most "
            f"{in_count(reads['max'])}; 1/K of the chunks are {in_count(reads['fair'])}"
            + (", if no row had sequences of two workers" if facts["row_length"] else ""),
            "memory": f"{in_bytes(memory['planner_bytes'])} to plan, "
            f"{in_bytes(memory['window_bytes'])} of data",
        }
    )
    screen.heading("The store, by arithmetic")
    screen.facts(
        {
            "first step": f"{in_count(start['first_requests'])} requests, "
            f"{in_seconds(start['first_seconds'])}",
            "whole window": f"{in_count(start['window_requests'])} requests, "
            f"{in_seconds(start['window_seconds'])}",
            "then": f"{in_bytes(steady['bytes_per_second'])}/s, "
            f"{in_rate(steady['requests_per_second'])} requests/s, "
            f"{in_percent(steady['share_of_requests'])} of what it answers",
        }
    )
    _show_changes(figures, screen)


def _show_balance(facts: dict[str, Any], screen: Screen, part: str) -> None:
    planned = facts["planned"]
    first, last = planned["first_step"], planned["first_step"] + planned["steps"] - 1
    screen.heading(
        f"Balance: steps {in_count(first)} to {in_count(last)}, {_how(planned)}{part}"
    )
    columns = ["samples (worst)", "cost (worst)", "chunks (most)", "moved"]
    rows = [
        (
            {"lanes": "none"}.get(name, name),
            _most(shared["excess_of_fullest_in_samples"], in_percent),
            _most(shared["excess_of_fullest_in_cost"], in_percent),
            _most(shared["chunks_of_a_worker"], in_count),
            in_percent(shared["share_of_samples_moved"]),
        )
        for name, shared in planned["balance"].items()
    ]
    shown = 4 if facts["row_length"] else 5  # rows have no owner before they are dealt
    screen.table(["balance", *columns][:shown], [row[:shown] for row in rows])
    screen.text(
        "\nSamples and cost: by how much the fullest worker exceeds the mean. Chunks: those "
        "that a worker takes from in these steps."
    )
    if (longest := planned["excess_of_longest_in_cost"]) > 0:
        what = "row: the costliest" if facts["row_length"] else "sequence: the longest"
        screen.text(
            f"\nNo rule cuts a {what} one costs {in_percent(longest)} more than "
            "a worker has in the mean."
        )


def _most(spread: dict[str, Any], in_words: Callable[[float], str]) -> str:
    return f"{in_words(spread['mean'])} ({in_words(spread['max'])})"


def _how(planned: dict[str, Any]) -> str:
    return "those of a run" if planned["of_a_run"] else "planned for real"


def _rows(facts: dict[str, Any]) -> str:
    length = facts["row_length"]
    if not length:
        return ""
    rows = max(1, facts["cluster"]["size"] // length)
    return f" in {in_count(rows)} rows of {in_count(length)}"


def _show_changes(figures: dict[str, Any], screen: Screen) -> None:
    if figures["resharing"]:
        screen.heading("Other numbers of workers, by arithmetic")
        screen.table(
            ["workers", "excess of the fullest", "lanes move", "chunks each opens"],
            [
                (
                    in_count(other["workers"]),
                    in_percent(other["excess_of_fullest"]),
                    in_percent(other["lanes_that_move"]),
                    in_count(other["chunks_opened"]),
                )
                for other in figures["resharing"]
            ],
        )
    cache = figures["cache"]
    screen.heading(f"Cache of each of {cache['nodes']} nodes: hits, run at a small size")
    screen.table(
        ["of the corpus", "known future", "LRU"],
        [
            (in_percent(one["room"]), in_percent(one["known_future"]), in_percent(one["lru"]))
            for one in cache["by_room"]
        ],
    )
    if figures["cluster_cache"]:
        cache = figures["cluster_cache"]
        screen.heading(f"Caches of {cache['nodes']} nodes as one: where reads of a sweep go")
        screen.table(
            ["disks hold of the corpus", "to the store", "to other nodes", "to the own disk"],
            [
                tuple(in_percent(one[key]) for key in ("room_of_all", "store", "peers", "own"))
                for one in cache["by_room"]
            ],
        )
        _show_links(cache, screen)
    screen.heading(f"{figures['failures_per_day']:.2g} failures a day, by arithmetic")
    screen.table(
        ["the loader takes", "of the time is lost"],
        [
            (in_seconds(one["loader_seconds"]), in_percent(one["time_lost"]))
            for one in figures["restarts"]
        ],
    )


def _show_links(cache: dict[str, Any], screen: Screen) -> None:
    """Show the traffic of a cluster's links, and the waiting for them."""
    names = ("store_sends", "node_receives", "node_sends")
    screen.heading("Its links after the first sweep, and how much of its time the loop waits")
    screen.table(
        ["disks hold", "store sends", "node receives", "node sends", "waits", "first sweep"],
        [
            (
                in_percent(one["room_of_all"]),
                *(f"{in_bytes(one[f'{name}_per_second'])}/s" for name in names),
                in_percent(one["waiting"]),
                in_percent(one["waiting_of_first_sweep"]),
            )
            for one in cache["by_room"]
        ],
    )


def draw(facts: dict[str, Any], reads: NDArray[np.int64]) -> Figure:
    """Draw balance, chunks that each worker reads, cache and restarts."""
    figures, shared = facts["arithmetic"], facts["planned"]["balance"]
    figure, panels = pictures.new_figure(
        f"{in_count(facts['cluster']['workers'])} workers, {facts['lengths']} lengths",
        4,
        columns=2,
    )
    names = ["none" if name == "lanes" else name for name in shared]
    places = np.arange(len(names))
    for shift, unit in ((-0.2, "samples"), (0.2, "cost")):
        excesses = [one[f"excess_of_fullest_in_{unit}"]["mean"] for one in shared.values()]
        heights = [100 * excess for excess in excesses]
        panels[0].bar(places + shift, heights, 0.4, label=unit)
    panels[0].set_xticks(places, names)
    panels[0].set(
        xlabel="balance", ylabel="excess of the fullest worker over the mean, per cent"
    )
    panels[0].legend()
    pictures.draw_counts(panels[1], reads)
    panels[1].set(xlabel="chunks that a worker opens in a sweep", ylabel="workers")
    rooms = [100 * one["room"] for one in figures["cache"]["by_room"]]
    for key, label in (("known_future", "known future"), ("lru", "LRU")):
        hits = [100 * one[key] for one in figures["cache"]["by_room"]]
        panels[2].plot(rooms, hits, marker="o", label=label)
    panels[2].set(xlabel="cache of a node, per cent of the corpus", ylabel="hits, per cent")
    panels[2].legend()
    lost = {
        in_seconds(one["loader_seconds"]): 100 * one["time_lost"] for one in figures["restarts"]
    }
    pictures.draw_bars(panels[3], lost, [f"{share:.1f} %" for share in lost.values()])
    panels[3].set(xlabel="time lost to failures, per cent", ylabel="the loader takes")
    return figure
