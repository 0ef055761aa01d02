"""Tar archives of samples, as WebDataset and Energon write them, read in place."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os import fsdecode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.casts import check_dtype
from sweephand.corpus.columns import bytes_column, offsets_of
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.deserializers.deserializer import Deserializer
from sweephand.deserializers.formats import Format, Wanted
from sweephand.deserializers.jsonl_columns import LACKING, JsonField
from sweephand.deserializers.npy import NpyHeader, parse_header
from sweephand.deserializers.units.placed import (
    PlacedDeserializer,
    add_held,
    add_placed,
    add_units,
    samples_of,
)
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.deserializers.wds_sidecar import read_sidecar
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance
from sweephand.files.local import LocalFile
from sweephand.files.paths import AnyPath, head_of
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

_KEY = "__key__"
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx")
_PICKLED = ("pkl", "pickle", "pyd", "pth", "pt")
_JSON = re.compile(r"(?P<member>(?:.*\.)?json)\.(?P<key>.+)")
_BLOCK = 512
_STEP_BYTES = 4 << 20  # of an archive, from one look at Ctrl-C to the next
_GUESSED_SAMPLES = 16
_HEAD_BYTES = {"npy": 1024, "json": 16 << 20, "number": 64}  # that are looked at
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
}


class WebDatasetDeserializer(PlacedDeserializer):
    """Serve the samples of tar archives, each a sequence, without unpacking them.

    Files of an archive that lie side by side and have the same path up to the first dot of
    their name are one sample; what follows that dot, in lower case, is the field. A field is
    one sample of ``bytes``; one that a sample lacks is an empty sequence there. The index is
    built in one pass over the headers, or of the one that DALI's ``wds2idx`` wrote beside an
    archive, if it is of that one. Local archives are then mapped into memory and members
    read where they lie, in any order; or, where the source is given a window, in chunks.

    Parameters
    ----------
    files : str, path, or sequence of them
        Paths, globs or URLs of plain archives.
    streams : StreamDefs, dict of StreamDef or list of str, optional
        By default all fields of the first samples. ``field`` is the extension, such as "jpg"
        or "seg.png". Arrays, "npy", are sequences of their rows, or with ``shape`` of samples
        of that shape. "cls", "cls2", "class", "count", "index" and "inx" are integers.
        "json.caption" is the value of a key of "json": a number, a text, or a list of them;
        such values are kept in the index. "__key__" is the path without its extension.
    index : {"auto", "cache", None}
        Where the index is kept: beside the files, or in a cache folder where they cannot be
        written; only there; nowhere, so that it is built again each time.
    ids : str, or sequence of str or int, optional
        Ids of the sequences, by which they are joined: a field, such as "__key__", or one id
        for each sequence.

    Raises
    ------
    FileNotFoundError
        If a file is absent.
    DataError
        When it is opened: if an archive is compressed; beyond ``max_errors`` if a header is
        damaged, the archive is cut, a sample has a field twice or its key came before, or a
        decoded member is not what its name says.

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

    def is_held(self, stream: str) -> bool:
        """Return whether the index holds the values of a stream, rather than their places."""
        return _decoding_of(self.fields[stream])[1] in ("key", "number", "json")

    def guess_streams(self) -> StreamDefs:
        """Return the fields of the first samples."""
        file = self.first_file
        _refuse_compressed(file)
        with _walk(file, {}) as samples:
            try:
                while samples.walk(samples.at + 1) and len(samples.keys) <= _GUESSED_SAMPLES:
                    pass
            except StaleError:
                raise
            except DataError:
                if not samples.fields:
                    raise
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
        heads: dict[str, int] = {}
        for field in self.fields.values():
            member, decoding = _decoding_of(field)[:2]
            heads[member] = max(heads.get(member, 0), _HEAD_BYTES.get(decoding, 0))
        scan = UnitScan()
        wanted = {name: size for name, size in heads.items() if size}
        samples: Any = read_sidecar(file, wanted)
        if samples is None:
            samples = _walk_over(file, wanted, scan, advance)
        else:
            advance(file.size)
        begins = samples.begins.astype(np.int64)
        add_units(scan, np.diff(begins, append=samples.at))
        faults: dict[int, DataError] = {}
        for row, offset, reason in samples.faults:
            faults.setdefault(row, DataError(fsdecode(reason), file.path, offset, sequence=row))
        for name, field in self.fields.items():
            _Members(samples, self.definitions[name], field, file.path).add(scan, name, faults)
        for row, fault in sorted(faults.items()):
            scan.add_error(fault)
            scan.damaged_rows.append(row)
        return scan


class _Members:
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
        """Add the stream; what is wrong with members is put to the faults of their samples."""
        if self._decoding == "key":
            add_held(scan, name, _texts(self._keys), is_known=bool(self._keys))
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
        for part in self._key.split("."):
            if not isinstance(value, dict) or part not in value:
                return LACKING
            value = value[part]
        return value

    def _add_arrays(self, scan: UnitScan, name: str, faults: dict[int, DataError]) -> None:
        lengths = np.zeros(len(self._offsets), np.int64)
        begins, sizes = lengths.copy(), lengths.copy()
        known: SampleType | None = None
        for row, offset in enumerate(self._offsets.tolist()):
            if not offset:
                continue
            try:
                head = self._head(row)
                known_head = head[: 10 + int.from_bytes(head[8:10], "little")]
                header = _npy_header(known_head, int(self._sizes[row]))
                kind, lengths[row] = self._kind_of(header)
                if known is not None and kind != known:
                    raise ValueError(f"holds {kind}, and {known} in other samples")
            except (DataError, ValueError, TypeError) as error:
                reason = error.reason if isinstance(error, DataError) else f"{error}"
                faults.setdefault(row, self._fault(name, row, reason))
                lengths[row] = 0
                continue
            known = kind
            begins[row] = offset + header.offset
            sizes[row] = self._sizes[row] - header.offset
        sizes[lengths == 0] = 0
        add_placed(scan, name, known, lengths, begins, sizes)

    def _kind_of(self, header: NpyHeader) -> tuple[SampleType, int]:
        """Return what the samples of an array are, and how many there are."""
        check_dtype("the array", header.dtype)
        if not header.dtype.isnative:
            raise ValueError(f"is big-endian ({header.dtype.str}); save it in native order")
        return samples_of(header.dtype, header.shape, self._definition.sample_shape)

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


def _walk_over(
    file: SourceFile, heads: dict[str, int], scan: UnitScan, advance: Advance
) -> Any:
    """Return what the headers of a whole archive tell."""
    with _walk(file, heads) as samples:
        told = 0
        try:
            while samples.walk(samples.at + _STEP_BYTES):
                advance(samples.at - told)
                told = samples.at
        except StaleError:
            raise
        except DataError as error:
            scan.add_error(error)  # what follows cannot be found
        advance(file.size - told)
    return samples


@contextmanager
def _walk(file: SourceFile, heads: dict[str, int]) -> Iterator[Any]:
    """Open an archive to go over its headers, by few requests where it lies in a store."""
    if isinstance(file, LocalFile):
        source = _core.read.File(file.path, file.core_tag)
        yield _core.formats.TarSamples(source, heads)
        return
    with open_to_scan(file) as stream:

        def read_into(offset: int, out: memoryview) -> None:
            stream.seek(offset)
            stream.readinto(out)

        remote = _core.read.CallbackBytes(file.path, file.size, read_into)
        yield _core.formats.TarSamples(remote, heads)


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


@lru_cache(maxsize=1024)  # most arrays of a corpus are alike
def _npy_header(head: bytes, size: int) -> NpyHeader:
    return parse_header(io.BytesIO(head), size, "")


def _texts(texts: Sequence[bytes]) -> Any:
    content = np.frombuffer(b"".join(texts), np.uint8)
    ones: NDArray[np.int64] = np.arange(len(texts) + 1)
    return bytes_column(content, offsets_of([len(text) for text in texts]), ones)


def _refuse_compressed(file: SourceFile) -> None:
    head = file.read(0, min(file.size, 8)).tobytes()
    for magic, (name, command) in _COMPRESSED.items():
        if head.startswith(magic):
            raise DataError(
                f"the archive is compressed by {name}, so that no member can be found in it; "
                f"unpack it to a plain one, as '{command}' does",
                file.path,
                0,
            )


def _is_tar(path: AnyPath) -> bool:
    return _core.formats.is_tar_header(head_of(path, _BLOCK))


def _open(files: Sequence[AnyPath], wanted: Wanted) -> Deserializer:
    return wanted.open_files(WebDatasetDeserializer, files)


FORMAT = Format("WebDataset", _is_tar, _open)
