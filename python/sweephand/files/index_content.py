"""The bytes of an index file, checked before any of it is believed.

It is a file of records (`run/records.py`): a block whose payload is the header, as JSON, and a
block for each array, whose label is its name and whose payload are its bytes, little endian.

The header has of every array its dtype, shape, how much of it belongs to each file, and in how
many bytes it is packed, if it is: `cpp/index/packed_integers.hpp`; of every file its name, size
and tag; and what the index is of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files.index_arrays import IndexArrays, PackedArray, Stored, pack, stored_in
from sweephand.files.local import open_regular
from sweephand.run.records import RecordKind, block_head, pack_block, read_block
from sweephand.run.writing import replaced_file

INDEX = RecordKind(b"SWEEPIDX", 3, "index", "delete it, and it is built again")

Arrays = Mapping[str, NDArray[Any]]
Described = tuple[str, int, str]
"""Name, size and tag of a file."""


@dataclass(frozen=True)
class IndexContent:
    """Content of an index file."""

    described: Sequence[Described]  # the files that it is of
    facts: Sequence[Mapping[str, Any]]  # one per file
    arrays: Arrays  # each concatenated over all files; read-only
    # where each file's part of an array begins, and the end
    starts: Mapping[str, NDArray[np.int64]]


def write_index(path: Path, content: IndexContent, meaning: Mapping[str, Any]) -> None:
    """Write to a name of its own, to the disk, and rename: readers see all of it or nothing."""
    stored = sorted(stored_in(content.arrays).items())
    packed = {name: pack(one) for name, one in stored}
    arrays = {
        name: _plain(one) if (few := packed[name]) is None else few for name, one in stored
    }
    described = {
        name: {
            "dtype": one.dtype.newbyteorder("<").str,
            "shape": one.shape,
            "starts": content.starts[name].tolist(),
            "packed": None if packed[name] is None else arrays[name].nbytes,
        }
        for name, one in stored
    }
    header = to_json(
        {
            "meaning": meaning,
            "files": content.described,
            "facts": content.facts,
            "arrays": described,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as out:
        out.write(INDEX.head + pack_block(b"", header))
        for name, array in arrays.items():
            out.write(block_head(name.encode(), array.data))
            out.write(array.data)


def read_index(
    path: Path, meaning: Mapping[str, Any], owners: Collection[int]
) -> IndexContent | None:
    """Return the content of an index file; None if it is absent or of no use.

    Of no use are damaged files, as they can be built again, and files of a user outside
    `owners`: the writer of an index decides which bytes are read. An index without
    damage is believed.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_uid not in owners:
                return None
            header = _read_header(file)
            if header["meaning"] != meaning:
                return None
            files = [(name, size, tag) for name, size, tag in header["files"]]
            described = header["arrays"]
            arrays = {name: _read_array(file, one) for name, one in described.items()}
            starts = {
                name: np.array(one["starts"], np.int64) for name, one in described.items()
            }
        return IndexContent(files, header["facts"], IndexArrays(arrays), starts)
    except (DataError, OSError, ValueError):
        return None


def meaning_of(path: Path) -> Mapping[str, Any] | None:
    """Return the meaning of an index file; None if it is none, or damaged."""
    try:
        with open_regular(path) as file:
            meaning: Mapping[str, Any] = _read_header(file)["meaning"]
    except (DataError, OSError, ValueError):
        return None
    return meaning


def to_json(value: object) -> bytes:
    """Return a value in the one way that it is written."""
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def digest_of(content: bytes | memoryview) -> str:
    """Return a digest of bytes."""
    digest = _core.base.Digest()
    digest.update(content)
    return digest.hex()


def _read_header(file: BinaryIO) -> dict[str, Any]:
    if not INDEX.begins(file.read(len(INDEX.head))):
        raise ValueError("no index of this version")
    _, header = read_block(file)
    found: dict[str, Any] = json.loads(bytes(header))
    return found


def _plain(array: Stored) -> NDArray[Any]:
    return np.ascontiguousarray(array.unpack() if isinstance(array, PackedArray) else array)


def _read_array(file: BinaryIO, described: Mapping[str, Any]) -> Stored:
    """Return an array in memory of its own, which can be freed by itself."""
    dtype, shape = np.dtype(described["dtype"]), described["shape"]
    _, content = read_block(file)
    if described["packed"] is not None:
        held = _core.index.PackedIntegers(np.frombuffer(content, np.uint8), shape[0])
        return PackedArray.whole(held, dtype)
    return np.frombuffer(content.toreadonly(), dtype).reshape(shape)
