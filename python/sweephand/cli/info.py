"""Describe the data at a path: streams, sequences, their lengths, chunks.

for example:
  sweephand info train.npz
  sweephand info folder/
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.cli.options import (
    add_corpus,
    delivered_once,
    limits_of,
    names_script,
    open_corpus,
)
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import definitions_of
from sweephand.deserializers.open_path import look_at
from sweephand.files.paths import as_path, bytes_at
from sweephand.source.limits import even_workers
from sweephand.source.source import MinibatchSource
from sweephand.terminal.numbers import in_bytes, in_count
from sweephand.terminal.screen import Screen

_LONGEST_BAR = 40
_STEP = 1 << 22  # samples that are looked at at once


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    corpus = delivered_once(open_corpus(arguments))
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
            "stream_defs": as_code(definitions_of(source.streams.values())),
        }
    _show(facts, lengths, screen)
    return facts


def as_code(streams: Mapping[str, StreamDef]) -> str:
    """Return definitions as Python that makes them again, beside ``import sweephand as sh``.

    Examples
    --------
    >>> print(as_code({"x": StreamDef(dtype="int8"), "a b": StreamDef(shape=3)}))
    sh.StreamDefs({
        "x": sh.StreamDef(dtype="int8"),
        "a b": sh.StreamDef(shape=(3,)),
    })
    """
    are_words = all(name.isidentifier() and not iskeyword(name) for name in streams)
    lines = [
        f"    {name}={_code_of(one)}," if are_words else f"    {_text(name)}: {_code_of(one)},"
        for name, one in streams.items()
    ]
    begin, end = ("(", ")") if are_words else ("({", "})")
    return "\n".join([f"sh.StreamDefs{begin}", *lines, end])


def _code_of(definition: StreamDef) -> str:
    arguments = [
        f"{option}={_text(value) if isinstance(value, str) else repr(value)}"
        for option, value in definition.given().items()
        if option != "transforms" and value != ()
    ]
    return f"sh.StreamDef({', '.join(arguments)})"


def _text(text: str) -> str:
    """Return text as Python writes it, in double quotes where it can."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else repr(text)


def _stored(paths: Sequence[str]) -> dict[str, object]:
    """Return the format of files, and their bytes."""
    if names_script(paths):
        return {"format": "made by a script", "bytes": None}
    return {"format": look_at(paths).format.name, "bytes": _bytes_at(paths)}


def _bytes_at(paths: Sequence[str]) -> int | None:
    sizes = [bytes_at(path) for path in look_at(paths).paths]
    return None if None in sizes else sum(size for size in sizes if size is not None)


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


def _show(facts: dict[str, Any], lengths: NDArray[np.uint32], screen: Screen) -> None:
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
    if facts["lengths"]["min"] < facts["lengths"]["max"]:
        screen.lines(_bars(lengths, screen))


def _bars(lengths: NDArray[np.uint32], screen: Screen) -> Iterator[str]:
    """Yield a bar for each of the bins [1, 1], [2, 3], [4, 7], ... that lengths fall into."""
    counts = np.bincount(np.log2(np.maximum(lengths, 1)).astype(np.int64))
    bins = range(int(np.flatnonzero(counts)[0]), len(counts))
    labels = [f"{in_count(2**e)} - {in_count(2 ** (e + 1) - 1)}" for e in bins]
    numbers = [in_count(counts[e]) for e in bins]
    of_label, of_number = (max(map(len, column)) for column in (labels, numbers))
    room = max(1, min(_LONGEST_BAR, screen.width - of_label - of_number - 3))
    ends = screen.bar_ends
    for e, label, number in zip(bins, labels, numbers, strict=True):
        whole, rest = divmod(-(-int(counts[e]) * room * len(ends) // counts.max()), len(ends))
        bar = ends[-1] * whole + (ends[rest - 1] if rest else "")
        yield f"{label:>{of_label}}  {number:>{of_number}} {bar}"
