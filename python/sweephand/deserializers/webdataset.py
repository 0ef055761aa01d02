"""Tar archives of samples, as WebDataset and Energon write them, read in place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, lru_cache
from io import BufferedReader, BytesIO
from os import fsdecode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import check_dtype
from sweephand.corpus.columns import column_of_bytes
from sweephand.corpus.objects import LACKING, Unusable, member_at
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.format import Look
from sweephand.deserializers.jsonl import JsonField
from sweephand.deserializers.npy import parse_header
from sweephand.deserializers.units.records import (
    ArrayHead,
    PlacedDeserializer,
    add_held,
    add_placed,
    add_units,
    pass_heads,
)
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.contents import PACKINGS, FileContents, compression_of
from sweephand.files.index_file import Advance, Index
from sweephand.files.local import LocalFile
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_PICKLED = ("pkl", "pickle", "pyd", "pth", "pt")
_BLOCK = 512
_STEP_BYTES = 4 << 20  # of an archive, from one look at Ctrl-C to the next
_GUESSED_SAMPLES = 16
_GUESSED_BYTES = 4 << 20  # of a compressed archive, or as many more as a whole sample takes
_WHOLE = 2  # samples of which the first is whole
_COMPRESSED = {
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
}


_KEY = "__key__"
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx")
_JSON = re.compile(r"(?P<member>(?:.*\.)?json)\.(?P<key>.+)")
_HEAD_BYTES = {"npy": 1024, "json": 16 << 20, "number": 64}  # that are looked at


class WebDatasetDeserializer(PlacedDeserializer):
    """Serve the samples of tar archives, each a sequence, without unpacking them.

    Adjacent files of an archive with the same path up to the first dot of their name are one
    sample; the part after that dot, in lower case, is the field. A field is one sample of
    ``bytes``; a missing field is an empty sequence. The index is built in one pass over the
    headers. Local archives are then mapped into memory and members read in place, in any order,
    or in chunks if the source has a window.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs of archives: plain, or compressed by gzip or zstd. Compressed ones
        are decompressed once for the index and again, chunk by chunk, on demand.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all fields of the first samples. ``field`` is the extension, such as "jpg"
        or "seg.png". Arrays, "npy", are sequences of their rows, or with ``shape`` of samples
        of that shape. "cls", "cls2", "class", "count", "index" and "inx" are integers.
        "json.caption" is the value of a key of "json": a number, a text, or a list of them;
        such values are kept in the index. "__key__" is the path without its extension.
    index, ids
        As in `ParquetDeserializer`; a field of ids may be "__key__".

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if an archive is compressed in another way, or its compressed bytes
        are damaged; beyond ``max_errors`` if a header is damaged, the archive is cut, a sample
        has a field twice or repeats a key, or a decoded member contradicts its name.

    Notes
    -----
    Folders, links, names without an extension and names that begin with a dot are ignored.
    Pickled fields (``pyd``, ``pkl``, ``pth``) are left out; one that is named is served as
    ``bytes``. Long names and sizes of GNU and pax are read; sparse members are refused.

    References
    ----------
    https://github.com/webdataset/webdataset

    Examples
    --------
    >>> import io, sweephand as sh, tarfile, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train-000000.tar"
    >>> with tarfile.open(path, "w") as archive:
    ...     for name, content in {"0.txt": b"a cat", "0.cls": b"3", "1.txt": b"a dog"}.items():
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(content)
    ...         archive.addfile(member, io.BytesIO(content))
    >>> corpus = sh.WebDatasetDeserializer(path)
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> minibatch = source.next_minibatch(2)
    >>> minibatch["txt"].values, minibatch["cls"].as_sequences()
    (array([b'a cat', b'a dog'], dtype=object), [array([3]), array([], dtype=int64)])
    """

    format = "tar 1"

    def contents(self, index: Index) -> Sequence[SourceFile]:
        """Return the archives, unpacked where they are compressed."""
        files: list[SourceFile] = []
        for file, facts in zip(index.files, index.facts, strict=True):
            if (unpacked := facts["format"].get("unpacked")) is not None:
                file = self._contents.as_file(file, *unpacked)
            files.append(file)
        return files

    @cached_property
    def _contents(self) -> FileContents:
        return FileContents()

    def is_held(self, stream: str) -> bool:
        """Return True if the index holds the values of a stream, rather than their places."""
        return is_held(self.fields[stream])

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if an archive begins with its end mark."""
        return bool(self._contents.head(file, compression_of(file), _BLOCK).strip(b"\0"))

    def guess_streams(self) -> StreamDefs:
        """Return the fields of the first samples."""
        file = self.first_file
        _refuse_compressed(file)
        compression = compression_of(file)
        with ExitStack() as stack:
            size = _GUESSED_BYTES
            while True:
                if compression is None:
                    head, samples = b"", stack.enter_context(_walk(file, {}))
                else:  # as if the archive ended there
                    head = self._contents.head(file, compression, size)
                    samples = _samples_in(BytesIO(head), file.path, len(head), {})
                try:
                    while (
                        samples.walk(samples.at + 1) and len(samples.keys) <= _GUESSED_SAMPLES
                    ):
                        pass
                except StaleError:
                    raise
                except DataError:
                    if len(head) == size and len(samples.keys) < _WHOLE:
                        size *= 4
                        continue
                    if not samples.fields:
                        raise
                break
        fields = [fsdecode(name) for name in samples.fields]
        self.left_out = {
            name: "it holds pickled objects, which are never loaded"
            for name in fields
            if name.rpartition(".")[2] in _PICKLED
        }
        if not fields:
            raise DataError("the archive holds no file whose name has an extension", file.path)
        return StreamDefs({name: StreamDef() for name in fields if name not in self.left_out})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Go over the headers once."""
        _refuse_compressed(file)
        scan = UnitScan()
        heads = heads_of(self.fields.values())
        packed, compression = file, compression_of(file)
        if compression is not None:
            size, members = self._contents.measure(file, compression)
            scan.facts = {"unpacked": [compression, size, members]}
            file = self._contents.as_file(file, compression, size, members)
        samples = _walk_over(file, heads, scan, advance, packed.size)
        begins = samples.begins.astype(np.int64)
        add_units(scan, np.diff(begins, append=samples.at))
        faults: dict[int, DataError] = {}
        for row, offset, reason in samples.faults:
            faults.setdefault(row, DataError(fsdecode(reason), file.path, offset, sequence=row))
        for name, field in self.fields.items():
            Members(samples, self.definitions[name], field, file.path).add(scan, name, faults)
        scan.add_faults(faults)
        return scan


def _walk_over(
    file: SourceFile, heads: dict[str, int], scan: UnitScan, advance: Advance, stored: int
) -> Any:
    """Walk the headers of a whole archive, stored in `stored` bytes; return its samples."""
    with _walk(file, heads) as samples:
        reported = 0
        try:
            while samples.walk(samples.at + _STEP_BYTES):
                now = samples.at * stored // max(1, file.size)
                advance(now - reported)
                reported = now
        except StaleError:
            raise
        except DataError as error:
            scan.add_error(error)  # the rest cannot be found
        advance(stored - reported)
    return samples


@contextmanager
def _walk(file: SourceFile, heads: dict[str, int]) -> Iterator[Any]:
    """Open an archive for a walk over its headers, by few requests if it is remote."""
    if isinstance(file, LocalFile):
        source = _core.read.File(file.path, file.core_tag)
        yield _core.formats.TarSamples(source, heads)
        return
    with open_to_scan(file) as stream:
        yield _samples_in(stream, file.path, file.size, heads)


def _samples_in(
    stream: BytesIO | BufferedReader, path: str, size: int, heads: dict[str, int]
) -> Any:
    def read_into(offset: int, out: memoryview) -> None:
        stream.seek(offset)
        stream.readinto(out)

    return _core.formats.TarSamples(_core.read.CallbackBytes(path, size, read_into), heads)


def _refuse_compressed(file: SourceFile) -> None:
    head = file.head(8)
    for magic, (name, command) in _COMPRESSED.items():
        if head.startswith(magic):
            raise DataError(
                f"the archive is compressed by {name}, so that no member can be found in it; "
                f"unpack it to a plain one, as '{command}' does",
                file.path,
                0,
            )


def is_tar(look: Look) -> bool:
    """Return True if a file, unpacked if necessary, begins with a header or the end mark."""
    if _core.formats.is_tar_header(look.head[:_BLOCK]):
        return True
    try:
        head = look.content(_BLOCK, PACKINGS)
    except DataError:
        return False
    return _core.formats.is_tar_header(head) or head == bytes(_BLOCK)


def is_held(field: str) -> bool:
    """Return True if the index holds the values of a field, rather than their places."""
    return _decoding_of(field)[1] in ("key", "number", "json")


def heads_of(fields: Iterable[str]) -> dict[str, int]:
    """Return the members that fields are of, and how much of each is looked at."""
    heads: dict[str, int] = {}
    for field in fields:
        member, decoding = _decoding_of(field)[:2]
        heads[member] = max(heads.get(member, 0), _HEAD_BYTES.get(decoding, 0))
    return {member: size for member, size in heads.items() if size}


class Members:
    """One field of all samples of an archive."""

    def __init__(self, samples: Any, definition: StreamDef, field: str, path: str) -> None:
        self._member, self._decoding, self._key = _decoding_of(field)
        self._keys = samples.keys if self._decoding == "key" else []
        self._definition = definition
        self._path = path
        self._field = field
        self._offsets, self._sizes, heads, starts = samples.field(self._member)
        self._heads: bytes = heads.tobytes()
        self._starts = starts.tolist()

    def add(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        """Add the stream; errors of members become faults of their samples."""
        if self._decoding == "key":
            each: NDArray[np.int64] = np.arange(len(self._keys) + 1)
            column = column_of_bytes(self._keys, each)
            add_held(scan, name, column, is_known=bool(self._keys))
        elif self._decoding in ("number", "json"):
            self._add_parsed(scan, name, faults)
        elif self._decoding == "npy":
            self._add_arrays(scan, name, faults)
        else:
            is_there = self._offsets > 0
            kind = SampleType("bytes", is_ragged=True) if is_there.any() else None
            add_placed(scan, name, kind, is_there, self._offsets, self._sizes)

    def _add_parsed(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        parse = _number if self._decoding == "number" else self._parse_json
        values: list[Any] = []
        for row, offset in enumerate(self._offsets.tolist()):
            values.append(LACKING)
            if offset:
                try:
                    values[-1] = parse(self._head(row))
                except (ValueError, RecursionError) as error:
                    faults.setdefault(row, self._fault(name, row, f"{error}"))
        shape = self._definition.sample_shape or ()
        field = JsonField(shape, self._definition.dtype)
        column, wrong = field.convert(values)
        for row, reason in wrong.items():
            faults.setdefault(row, self._fault(name, row, reason))
        add_held(scan, name, column, is_known=field.dtype is not None)

    def _parse_json(self, text: bytes) -> Any:
        value = _parse_object(text)
        found = member_at(value, self._key) if isinstance(value, dict) else LACKING
        return LACKING if isinstance(found, Unusable) else found

    def _add_arrays(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        begins, sizes = self._offsets.astype(np.int64), self._sizes.astype(np.int64)
        heads = {row: self._head(row) for row in np.flatnonzero(begins).tolist()}
        wanted = self._definition.sample_shape
        kind, wrong = pass_heads(heads, _npy_head, wanted, begins, sizes)
        for row, reason in wrong.items():
            faults.setdefault(row, self._fault(name, row, reason))
        lengths = sizes if kind is None else sizes // kind.sample_bytes
        add_placed(scan, name, kind, lengths, begins, sizes)

    def _head(self, row: int) -> bytes:
        head = self._heads[self._starts[row] : self._starts[row + 1]]
        if len(head) < self._sizes[row] and self._decoding != "npy":
            raise ValueError(f"has {self._sizes[row]} bytes; at most {len(head)} are decoded")
        return head

    def _fault(self, name: str, row: int, reason: str) -> DataError:
        return DataError(
            f"the member {self._member!r} {reason}",
            self._path,
            int(self._offsets[row]),
            stream=name,
            sequence=row,
        )


def _decoding_of(field: str) -> tuple[str, str, str]:
    """Return the member that a field is of, how it is decoded, and the key within it."""
    if field == _KEY:
        return "", "key", ""
    if found := _JSON.fullmatch(field):
        return found["member"], "json", found["key"]
    last = field.rpartition(".")[2]
    if last in _NUMBERS:
        return field, "number", ""
    return field, "npy" if last == "npy" else "bytes", ""


def _number(text: bytes) -> int:
    if not re.fullmatch(rb"\s*-?[0-9]{1,19}\s*", text):
        raise ValueError("holds no integer")
    return int(text)


@lru_cache(maxsize=4)  # of one sample, for several keys
def _parse_object(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON: {error}") from None


def _npy_head(head: bytes, size: int) -> ArrayHead:
    return _known_npy_head(head[: 10 + int.from_bytes(head[8:10], "little")], size)


@lru_cache(maxsize=1024)  # most arrays of a corpus are alike
def _known_npy_head(head: bytes, size: int) -> ArrayHead:
    header = parse_header(io.BytesIO(head), size, "")
    check_dtype("the array", header.dtype)
    if not header.dtype.isnative:
        raise ValueError(f"is big-endian ({header.dtype.str}); save it in native order")
    return header.offset, header.dtype, header.shape
