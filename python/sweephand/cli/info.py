"""Describe the data at a path: streams, sequences, their lengths, chunks.

for example:
  sweephand info train.npz
  sweephand info folder/
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.options import (
    add_corpus,
    limits_of,
    names_script,
    open_corpus,
)
from sweephand.cli.screen import Screen, in_bytes, in_count
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import definitions_of
from sweephand.deserializers.open_path import look_at
from sweephand.files.paths import as_path, bytes_at
from sweephand.source.limits import even_workers
from sweephand.source.source import MinibatchSource

_STEP = 1 << 22  # samples that are looked at at once


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = open_corpus(arguments, once=True)
    limits = limits_of(corpus, 1)
    with MinibatchSource(corpus, randomize=False, num_threads=0, **limits) as source:
        lengths = _lengths_of(source, screen)
        facts: dict[str, Any] = {
            "path": " ".join(str(as_path(path)) for path in arguments.paths),
            **_stored(arguments.paths),
            "num_sequences": source.num_sequences_per_sweep,
            "num_samples": source.num_samples_per_sweep,
            "num_chunks": len(source.timeline.corpus.chunk_sequences),
            "num_lanes": source.timeline.options.lanes,
            "chunk_sequences": _summary(source.timeline.corpus.chunk_sequences),
            "lengths": _summary(lengths),
            "first_id": source.sequence_ids(0, 1)[0],
            "streams": [
                {
                    "name": info.name,
                    "dtype": info.dtype.name,
                    "sample_shape": list(info.shape),
                    "is_sparse": info.is_sparse,
                    "defines_mb_size": info.defines_mb_size,
                }
                for info in source.streams.values()
            ],
            "stream_defs": _as_code(definitions_of(source.streams.values())),
        }
    _show(facts, screen)
    return facts


def _as_code(streams: Mapping[str, StreamDef]) -> str:
    """Return definitions as Python that makes them again, beside ``import sweephand as sh``."""
    lines = []
    for name, one in streams.items():
        arguments = [
            f"{option}={value!r}"
            for option, value in one.given().items()
            if option != "transforms" and value != ()
        ]
        lines.append(f"    {name!r}: sh.StreamDef({', '.join(arguments)}),")
    return "\n".join(["sh.StreamDefs({", *lines, "})"])


def _stored(paths: Sequence[str]) -> dict[str, object]:
    """Return the format of files, and their bytes."""
    if names_script(paths):
        return {"format": "made by a script", "bytes": None}
    found = look_at(paths)
    sizes = [bytes_at(path) for path in found.paths]
    known = [size for size in sizes if size is not None]
    return {
        "format": found.format.name,
        "bytes": sum(known) if len(known) == len(sizes) else None,
    }


def _lengths_of(source: MinibatchSource, screen: Screen) -> NDArray[np.uint32]:
    with screen.progress("lengths", source.num_samples_per_sweep) as advance:
        parts = []
        for plan in source.plan(_STEP):
            parts.append(plan.sizes)
            advance(plan.num_samples)
    return np.concatenate(parts)


def _summary(numbers: NDArray[np.integer]) -> dict[str, float]:
    return {
        "min": int(numbers.min()),
        "median": float(np.median(numbers)),
        "mean": float(numbers.mean()),
        "p95": float(np.percentile(numbers, 95)),
        "max": int(numbers.max()),
    }


def _show(facts: dict[str, Any], screen: Screen) -> None:
    size = "size unknown" if facts["bytes"] is None else in_bytes(facts["bytes"])
    screen.facts(
        {
            "path": f"{facts['path']}  ({facts['format']}, {size})",
            "sequences": in_count(facts["num_sequences"]),
            "samples": in_count(facts["num_samples"]),
            "chunks": in_count(facts["num_chunks"]),
            "lanes": f"{facts['num_lanes']}, evenly for "
            f"{', '.join(map(str, even_workers(facts['num_lanes'])))} workers",
            "first id": facts["first_id"],
        }
    )
    screen.heading("Streams")
    screen.table(
        ["name", "dtype", "shape of a sample", "kind"],
        [
            (
                stream["name"],
                stream["dtype"],
                str(tuple(stream["sample_shape"])),
                "sparse" if stream["is_sparse"] else "dense",
            )
            for stream in facts["streams"]
        ],
    )
    screen.text()
    screen.lines(facts["stream_defs"].split("\n"))  # as they are, to be pasted
    screen.heading("How long sequences are, and how large chunks")
    screen.table(
        ["", "min", "median", "mean", "95 %", "max"],
        [
            ("samples in a sequence", *map(in_count, facts["lengths"].values())),
            ("sequences in a chunk", *map(in_count, facts["chunk_sequences"].values())),
        ],
    )
