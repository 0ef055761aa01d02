"""Formats as rows of a table: the signs by which each is recognised, and its reader."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from sweephand.base.public_names import entry_points
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Wanted, the_only
from sweephand.errors import DataError
from sweephand.files.contents import head_of_content
from sweephand.files.paths import AnyPath, head_of
from sweephand.files.urls import swap_suffix

Open = Callable[[Sequence[AnyPath], Wanted], Deserializer]

_HEAD_BYTES = 4096
_EMPTY_BYTES = 512  # more than nothing takes, compressed, with a name
_GROUP = "sweephand.formats"  # of entry points


class Look:
    """A path, its first bytes and the names in its folder, each read once for all formats."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path

    @cached_property
    def name(self) -> str:
        """The last part of the path, with a slash at the end if it is no file."""
        return self.path.name if self.path.is_file() else f"{self.path.name}/"

    @cached_property
    def head(self) -> bytes:
        """The first 4 KiB of a file."""
        return head_of(self.path, _HEAD_BYTES)

    @cached_property
    def is_empty(self) -> bool:
        """True for a file without content, compressed or not."""
        if not self.path.is_file() or len(self.head) > _EMPTY_BYTES:
            return False
        try:
            return not head_of_content(self.path, 4, ("gzip", "zlib", "zstd"))
        except DataError:
            return False

    @cached_property
    def names(self) -> list[str]:
        """The names in a folder, those of folders with a slash at the end."""
        if not self.path.is_dir():
            return []
        if isinstance(self.path, Path):
            with os.scandir(self.path) as entries:
                return [f"{one.name}/" if one.is_dir() else one.name for one in entries]
        folders = [f"{one.name}/" for one in self.path.folders()]
        return [one.name for one in self.path.iterdir()] + folders


@dataclass(frozen=True)
class Format:
    r"""A kind of data: a path is of it that has any of its signs, unless `confirm` denies it.

    Only `confirm` and `opener` import the modules that are named here.

    Attributes
    ----------
    name : str
        For people.
    reader : str
        ``module:class`` of a deserializer of files, or ``module:function`` that makes one of
        a sequence of paths and a `Wanted`.
    files : str
        A regular expression of whole names of files; those of folders end with a slash.
    magic : bytes
        A regular expression of the first bytes of files, at most 4 KiB; "." is any byte.
    holds : str
        A regular expression of a name in a folder; those of folders end with a slash.
    pairs : tuple of str
        Suffixes of files that are read together: the one with the first suffix has the magic,
        whichever of them is given, or their common prefix; `files` are those that have one.
    confirm : str
        ``module:function`` that returns whether a path with a sign of the format is of it.
    before : str
        The name of a format of the core that has some of the same signs, and is asked after
        this one; by default this one is asked last.
    joins_folders : bool
        True if a folder of such folders is one corpus of them.
    is_alone : bool
        True if a corpus is one path, so that several are refused before the class is called.

    Examples
    --------
    >>> from pathlib import Path
    >>> csv = Format("CSV", "sweephand.deserializers.csv_files:CSVDeserializer", r".+\.csv")
    >>> csv.is_at(Look(Path("there is no such file.csv")))
    False
    """

    name: str
    reader: str
    files: str = ""
    magic: bytes = b""
    holds: str = ""
    pairs: tuple[str, ...] = ()
    confirm: str = ""
    before: str = ""
    joins_folders: bool = False
    is_alone: bool = False

    def is_at(self, look: Look) -> bool:
        """Return True if a path has this format, by its name and first bytes."""
        if not (self._is_pair(look) if self.pairs else self._has_sign(look)):
            return False
        return not self.confirm or bool(_find(self.confirm)(look.path))

    def opener(self) -> Open:
        """Return a function that makes a corpus of such files, or of such a path."""
        reader = _find(self.reader)
        if not isinstance(reader, type):
            return reader

        def open_files(paths: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
            files = the_only(paths) if self.is_alone else paths
            opened: Deserializer = wanted.open_files(reader, files)
            return opened

        return open_files

    def _has_sign(self, look: Look) -> bool:
        if self.files and re.fullmatch(self.files, look.name, re.DOTALL):
            return True
        if self.magic and re.match(self.magic, look.head, re.DOTALL):
            return True
        return bool(self.holds) and any(map(re.compile(self.holds).fullmatch, look.names))

    def _is_pair(self, look: Look) -> bool:
        if not re.fullmatch(self.files, look.name, re.DOTALL):
            return False
        name = swap_suffix(look.path.name, self.pairs[0], known=self.pairs)
        first = look if name == look.path.name else Look(look.path.with_name(name))
        return re.match(self.magic, first.head, re.DOTALL) is not None


def _find(place: str) -> Callable[..., Any]:
    """Import the object of ``module:name``."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def installed_formats() -> list[Format]:
    """Return the formats that other packages add by entry points of ``sweephand.formats``."""
    found = []
    for point in sorted(entry_points(_GROUP), key=lambda one: one.name):
        format_ = point.load()
        if not isinstance(format_, Format):
            raise TypeError(
                f"the entry point {point.name} = {point.value!r} of {_GROUP} must name a "
                f"Format, got {type(format_).__name__}"
            )
        found.append(format_)
    return found
