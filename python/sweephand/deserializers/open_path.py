"""Formats as rows of a table: the signs by which each is recognised, and its reader."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sweephand.base.public_names import entry_points
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import StreamsLike, choose_streams, stream_per_name
from sweephand.deserializers.deserializer import Deserializer
from sweephand.errors import DataError, shown, some_of
from sweephand.files.find import list_paths, paths_like
from sweephand.files.index_file import Keep
from sweephand.files.inflate import Compression, head_of_content
from sweephand.files.local import not_found
from sweephand.files.paths import AnyPath, file_at, files_at, folders_at
from sweephand.files.source_file import (
    FIRST_BYTES,
    Files,
    SourceFile,
    empty_corpus,
    refuse_pointer,
)
from sweephand.files.urls import swap_suffix

_EMPTY_BYTES = 512  # more than nothing takes, compressed, with a name
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
    """A deserializer of files that describe their own streams."""

    definitions: StreamDefs  # those that are served: asked for, or guessed


@dataclass(frozen=True)
class Wanted:
    """Options of `sh.open`."""

    streams: StreamsLike | None = None
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
        return choose_streams(self.streams, guess)

    def definitions(self, names: Iterable[str]) -> StreamDefs:
        """Return the streams of arrays with these names."""
        return choose_streams(self.streams, partial(stream_per_name, names))

    def open_files(
        self, make: Callable[..., SelfDescribed], files: AnyPath | Sequence[AnyPath]
    ) -> Deserializer:
        """Return the deserializer of files that are cut into chunks by their bytes."""
        self._refuse_chunk_size()
        return make(files, self.streams, index=self.index)

    def _refuse_chunk_size(self) -> None:
        if self.chunk_size is not None:
            raise ValueError("a chunk size is for arrays; files are cut by their bytes")


def the_only(paths: Sequence[AnyPath]) -> AnyPath:
    """Return the path of data of which one corpus is one path."""
    if len(paths) > 1:
        raise ValueError(f"each is a corpus of its own: open one of {some_of(paths)}")
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
        folders = [f"{one.name}/" for one in self.path.iterdir("directory")]
        return [one.name for one in self.path.iterdir()] + folders


@dataclass(frozen=True)
class Format:
    r"""A kind of data: a path is of it that has any of its signs, unless `confirm` denies it.

    Names of folders end with a slash. Only `confirm` and `open` import what is named here.

    Attributes
    ----------
    name : str
        For people.
    reader : str
        ``module:class`` of a deserializer of files, or ``module:function`` that makes one of
        a sequence of paths and a `Wanted`.
    files, holds : str
        Regular expressions of a whole name, and of a name in a folder.
    magic : bytes
        A regular expression of the first bytes of files, at most 64 KiB; "." is any byte.
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
        has_sign = bool(self.files and re.fullmatch(self.files, look.name, re.DOTALL))
        if self.pairs and has_sign:
            name = swap_suffix(look.path.name, self.pairs[0], known=self.pairs)
            first = look if name == look.path.name else Look(look.path.with_name(name))
            has_sign = bool(re.match(self.magic, first.head, re.DOTALL))
        elif not (self.pairs or has_sign):
            has_sign = bool(self.magic and re.match(self.magic, look.head, re.DOTALL)) or bool(
                self.holds and any(map(re.compile(self.holds).fullmatch, look.names))
            )
        return has_sign and bool(not self.confirm or _find(self.confirm)(look))

    def open(self, paths: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
        """Return the corpus of such files, or of such a path."""
        reader = _find(self.reader)
        if isinstance(reader, type):
            return wanted.open_files(reader, the_only(paths) if self.is_alone else paths)
        opened: Deserializer = reader(paths, wanted)
        return opened


def _find(place: str) -> Callable[..., Any]:
    """Import the object of ``module:name``."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def known_formats() -> list[Format]:
    """Return the formats of the core and of packages in the order in which they are asked."""
    found = list(FORMATS)
    for point in sorted(entry_points("sweephand.formats"), key=lambda one: one.name):
        added: Format = point.load()
        names = [one.name for one in found]
        at = names.index(added.before) if added.before in names else len(found)
        found.insert(at, added)
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
        f"{_OURS}.tokens:open_pairs",
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
        # Not blanks twice in a row: the search would go back among many of them.
        magic=b"(?:%b)?%b(?:\\d+%b)?\\|[a-zA-Z]|%b" % (_BOM, _BLANKS, _BLANKS, _PACKED),
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


_NOTHING = Format("nothing", "")  # a file without content is a shard of any format
_UNKNOWN = Format("no format that is known here", "")


def open(
    place: Files,
    streams: StreamsLike | None = None,
    *,
    chunk_size: int | None = None,
    dtype: str | None = None,
    sequence_length: int | None = None,
    end_of_document: int | None = None,
    index: Keep = "auto",
) -> Deserializer:
    """Open the corpus at a path or URL, whatever its format is.

    Parameters
    ----------
    place : path or URL, or sequence of them
        A file of any format that is read here, a pattern such as ``"*.parquet"`` or
        ``"train-{000..099}.tar"``, a folder of
        such files or of folders ``key=value`` of them, the prefix of Megatron's pairs, a
        TFDS or Hugging Face folder, a Zarr store, or a folder with one of pictures for each
        class; of a TFDS data set without a version the newest. Several are one corpus.
        Each ``.npy`` file is a stream, and ``NAME_offsets`` says where the sequences of
        ``NAME`` begin; files that are alike but for their lengths are a sequence each.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        The streams that are wanted; by default all that the first file shows.
    chunk_size, dtype : optional
        Sequences in a chunk of arrays, by default about 8 MiB; the dtype of bare numbers.
    sequence_length, end_of_document : int, optional
        Of bare numbers and of ``.npy`` files with a row of tokens: the tokens of a sequence, or
        the one that ends every document. Several such files are one corpus.
    index : {"auto", "cache", None}
        As in `ParquetDeserializer`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> np.save("x.npy", np.arange(3))
    >>> sh.MinibatchSource(sh.open("x.npy"), randomize=False).next_minibatch(2)["x"].values
    array([0, 1])
    """
    wanted = Wanted(streams, chunk_size, dtype, sequence_length, index, end_of_document)
    found = look_at(place)
    return found.format.open(found.paths, wanted)


@dataclass(frozen=True)
class Found:
    """Files of one format at a path or several, or folders that are a corpus."""

    format: Format
    paths: Sequence[AnyPath]


def look_at(place: Files) -> Found:
    """Recognise the data at a path or URL, or at several, by names and first bytes."""
    try:
        given = list_paths(place)
    except TypeError as error:
        raise TypeError(f"sh.open takes paths, got {shown(place)}") from error
    paths = [path for one in given for path in paths_like(one)]
    formats = known_formats()
    return _one_format([_look_at_path(path, formats) for path in paths], paths)


def _look_at_path(path: AnyPath, formats: Sequence[Format]) -> Found:
    look = Look(path)
    if look.is_empty:
        return Found(_NOTHING, [path])
    if look.file is None and not path.exists():
        if known := _format_of(look, [known for known in formats if known.pairs]):
            return Found(known, [path])
        reason = f"there is no object or folder {str(path)!r}"
        raise not_found(path) if isinstance(path, Path) else FileNotFoundError(reason)
    if known := _format_of(look, formats):
        return Found(known, [path])
    if look.is_dir:
        return _look_into(path, formats)
    raise ValueError(
        f"{str(path)!r} begins with {look.head[:16]!r} and is of {_UNKNOWN.name}: "
        f"{', '.join(known.name for known in formats)}"
    )


def _format_of(look: Look, among: Sequence[Format]) -> Format | None:
    refuse_pointer(look.head, str(look.path))
    return next((known for known in among if known.is_at(look)), None)


def _look_into(folder: AnyPath, formats: Sequence[Format]) -> Found:
    """Return the files of a folder, which are of one format: that of the first of each kind.

    Without files, those below folders ``key=value``, or the stores in a folder of them.
    """
    files = files_at(folder)
    inner = [] if files else folders_at(folder)
    if not files and not inner:
        raise ValueError(f"the folder {str(folder)!r} is empty")
    if inner and all("=" in one.name for one in inner):
        return _one_format([_look_into(one, formats) for one in inner], [folder])
    if inner:
        for known in formats:
            if known.joins_folders and all(known.is_at(Look(one)) for one in inner):
                return Found(known, inner)
        names = some_of([one.name for one in inner])
        raise ValueError(f"{str(folder)!r} holds but the folders {names}: open one of them")
    of_tar = {f"{file.stem}.idx" for file in files if file.suffix == ".tar"}
    data = [
        one for one in files if not DOCUMENTS.fullmatch(one.name) and one.name not in of_tar
    ]
    kinds: dict[str, list[AnyPath]] = {}  # by suffix, the numbers of shards aside
    for file in data or files:
        kinds.setdefault(re.sub(r"\d+", "0", file.suffix), []).append(file)
    found = []
    for kind in kinds.values():
        look = next((look for look in map(Look, kind) if not look.is_empty), None)
        of_kind = _NOTHING if look is None else _format_of(look, formats)
        found.append(Found(of_kind or _UNKNOWN, kind))
    if len(found) > 1:  # notes beside data are no data
        found = [one for one in found if one.format is not TEXT] or found
    return _one_format(found, [folder])


def _one_format(found: Sequence[Found], places: Sequence[AnyPath]) -> Found:
    files: dict[Format, list[AnyPath]] = {}
    for one in sorted(found, key=lambda one: one.format is _UNKNOWN):
        files.setdefault(one.format, []).extend(one.paths)
    formats = [known for known in files if known is not _NOTHING]
    if not formats:
        raise empty_corpus([str(path) for one in found for path in one.paths])
    if len(formats) > 1 or formats[0] is _UNKNOWN:
        where = some_of([repr(str(place)) for place in places], 2)
        counted = ", ".join(
            f"{known.name} ({some_of([path.name for path in paths], 1)})"
            for known, paths in files.items()
        )
        suffix = next((path.suffix for path in files[formats[0]] if path.suffix), ".jsonl")
        raise ValueError(
            f"{where} holds {counted}; open those of one format by a pattern, such as "
            f"'*{suffix}'"
        )
    return Found(formats[0], [path for one in found for path in one.paths])
