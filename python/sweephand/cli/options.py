"""Options that several commands share, and the source that they make."""

from __future__ import annotations

import argparse
import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweephand.deserializers import open_path
from sweephand.deserializers.deserializer import Deserializer
from sweephand.events.event_file import load
from sweephand.files.index_file import Keep
from sweephand.layouts.base import layout_names
from sweephand.mixtures.mixture import Mixture
from sweephand.source.limits import INFINITELY_REPEAT
from sweephand.source.options import DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
from sweephand.source.plan import Plan
from sweephand.source.source import MinibatchSource

_SEQUENCES_PER_MINIBATCH = 64
_KEEP: dict[str, Keep] = {"auto": "auto", "cache": "cache", "none": None}


def count(text: str) -> int:
    """Read a positive number; underscores may group its digits."""
    number = whole(text)
    if number == 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text!r}")
    return number


def whole(text: str) -> int:
    """Read a number of at least 0."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    return number


def option(
    parser: argparse._ActionsContainer,
    words: str,
    read: Callable[[str], Any],
    help: str | None = None,
    default: object = None,
    **more: Any,
) -> None:
    """Add an option with a value; `words` are its name and placeholder, as in "--size M"."""
    name, metavar = words.split()
    parser.add_argument(name, metavar=metavar, type=read, help=help, default=default, **more)


def flag(parser: argparse._ActionsContainer, name: str, help: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_corpus(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add PATH and the facts that its files do not hold."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*" if is_optional else "+",
        help="a file of any format that is read here, a folder of such files, the prefix of "
        "Megatron's pairs, or a TFDS or Hugging Face folder, or the URL of one; several are "
        "one corpus; each .npy file is a stream, and NAME_offsets says where the sequences of "
        "NAME begin; SCRIPT.py:NAME is the corpus that a script calls so",
    )
    in_chunk = "sequences in a chunk of arrays; by default about 8 MiB"
    option(parser, "--chunk-size N", count, in_chunk)
    option(parser, "--dtype TYPE", str, "of bare numbers, such as uint16")
    option(parser, "--sequence-length N", count, "to cut tokens into")
    option(parser, "--end-of-document TOKEN", int, "that ends every document of tokens")
    parser.add_argument(
        "--index",
        choices=_KEEP,
        default="auto",
        help="where an index is kept, of formats that need one: in the hidden folder "
        ".sweephand of the data if possible (auto), in a cache folder, or nowhere (none)",
    )


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide the order."""
    group = parser.add_argument_group("order")
    option(group, "--seed N", whole, "0 by default", 0)
    flag(group, "--no-shuffle", "the order of the corpus, in every sweep")
    windows = group.add_mutually_exclusive_group()
    option(
        windows,
        "--window-chunks N",
        count,
        "chunks that are open at a time; by default the whole corpus is shuffled as one, from "
        "a million unequal sequences on 512 chunks of 1,024 sequences",
    )
    option(windows, "--window-samples N", count, "the same window, in samples")
    option(group, "--lanes N", count, "48 by default")
    option(group, "--events FILE", str, "what happens on the timeline: see sweephand events")


def add_size(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add the minibatch size, by default one that suits the corpus."""
    help = "samples in a minibatch, over all workers"
    if not required:
        help += f"; by default {_SEQUENCES_PER_MINIBATCH} mean sequences"
    option(parser, "--size M", count, help, required=required)


def add_layout(parser: argparse.ArgumentParser, default: str, by_default: str) -> None:
    """Add the layout by its name."""
    names = layout_names()
    help = f"{', '.join(names)}; {by_default}"
    option(parser, "--layout NAME", str, help, default, choices=names)


def open_corpus(arguments: argparse.Namespace, *, once: bool = False) -> Deserializer:
    """Return the corpus that a command line describes.

    With `once` a source of one sweep delivers every sequence once, of a mixture too.
    """
    found = open_either(arguments, (Deserializer,))
    assert isinstance(found, Deserializer)
    return found.once() if once and isinstance(found, Mixture) else found


def open_either(
    arguments: argparse.Namespace,
    kinds: tuple[type[Deserializer | MinibatchSource], ...] = (Deserializer, MinibatchSource),
) -> Deserializer | MinibatchSource:
    """Return the corpus that a command line describes, or the source that its script makes.

    What a script names may be a function that returns it.
    """
    if names_script(arguments.paths):
        (path,) = arguments.paths
        found = object_of_script(path)
        if not isinstance(found, kinds) and callable(found):
            found = found()
        if not isinstance(found, kinds):
            kind = type(found).__name__
            raise ValueError(f"{path} is {kind}, and neither a corpus nor returns one")
        return found
    return open_path.open(
        arguments.paths,
        chunk_size=arguments.chunk_size,
        dtype=arguments.dtype,
        sequence_length=arguments.sequence_length,
        end_of_document=arguments.end_of_document,
        index=_KEEP[arguments.index],
    )


def make_source(
    corpus: Deserializer,
    arguments: argparse.Namespace,
    *,
    max_sweeps: int = 1,
    **options: Any,
) -> MinibatchSource:
    """Return the source of a corpus that a command line describes, with further options."""
    window = arguments.window_chunks or DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
    return MinibatchSource(
        corpus,
        **limits_of(corpus, max_sweeps),
        randomize=not arguments.no_shuffle,
        randomization_seed=arguments.seed,
        randomization_window_in_chunks=window,
        randomization_window_in_samples=arguments.window_samples or 0,
        num_lanes=arguments.lanes,
        events=load(arguments.events) if arguments.events else None,
        **options,
    )


def limits_of(corpus: Deserializer, max_sweeps: int) -> dict[str, Any]:
    """Return where a source ends, as arguments of it.

    A mixture that goes round has no sweeps: it ends after as many samples as its corpora have.
    """
    if not isinstance(corpus, Mixture) or corpus.at_end == "stop":
        return {"max_sweeps": max_sweeps}
    if corpus.at_end == "drop" or max_sweeps == INFINITELY_REPEAT:
        return {}
    with MinibatchSource(corpus, num_threads=0) as source:
        return {"max_samples": max_sweeps * source.num_samples_per_sweep}


def minibatch_size(arguments: argparse.Namespace, plan: Plan) -> int:
    """Return the requested minibatch size, or a size that suits the corpus."""
    if arguments.size is not None:
        return int(arguments.size)
    samples, sequences = plan.sweep_samples, plan.corpus.core.num_sequences
    return min(samples, -(-_SEQUENCES_PER_MINIBATCH * samples // sequences))


_IN_SCRIPT = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def names_script(paths: Sequence[str]) -> bool:
    """Return True if the paths are one script."""
    found = _IN_SCRIPT.fullmatch(paths[0]) if len(paths) == 1 else None
    return found is not None and Path(found[1]).is_file() and not Path(paths[0]).exists()


def object_of_script(path: str) -> Any:
    """Return the object that ``SCRIPT.py:NAME`` names.

    The script is run, but not as a program: its part after ``if __name__ == "__main__"`` is
    left out. ValueError if it names no object, or the name is unknown.
    """
    found = _IN_SCRIPT.fullmatch(path)
    if found is None:
        raise ValueError(f"{path!r} names no object of a script, as SCRIPT.py:NAME does")
    script, name = found.groups()
    names = runpy.run_path(script, run_name="__sweephand__")
    if name not in names:
        there = ", ".join(key for key in names if not key.startswith("_"))
        raise ValueError(f"{script} has no {name!r}; it has: {there or 'none'}")
    return names[name]
