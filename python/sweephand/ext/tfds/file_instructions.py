"""Which examples of which files a selection reads, and their ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path


@dataclass(frozen=True)
class FileInstruction:
    """A run of examples in one file.

    Attributes
    ----------
    filename : str
    skip : int
        Examples before the run.
    take : int
        Examples of the run.
    examples_in_shard : int
        All examples of the file.

    Examples
    --------
    >>> import sweephand as sh
    >>> info = sh.tfds.builder_info("mnist/3.0.1")
    >>> part = info.splits["test[2:]"].file_instructions[0]
    >>> part.skip, part.take, part.examples_in_shard
    (2, 3, 5)
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int


def make_file_instructions(
    files: Sequence[PathLike[str]], shard_lengths: Sequence[int], begin: int, end: int
) -> list[FileInstruction]:
    """Return the runs that make up the examples ``[begin, end)`` of a split."""
    rows = []
    start = 0
    for file, length in zip(files, shard_lengths, strict=True):
        stop = start + length
        skip = max(begin - start, 0)
        take = min(end, stop) - start - skip
        if take > 0:
            rows.append(FileInstruction(fspath(file), skip, take, length))
        start = stop
    return rows


def name_files(files: Sequence[str]) -> list[str]:
    """Return short and distinct names of the files, for the ids of their examples.

    The name is that of the file; of files in several folders it starts at the deepest part of
    the path that differs between the folders.
    """
    paths = [Path(file) for file in files]
    folders = {path.parent.parts[::-1] for path in paths}
    depth = 0
    if len(folders) > 1:
        while len({parts[depth : depth + 1] for parts in folders}) == 1:
            depth += 1
        depth += 1
    return ["/".join(path.parts[-1 - depth :]) for path in paths]
