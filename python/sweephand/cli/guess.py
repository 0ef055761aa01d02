"""The streams of files that nobody declared, told by how the files begin."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.errors import DataError
from sweephand.files.inflate import InflatedFile, find_compression
from sweephand.files.remote_path import AnyPath, open_file, stat_all

_HEAD_BYTES = 1 << 20
_FREE_DIMENSION = 2**31 - 1  # of sparse streams, whose text does not tell it
_RECORD_HEAD = 12


def head_of(path: AnyPath, size: int) -> bytes:
    """Return the first bytes of a file; none of a folder."""
    if not path.is_file():
        return b""
    with open_file(path) as file:
        return file.read(size) or b""


# -- CNTK's text --
def is_ctf(path: AnyPath) -> bool:
    """Return whether a file begins as CNTK's text does."""
    line = head_of(path, 4096).removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    before, bar, after = line.partition(b"|")
    return bool(bar) and (not before or before.strip().isdigit()) and after[:1].isalpha()


def ctf_streams(path: AnyPath) -> StreamDefs:
    """Return the streams of the first lines: dense ones of their width, or sparse ones."""
    streams: dict[str, StreamDef] = {}
    head, _, _ = head_of(path, _HEAD_BYTES).rpartition(b"\n")
    for line in (head or head_of(path, _HEAD_BYTES)).splitlines():
        for sample in line.decode(errors="replace").split("|")[1:]:
            name, *values = sample.split() or ["#"]
            if name.startswith("#") or name in streams or not values:
                continue
            is_sparse = ":" in values[0]
            shape = _FREE_DIMENSION if is_sparse else len(values)
            streams[name] = StreamDef(field=name, shape=shape, is_sparse=is_sparse)
    if not streams:
        raise DataError("the first lines have no sample that tells a stream", str(path))
    return StreamDefs(**streams)


# -- records --
def is_tfrecord(path: AnyPath) -> bool:
    """Return whether a file, unpacked if need be, begins with the head of a record."""
    try:
        head = _first_bytes(path, _RECORD_HEAD)
        _core.formats.FrameFinder(str(path)).feed(0, np.frombuffer(head, np.uint8))
    except DataError:
        return False
    return len(head) == _RECORD_HEAD


def record_streams(path: AnyPath) -> StreamDefs:
    """Return the features of the first record."""
    length = int.from_bytes(_first_bytes(path, 8), "little")
    record = _first_bytes(path, _RECORD_HEAD + length)[_RECORD_HEAD:]
    try:
        keys = [key.decode() for key in _feature_keys(record)]
    except (ValueError, IndexError) as error:
        reason = f"the first record is no tf.train.Example: {error}"
        raise DataError(reason, str(path)) from None
    if not keys:
        raise DataError("the first record has no features", str(path))
    return StreamDefs(**{key: StreamDef() for key in sorted(keys)})


def _first_bytes(path: AnyPath, size: int) -> bytes:
    if not path.is_file():
        return b""
    (file,) = stat_all([path])
    head = head_of(path, size)
    packing = find_compression(file)
    if packing is None or _is_record_head(head[:_RECORD_HEAD]):
        return head
    return InflatedFile(file, packing, 200).read(0, size).tobytes()


def _is_record_head(head: bytes) -> bool:
    checksum = int.from_bytes(head[8:12], "little")
    return (
        len(head) == _RECORD_HEAD
        and _core.formats.mask_crc(_core.formats.crc32c(head[:8])) == checksum
    )


def _feature_keys(record: bytes) -> list[bytes]:
    """Return the keys of the map in the first field of an example."""
    entries = [
        entry for features in _fields(record).get(1, []) for entry in _fields(features)[1]
    ]
    return [_fields(entry)[1][-1] for entry in entries]


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the fields of bytes of a message, by their numbers."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, at = _varint(message, at)
        found.setdefault(tag >> 3, []).append(message[at : at + length])
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
        shift += 7


# -- JSON lines --
def is_jsonl(path: AnyPath) -> bool:
    """Return whether a file begins with an object."""
    return head_of(path, 64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def jsonl_streams(path: AnyPath) -> StreamDefs:
    """Return the fields of the first line that hold numbers, text or lists of them."""
    line = head_of(path, 64 * _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        first: dict[str, Any] = dict(json.loads(line.partition(b"\n")[0]))
    except (TypeError, ValueError) as error:
        reason = f"the first line is no JSON object: {error}"
        raise DataError(reason, str(path), line=1) from None
    streams = {}
    for name, value in first.items():
        array = np.array(value) if _is_servable(value) else None
        if array is not None:
            streams[name] = StreamDef(shape=array.shape[1:] if array.ndim > 1 else None)
    if not streams:
        raise DataError("the first line has no numbers and no text", str(path), line=1)
    return StreamDefs(**streams)


def _is_servable(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_servable(item) for item in value)
    return isinstance(value, int | float | str)


# -- Arrow --
def schema_streams(schema: Any) -> StreamDefs:
    """Return the columns of a schema that can be served."""
    from sweephand.deserializers.units.arrow_columns import convert
    from sweephand.deserializers.units.arrow_units import empty_batch

    batch = empty_batch(schema)
    streams = {}
    for name in schema.names:
        try:
            convert(batch.column(name), None)
        except (TypeError, ValueError):
            continue
        streams[name] = StreamDef()
    return StreamDefs(**streams)
