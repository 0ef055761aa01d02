"""The files of a corpus: here and in stores, by name or pattern, each once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweephand.files.local import find_local
from sweephand.files.source_file import FileList, Files, SourceFile
from sweephand.files.urls import is_url


def find_files(files: Files, *, as_given: bool = False) -> FileList:
    """Find the files of a corpus.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs (what exists is taken literally), or fsspec URLs, which are globs if they
        hold ``*`` or ``[``.
    as_given : bool
        Keep the order they were given in; what a glob finds is in the order of the paths.

    Returns
    -------
    FileList
        Sorted by the bytes of their names, unless `as_given`.

    Raises
    ------
    FileNotFoundError
        If there is none of a name or a pattern.
    DataError
        If it is a folder, a pipe or a device.
    ValueError
        If a file is there twice, or none is given.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not given:
        raise ValueError("give at least one file")
    specs = [os.fspath(one) for one in given]
    urls = [spec for spec in specs if is_url(spec)]
    remote: dict[str, FileList] = {}
    if urls:
        from sweephand.files.remote import find_objects

        remote = dict(zip(urls, find_objects(urls), strict=True))
    found: list[SourceFile] = []
    leftovers: list[str] = []
    for spec in specs:
        listed = remote.get(spec) or find_local(spec)
        found += listed.files
        leftovers += listed.leftovers
    _refuse_twice(found)
    named = _name(found)
    if not as_given:
        named.sort(key=lambda file: os.fsencode(file.name))
    return FileList(named, leftovers)


def _refuse_twice(files: Sequence[SourceFile]) -> None:
    seen: dict[object, str] = {}
    for file in files:
        identity = file.identity
        if identity in seen:
            raise ValueError(
                f"the file {file.path!r} is given twice, also as {seen[identity]!r}; its "
                "sequences would have the same ids"
            )
        seen[identity] = file.path


def _name(files: list[SourceFile]) -> list[SourceFile]:
    if len({file.name for file in files}) < len(files):
        common = os.path.commonpath([Path(file.path).parent for file in files])
        files = [replace(file, name=os.path.relpath(file.path, common)) for file in files]
    return files
