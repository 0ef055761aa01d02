"""Formats as rows of a table: the signs by which each is recognised, and its reader."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sweephand.base.public_names import entry_points
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams, stream_per_name
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import DataError, some_of
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression, head_of_content
from sweephand.files.paths import AnyPath, file_at
from sweephand.files.source_file import FIRST_BYTES, SourceFile
from sweephand.files.urls import swap_suffix

_EMPTY_BYTES = 512  # more than nothing takes, compressed, with a name
_GROUP = "sweephand.formats"  # of entry points
_OURS = "sweephand.deserializers"
_GZIP = rb"\x1f\x8b"
_ZSTD = rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"
_PACKED = _GZIP + b"|" + _ZSTD
_ZLIB = b"|".join(  # the first byte has 8 in its lower half, and 31 divides the two
    b"\\x%02x\\x%02x" % divmod(head, 256)
    for head in range(0, 1 << 15, 31)
    if head >> 8 & 15 == 8
)
_BOM = rb"\xef\xbb\xbf"
_CHECKSUM = rb"\x80| {0,7}(?:[0-7]{1,7}[\0 ]|\0)|[ 0-7]{8}"  # of the header of a member
_BLANKS = rb"[ \t\r\f\v]*"

DOCUMENTS = re.compile(
    r"(?i)(readme|licen[sc]e|notice|citation)(\.[^.]*)?"
    r"|.+\.(md|rst|html|pdf|ya?ml|toml|cff|ds\.metadata|ds\.loss|tar\.idx)"
)
"""Names of files that describe data, rather than holding them."""


class SelfDescribed(Deserializer):
    """A deserializer of files that describe their own streams.

    Attributes
    ----------
    definitions : StreamDefs
        Those that are served: asked for, or guessed.
    """

    definitions: StreamDefs


@dataclass(frozen=True)
class Wanted:
    """Options of `sh.open`: facts that a user gives and files lack."""

    streams: StreamsLike | None = None
    size_stream: str | None = None
    chunk_size: int | None = None
    dtype: str | None = None
    sequence_length: int | None = None
    index: Keep = "auto"
    end_of_document: int | None = None

    @property
    def are_documents(self) -> bool:
        """True if numbers are tokens, with a rule that cuts them into sequences."""
        return self.sequence_length is not None or self.end_of_document is not None

    def choose(self, guess: Callable[[], StreamDefs]) -> StreamDefs:
        """Return the streams of files that are cut into chunks by their bytes."""
        self._refuse_chunk_size()
        return self._mark(choose_streams(self.streams, guess))

    def definitions(self, names: Iterable[str]) -> StreamDefs:
        """Return the streams of arrays that lack only the choice of the size stream."""
        return self._mark(choose_streams(self.streams, partial(stream_per_name, names)))

    def open_files(
        self, make: Callable[..., SelfDescribed], files: AnyPath | Sequence[AnyPath]
    ) -> Deserializer:
        """Return the deserializer of files that are cut into chunks by their bytes."""
        self._refuse_chunk_size()
        made = make(files, self.streams, index=self.index)
        if self.size_stream is None:
            return made
        return make(files, self._mark(made.definitions), index=self.index)

    def _refuse_chunk_size(self) -> None:
        if self.chunk_size is not None:
            raise ValueError("a chunk size is for arrays; files are cut by their bytes")

    def _mark(self, streams: StreamDefs) -> StreamDefs:
        """Return the streams, with the one marked that was chosen to define the size."""
        wanted = self.size_stream
        if wanted is None:
            return streams
        if wanted not in streams:
            raise ValueError(f"no stream {wanted!r}, there are: {', '.join(streams)}")
        return StreamDefs(
            {
                name: replace(one, defines_mb_size=name == wanted)
                for name, one in streams.items()
            }
        )


def the_only(paths: Sequence[AnyPath]) -> AnyPath:
    """Return the path of data of which one corpus is one path."""
    if len(paths) > 1:
        raise ValueError(
            f"{len(paths)} corpora are given, {some_of(paths, 3)}: open each, and give a "
            "source one of them"
        )
    return paths[0]


class Look:
    """A path, its first bytes and the names in its folder, each asked once for all formats."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path

    @cached_property
    def file(self) -> SourceFile | None:
        """The file at the path; None if it is no file."""
        return file_at(self.path)

    @cached_property
    def is_dir(self) -> bool:
        """True if it is a folder."""
        return self.file is None and self.path.is_dir()

    @property
    def name(self) -> str:
        """The last part of the path, with a slash at the end if it is no file."""
        return self.path.name if self.file else f"{self.path.name}/"

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB of a file."""
        return b"" if self.file is None else self.file.head(FIRST_BYTES)

    def content(self, size: int, among: Collection[Compression]) -> bytes:
        """Return the first bytes of a file, unpacked if compressed as `among`."""
        return head_of_content(self.file, size, among) if self.file and self.head else b""

    @cached_property
    def is_empty(self) -> bool:
        """True for a file without content, compressed or not."""
        if self.file is None or self.file.size > _EMPTY_BYTES:
            return False
        try:
            return not self.content(4, ("gzip", "zlib", "zstd"))
        except DataError:
            return False

    @cached_property
    def names(self) -> list[str]:
        """The names in a folder, those of folders with a slash at the end."""
        if not self.is_dir:
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
        A regular expression of the first bytes of files, at most 64 KiB; "." is any byte.
    holds : str
        A regular expression of a name in a folder; those of folders end with a slash.
    pairs : tuple of str
        Suffixes of files that are read together: the one with the first suffix has the magic,
        whichever of them is given, or their common prefix; `files` are those that have one.
    confirm : str
        ``module:function`` of a `Look` with a sign of the format: True if it is of it.
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
        return not self.confirm or bool(_find(self.confirm)(look))

    def open(self, paths: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
        """Return the corpus of such files, or of such a path."""
        reader = _find(self.reader)
        if isinstance(reader, type):
            return wanted.open_files(reader, the_only(paths) if self.is_alone else paths)
        opened: Deserializer = reader(paths, wanted)
        return opened

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


def known_formats() -> list[Format]:
    """Return the formats of the core and of packages, in the order in which they are asked."""
    found = list(FORMATS)
    for point in sorted(entry_points(_GROUP), key=lambda one: one.name):
        format_ = point.load()
        if not isinstance(format_, Format):
            raise TypeError(
                f"the entry point {point.name} = {point.value!r} of {_GROUP} must name a "
                f"Format, got {type(format_).__name__}"
            )
        names = [one.name for one in found]
        at = names.index(format_.before) if format_.before in names else len(found)
        found.insert(at, format_)
    return found


TEXT = Format(
    "text",
    f"{_OURS}.text:TextDeserializer",
    files=r"(?i).+\.(txt|text)(\.(gz|zst))?",
    confirm=f"{_OURS}.text:is_text",
)

# Folders that are a corpus come before the files in them, and sure signs before weak signs.
FORMATS = (
    Format(
        "Hugging Face folder",
        f"{_OURS}.arrow:ArrowDeserializer",
        holds=r"(state|dataset_dict)\.json/?",
        is_alone=True,
    ),
    Format(
        "pictures",
        f"{_OURS}.image_folder:ImageFolder",
        files=r".+\.(txt|map|tsv)",
        holds=".+/",
        confirm=f"{_OURS}.image_folder:holds_pictures",
        is_alone=True,
    ),
    Format(".npy", f"{_OURS}.tokens:open_rows", magic=rb"\x93NUMPY"),
    Format(  # whose first member has such a name, unlike that of another archive
        ".npz", f"{_OURS}.npy:open_archive", magic=rb"PK\x03\x04.{26}[^\0]{0,255}?\.npy"
    ),
    Format("Parquet", f"{_OURS}.parquet:ParquetDeserializer", magic=b"PAR1"),
    Format(  # a stream has no magic
        "Arrow", f"{_OURS}.arrow:ArrowDeserializer", files=r".+\.arrow", magic=rb"ARROW1\0\0"
    ),
    Format(
        "Megatron",
        f"{_OURS}.megatron:open_pairs",
        files=r".+\.(bin|idx)|.+/",
        magic=b"MMIDIDX",
        pairs=(".idx", ".bin"),
    ),
    Format(
        "TFRecord",
        f"{_OURS}.tfrecord_files:TFRecordDeserializer",
        magic=rb".{7}\0.{4}|" + _GZIP + b"|" + _ZLIB,
        confirm=f"{_OURS}.tfrecord_files:is_tfrecord",
    ),
    Format(
        "WebDataset",
        f"{_OURS}.webdataset:WebDatasetDeserializer",
        files=r"(?i).+\.(tar|tgz)(\.(gz|zst))?",  # nothing but an end mark has no magic
        magic=rb"(?=.{512})[^\0].{147}(?:" + _CHECKSUM + b")|" + _PACKED,
        confirm=f"{_OURS}.webdataset:is_tar",
    ),
    Format(
        "JSON lines",
        f"{_OURS}.jsonl:JSONLDeserializer",
        magic=b"(?:" + _BOM + rb")?\s*\{|" + _PACKED,
        confirm=f"{_OURS}.jsonl:is_jsonl",
    ),
    Format(
        "CNTK text",
        f"{_OURS}.ctf:CTFDeserializer",
        magic=b"(?:%b)?(?:%b)?" % (_BOM, _BLANKS + rb"\d+" + _BLANKS)
        + rb"\|[a-zA-Z]|"
        + _PACKED,
        confirm=f"{_OURS}.ctf:is_ctf",
    ),
    Format(
        "bare numbers",
        f"{_OURS}.tokens:open_numbers",
        files=r"(.*\.ds(\.index)?|.+\.(bin|tokens))/?",
    ),
    Format(
        "CSV", f"{_OURS}.csv_files:CSVDeserializer", files=r"(?i).+\.(csv|tsv)(\.(gz|zst))?"
    ),
    TEXT,
)
