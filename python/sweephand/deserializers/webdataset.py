"""Tar archives of samples, as WebDataset and Energon write them, read in place."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from io import BytesIO
from os import fsdecode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import check_dtype
from sweephand.corpus.columns import column_of_bytes
from sweephand.corpus.objects import LACKING, member_at
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.jsonl import JsonField, parse_object
from sweephand.deserializers.npy import parse_header
from sweephand.deserializers.open_path import Look
from sweephand.deserializers.units.line_units import BOM
from sweephand.deserializers.units.records import (
    ArrayHead,
    FoundRecords,
    RecordDeserializer,
    pass_heads,
)
from sweephand.deserializers.units.unit_scan import SampleType
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Index
from sweephand.files.inflate import PACKINGS, FileContents, compression_of
from sweephand.files.local import LocalFile
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_PICKLED = ("pkl", "pickle", "pyd", "pth", "pt")
_BLOCK = 512
_STEP_BYTES = 4 << 20  # of an archive, from one look at Ctrl-C to the next
_GUESSED = 16  # samples that show their fields
_GUESSED_BYTES = 4 << 20  # of a compressed archive, or as many more as a whole sample takes
_WHOLE = 2  # samples of which the first is whole
_KEY = "__key__"
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx")
_JSON = re.compile(r"(?P<member>(?:.*\.)?json)\.(?P<key>.+)")
_HEAD_BYTES = {"npy": 1024, "json": 16 << 20, "number": 64}  # that are looked at


class WebDatasetDeserializer(RecordDeserializer):
    """Serve the samples of tar archives, each a sequence, without unpacking them.

    Adjacent files of an archive with the same path up to the first dot of their name are one
    sample; the part after that dot, in lower case, is the field. A field is one sample of
    ``bytes``, or an empty sequence where it is missing. Folders, links, names without an
    extension and names that begin with a dot are ignored; sparse members are refused.

    Parameters
    ----------
    files, index, ids
        As in `ParquetDeserializer`; archives may be compressed by gzip or zstd. A field of ids
        may be "__key__".
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all fields of the first samples but pickled ones (``pyd``, ``pkl``, ``pth``).
        ``field`` is the extension, such as "jpg" or "seg.png". Arrays, "npy", are sequences of
        their rows, or with ``shape`` of samples of that shape. "cls", "cls2", "class", "count",
        "index" and "inx" are integers. "json.caption" is the value of a key of "json": a
        number, a text, or a list of them. "__key__" is the path without its extension.

    Examples
    --------
    >>> import io, sweephand as sh, tarfile, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train-000000.tar"
    >>> with tarfile.open(path, "w") as archive:
    ...     for name in ("0.txt", "1.txt"):
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len("a cat")
    ...         archive.addfile(member, io.BytesIO(b"a cat"))
    >>> corpus = sh.WebDatasetDeserializer(path)
    >>> source = sh.MinibatchSource(corpus, randomize=False, max_sweeps=1)
    >>> source.next_minibatch(2)["txt"].values
    array([b'a cat', b'a cat'], dtype=object)
    """

    format = "tar 1"

    def contents(self, index: Index) -> Sequence[SourceFile]:
        unpacked = [facts["format"].get("unpacked") for facts in index.facts]
        return [
            self._contents.as_file(file, *one) if one else file
            for file, one in zip(index.files, unpacked, strict=True)
        ]

    @cached_property
    def _contents(self) -> FileContents:
        return FileContents()

    def has_rows(self, file: SourceFile) -> bool:
        """Return False if an archive begins with its end mark."""
        return bool(self._contents.head(file, compression_of(file), _BLOCK).strip(b"\0"))

    def guess_streams(self) -> StreamDefs:
        file = self.first_file
        compression = compression_of(file)
        size, head = _GUESSED_BYTES, None
        while True:
            if compression is not None:  # as if the archive ended there
                head = self._contents.head(file, compression, size)
            with _walk(file, {}, head) as samples:
                try:
                    while samples.walk(samples.at + 1) and len(samples.keys) <= _GUESSED:
                        pass
                except StaleError:
                    raise
                except DataError:
                    if head and len(head) == size and len(samples.keys) < _WHOLE:
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

    def find_all(self, file: SourceFile) -> FoundRecords:
        found = FoundRecords({})
        archive, compression = file, compression_of(file)
        if compression is not None:
            size, members = self._contents.measure(file, compression)
            found.facts = {"unpacked": [compression, size, members]}
            found.content_bytes = size
            archive = self._contents.as_file(file, compression, size, members)
        fields = (_decoding_of(field)[:2] for field in self.fields.values())
        heads = {member: _HEAD_BYTES[how] for member, how in fields if how in _HEAD_BYTES}
        with _walk(archive, heads) as samples:
            try:
                while samples.walk(samples.at + _STEP_BYTES):
                    pass
            except StaleError:
                raise
            except DataError as error:
                found.rest = error  # it cannot be found
        found.num_bytes = np.diff(samples.begins.astype(np.int64), append=samples.at)
        for row, offset, reason in samples.faults:
            found.faults.setdefault(row, DataError(fsdecode(reason), offset=offset))
        for name, field in self.fields.items():
            _add_stream(found, name, field, self.definitions[name], samples)
        return found


@contextmanager
def _walk(
    file: SourceFile,
    heads: dict[str, int],
    head: bytes | None = None,
) -> Iterator[Any]:
    """Open an archive, or what it begins with, for a walk over its headers."""
    if isinstance(file, LocalFile) and head is None:
        source = _core.read.File(file.path, file.core_tag)
        yield _core.formats.TarSamples(source, heads)
        return
    size = file.size if head is None else len(head)
    with open_to_scan(file) if head is None else BytesIO(head) as stream:

        def read_into(offset: int, out: memoryview) -> None:
            stream.seek(offset)
            stream.readinto(out)

        own = _core.read.CallbackBytes(file.path, size, read_into)
        yield _core.formats.TarSamples(own, heads)


def is_tar(look: Look) -> bool:
    """Return True if a file, unpacked if necessary, begins with a header or the end mark."""
    if _core.formats.is_tar_header(look.head[:_BLOCK]):
        return True
    try:
        head = look.content(_BLOCK, PACKINGS)
    except DataError:
        return False
    return _core.formats.is_tar_header(head) or head == bytes(_BLOCK)


def _add_stream(
    found: FoundRecords, name: str, field: str, definition: StreamDef, samples: Any
) -> None:
    """Add one field of all samples; errors of members become faults of their samples."""
    member, decoding, key = _decoding_of(field)
    offsets, sizes, heads, starts = samples.field(member)
    content, cuts = heads.tobytes(), starts.tolist()
    wrong: dict[int, str] = {}
    kind: SampleType | None = None

    def head_of(row: int) -> bytes:
        head: bytes = content[cuts[row] : cuts[row + 1]]
        return head

    def parsed(row: int) -> Any:
        head = head_of(row)
        try:
            if len(head) < sizes[row]:
                raise ValueError(f"has {sizes[row]} bytes; at most {len(head)} are decoded")
            return _number(head) if key is None else _member(head, key)
        except (ValueError, RecursionError) as error:
            wrong[row] = f"{error}"
            return LACKING

    if decoding == "key":
        each: NDArray[np.int64] = np.arange(len(samples.keys) + 1)
        found.held[name] = column_of_bytes(samples.keys, each)
        kind = SampleType.of(found.held[name]) if samples.keys else None
    elif decoding in ("number", "json"):
        values = [parsed(row) if at else LACKING for row, at in enumerate(offsets)]
        own = JsonField(definition.sample_shape or (), definition.dtype)
        found.held[name], faults = own.convert(values)
        wrong, kind = faults | wrong, own.kind
    else:
        begins, num_bytes = offsets.astype(np.int64), sizes.astype(np.int64)
        is_there = begins > 0
        if decoding == "npy":
            first = {row: head_of(row) for row in np.flatnonzero(is_there).tolist()}
            wanted = definition.sample_shape
            kind, wrong = pass_heads(first, _npy_head, wanted, begins, num_bytes)
        elif is_there.any():
            kind = SampleType("bytes", is_ragged=True)
        found.places[name] = np.stack([begins, np.where(is_there, num_bytes, -1)], axis=1)
    if kind is not None:
        found.samples[name] = kind
    for row, reason in wrong.items():
        reason = f"the member {member!r} {reason}"
        lost = DataError(reason, offset=int(offsets[row]), stream=name)
        found.faults.setdefault(row, lost)


def _decoding_of(field: str) -> tuple[str, str, str | None]:
    """Return the member that a field is of, how it is decoded, and the key within it."""
    if field == _KEY:
        return "", "key", None
    if found := _JSON.fullmatch(field):
        return found["member"], "json", found["key"]
    last = field.rpartition(".")[2]
    if last in _NUMBERS:
        return field, "number", None
    return field, "npy" if last == "npy" else "bytes", None


def _number(text: bytes) -> int:
    if not re.fullmatch(rb"\s*-?[0-9]{1,19}\s*", text):
        raise ValueError("holds no integer")
    return int(text)


@lru_cache(maxsize=4)  # of one sample, for several keys
def _parse_object(text: bytes) -> dict[str, Any]:
    # NaN, as json.dumps writes it, is damage of the key alone that holds it.
    return parse_object(text.removeprefix(BOM), read_constant=float)


def _member(text: bytes, key: str) -> Any:
    try:
        return member_at(_parse_object(text), key)
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
