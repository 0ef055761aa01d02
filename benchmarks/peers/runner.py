"""The same work by what users have today, beside ours.

    python -m benchmarks.peers [FIGURE...]

prints rates and keeps them for `benchmarks.report`. Needs the extra `bench`; a peer that is not
installed is told as missing. Not asv: every contender has a process of its own, as some of them
clash, and they take turns, so that all see the same machine; some take minutes for a sweep, so
they are cut off after a given time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parents[1] / ".asv" / "peers.json"

# Figure: its clock, and contender -> (package that it needs, module and function).
FIGURES: dict[str, tuple[Callable[[], float], dict[str, tuple[str, str]]]] = {
    "rows": (
        time.perf_counter,
        {
            "sweephand": ("sweephand", "ours.rows"),
            "torch DataLoader": ("torch", "torch_loaders.rows"),
            "torch DataLoader, batched": ("torch", "torch_loaders.batched_rows"),
            "StatefulDataLoader, batched": ("torchdata", "torch_loaders.stateful_rows"),
            "Grain MapDataset": ("grain", "grain_maps.rows"),
        },
    ),
    **{
        figure: (
            time.perf_counter,
            {
                "sweephand": ("sweephand", f"ours.{figure}"),
                "torch DataLoader, batched": ("torch", f"torch_loaders.{figure}"),
                "Grain MapDataset": ("grain", f"grain_maps.{figure}"),
            },
        )
        for figure in ("ragged", "padded")
    },
    "packing": (
        time.process_time,
        {
            "sweephand, longest first": ("sweephand", "ours.longest_first"),
            "LightBinPack obfd": ("lightbinpack", "packers.light_bin_pack"),
            "first fit in Python": ("sweephand", "packers.first_fit"),
            "best fit decreasing by 1,000 in Python": ("sweephand", "packers.decreasing"),
        },
    ),
    "packed rows": (
        time.process_time,
        {
            "sweephand": ("sweephand", "ours.packed_rows"),
            "Grain, first fit, 64 open rows": ("grain", "grain_maps.packed_rows"),
        },
    ),
    "records of 714 bytes": (
        time.process_time,
        {
            "sweephand, whole minibatches": ("sweephand", "records.ours"),
            "tf.data, `batch` and `parse_example`, one thread": (
                "tensorflow",
                "records.by_tensorflow",
            ),
            "the `tfrecord` package": ("tfrecord", "records.by_tfrecord"),
        },
    ),
}


def per_second(figure: str, contender: str, seconds: float) -> float:
    """Return samples, sequences or records per second, after a first step."""
    clock, contenders = FIGURES[figure]
    module, _, function = contenders[contender][1].partition(".")
    steps: Iterator[int] = getattr(import_module(f"benchmarks.peers.{module}"), function)()
    next(steps)
    count, begin = 0, clock()
    for samples in steps:
        count += samples
        if clock() - begin > seconds:
            break
    return count / (clock() - begin)


def compare(figure: str, repetitions: int, seconds: float) -> dict[str, list[float] | None]:
    """Return the rates of every contender, None for one that is missing."""
    contenders = FIGURES[figure][1]
    found: dict[str, list[float] | None] = {
        name: [] if find_spec(package) else None for name, (package, _) in contenders.items()
    }
    with ExitStack() as stack:
        spawn = get_context("spawn")
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, spawn))
            for name, rates in found.items()
            if rates is not None
        }
        for _ in range(repetitions):
            for name, process in processes.items():
                rate = process.submit(per_second, figure, name, seconds).result()
                found[name] = [*(found[name] or []), rate]
    return found


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.7)
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    for figure in options.figures or FIGURES:
        known[figure] = {}
        for name, rates in compare(figure, options.repetitions, options.seconds).items():
            package = FIGURES[figure][1][name][0]
            told = {"package": package, "version": rates and version(package), "rates": rates}
            known[figure][name] = told
            rate = f"{median(rates):.4g} /s" if rates else f"missing: pip install {package}"
            print(f"{figure:20} {name:50} {rate}", flush=True)
        RESULTS.write_text(json.dumps(known, indent=1))
