"""The files of a corpus: here and in stores, by name or pattern, each once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from sweephand.files.local import find_local
from sweephand.files.paths import AnyPath, as_path, folders_like, is_glob
from sweephand.files.source_file import (
    FileList,
    Files,
    PathLike,
    SourceFile,
    empty_corpus,
    spec_of,
)
from sweephand.files.urls import is_url

_SEVERAL: tuple[type, ...] = (Sequence, set, frozenset, Iterator)
_PATH_TYPES: tuple[type, ...] = (str, os.PathLike)


def find_files(files: Files, *, as_given: bool = False) -> FileList:
    """Find the files of a corpus.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs (what exists is taken literally), or fsspec URLs, which are globs if they
        hold ``*`` or ``[``; with braces, ``{000..099}`` or ``{a,b}``, all expansions.
    as_given : bool
        Keep the order they were given in; what a glob finds is in the order of the paths.

    Returns
    -------
    FileList
        Sorted by the bytes of their names, unless `as_given`. FileNotFoundError if there is
        none of a name or a pattern, DataError for a folder, pipe or device, ValueError if a
        file is there twice.
    """
    specs = [spec_of(one) for one in list_paths(files)]
    urls = [spec for spec in specs if is_url(spec)]
    remote: dict[str, list[SourceFile]] = {}
    if urls:
        from sweephand.files.remote import find_objects

        remote = dict(zip(urls, find_objects(urls), strict=True))
    found = [file for spec in specs for file in remote.get(spec) or find_local(spec)]
    seen: dict[object, str] = {}
    for file in found:
        if file.identity in seen:
            raise ValueError(
                f"the file {file.path!r} is given twice, also as {seen[file.identity]!r}; its "
                "sequences would have the same ids"
            )
        seen[file.identity] = file.path
    if len({file.name for file in found}) < len(found):
        common = os.path.commonpath([Path(file.path).parent for file in found])
        found = [replace(file, name=os.path.relpath(file.path, common)) for file in found]
    if not as_given:
        found.sort(key=lambda file: os.fsencode(file.name))
    return FileList(found)


def find_shards(files: Files, *, as_given: bool = False) -> FileList:
    """Find the files of a corpus without empty ones; DataError if all of them are empty."""
    found = find_files(files, as_given=as_given)
    if filled := [file for file in found.files if file.size]:
        return FileList(filled)
    raise empty_corpus([file.path for file in found.files])


def list_paths(paths: Files) -> list[PathLike]:
    """Return one path or several as a list, braces expanded; refuse anything else by name."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    # Not any iterable: the columns of a table and the lines of a file are no paths.
    is_several = not hasattr(paths, "read") and isinstance(paths, _SEVERAL)
    given: list[PathLike] = list(paths) if is_several else []
    wrong: list[object] = [one for one in given if not isinstance(one, _PATH_TYPES)]
    if wrong or not is_several:
        found = type(wrong[0] if wrong else paths).__name__
        raise TypeError(
            f"files are paths, globs or URLs, got {found}; data in memory are served by "
            "ArrayDeserializer or ArrowDeserializer"
        )
    if not given:
        raise ValueError("give at least one file")
    return [path for one in given for path in expand_braces(spec_of(one))]


def paths_like(place: PathLike) -> list[AnyPath]:
    """Return a path, or the files that a glob matches, or else the folders."""
    if not is_glob(place):
        return [as_path(place)]
    try:
        return [as_path(file.spec) for file in find_files(place).files]
    except FileNotFoundError:
        if folders := folders_like(place):
            return list(folders)
        raise


MOST_PATHS = 1_000_000
"""A pattern that stands for more is refused."""

_BRACES = re.compile(r"\{(?:(\d{1,18})\.\.(\d{1,18})|([^{}]*,[^{}]*))\}", re.ASCII)


def expand_braces(spec: str) -> list[str]:
    """Expand ``{000..012}`` and ``{a,b}``, not nested, in a path or URL.

    A path that exists is taken literally, and so is the query of a URL.
    """
    if "{" not in spec or os.path.exists(spec):  # noqa: PTH110 - as is_url
        return [spec]
    path, mark, query = spec.partition("?") if is_url(spec) else (spec, "", "")
    parts: list[Sequence[str]] = []
    at, count = 0, 1
    for found in _BRACES.finditer(path):
        first, last, names = found.groups()
        chosen: Sequence[str | int] = names.split(",") if names else ()
        if not names:
            chosen = range(int(first), int(last) + 1)
        count *= max(1, len(chosen))
        if count > MOST_PATHS:
            raise ValueError(f"the braces stand for more than {MOST_PATHS} paths")
        if chosen:
            # With as many digits as the bounds have, if one begins with a zero.
            bounds = (first or "", last or "")
            is_padded = any(len(one) > 1 and one[0] == "0" for one in bounds)
            width = max(map(len, bounds)) if is_padded else 0
            parts += [[path[at : found.start()]], [str(one).zfill(width) for one in chosen]]
            at = found.end()
    parts.append([path[at:] + mark + query])
    return ["".join(one) for one in product(*parts)]
