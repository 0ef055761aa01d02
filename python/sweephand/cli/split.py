"""Split a corpus into training and validation data by the ids of its sequences.

The parts are those of sh.split in Python: the same every time, and no sequence moves to another
part when files are added. Nothing is copied; --output writes the ids of each part to a file.

for example:
  sweephand split shards/ --validation 0.1
  sweephand split shards/ --validation 0.05 --test 0.05 --seed 7 --output parts/
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sweephand.cli.options import add_corpus, open_corpus, option, whole
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.split import split
from sweephand.terminal.numbers import in_count, in_percent
from sweephand.terminal.screen import Screen

_ROUND = 1 << 16


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_corpus(parser)
    option(parser, "--validation SHARE", share, "0.1 by default", 0.1)
    option(parser, "--test SHARE", share, "none by default")
    option(parser, "--seed N", whole, "0 by default", 0)
    option(parser, "--output DIR", Path, "where files with the ids of the parts go")


def share(text: str) -> float:
    """Read a share between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a share between 0 and 1, got {text!r}")
    return number


def run(arguments: argparse.Namespace, screen: Screen) -> dict[str, object]:
    """Run the command and return its facts."""
    shares = {"validation": arguments.validation}
    if arguments.test is not None:
        shares["test"] = arguments.test
    names = ("train", *shares)
    parts = split(open_corpus(arguments), seed=arguments.seed, **shares)
    opened = {name: part.open(Ledger()) for name, part in zip(names, parts, strict=True)}
    facts: dict[str, Any] = {
        "seed": arguments.seed,
        "parts": {name: _facts_of(corpus) for name, corpus in opened.items()},
        "python": _in_python(arguments, names, shares),
    }
    if arguments.output is not None:
        files = _write_ids(arguments.output, opened)
        facts["files"] = {name: str(path) for name, path in files.items()}
    _show(facts, screen)
    return facts


def _facts_of(corpus: Corpus) -> dict[str, object]:
    return {
        "num_sequences": corpus.num_sequences,
        "num_samples": corpus.core.num_samples,
        "first_id": corpus.ids.names(np.array([0], np.uint64))[0],
    }


def _in_python(
    arguments: argparse.Namespace, names: tuple[str, ...], shares: Mapping[str, float]
) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in shares.items())
    seed = f", seed={arguments.seed}" if arguments.seed else ""
    paths = arguments.paths
    opened = f"sh.open({(paths[0] if len(paths) == 1 else paths)!r})"
    return f"{', '.join(names)} = sh.split({opened}, {given}{seed})"


def _write_ids(folder: Path, parts: Mapping[str, Corpus]) -> dict[str, Path]:
    """Write an id a line to a file per part."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, corpus in parts.items():
        files[name] = folder / f"{name}.ids"
        with files[name].open("w", encoding="utf-8", errors="surrogateescape") as file:
            for begin in range(0, corpus.num_sequences, _ROUND):
                end = min(begin + _ROUND, corpus.num_sequences)
                ids = corpus.ids.names(np.arange(begin, end, dtype=np.uint64))
                if broken := next((one for one in ids if "\n" in one), None):
                    raise ValueError(f"the id {broken!r} has more than one line")
                file.writelines(f"{one}\n" for one in ids)
    return files


def _show(facts: dict[str, Any], screen: Screen) -> None:
    total = sum(part["num_sequences"] for part in facts["parts"].values())
    screen.table(
        ["part", "sequences", "of all", "samples", "first id"],
        [
            (
                name,
                in_count(part["num_sequences"]),
                in_percent(part["num_sequences"] / total),
                in_count(part["num_samples"]),
                part["first_id"],
            )
            for name, part in facts["parts"].items()
        ],
    )
    if "files" in facts:
        screen.heading("Ids")
        screen.lines(facts["files"].values())
    screen.heading("In Python")
    screen.lines(["import sweephand as sh", "", facts["python"]])
