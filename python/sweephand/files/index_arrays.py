"""The arrays of an index, as they are or packed until they are asked for, and its file.

It is a file of records (`run/records.py`): a block whose payload is the header, as JSON, and a
block for each array, whose label is its name and whose payload are its bytes, little endian.

The header has of every array its dtype, shape, how much of it belongs to each file, and in how
many bytes it is packed, if it is: `cpp/index/packed_integers.hpp`; of every file its name, size
and tag; and what the index is of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError
from sweephand.files.local import open_regular
from sweephand.run.records import RecordKind, block_head, pack_block, read_block
from sweephand.run.writing import replaced_file

INDEX = RecordKind(b"SWEEPIDX", 3, "index", "delete it, and it is built again")

_RUN = 1 << 16  # values that are packed at a time

Described = tuple[str, int, str]
"""Name, size and tag of a file."""


@dataclass(frozen=True)
class PackedArray:
    """Integers in a few bytes each: `cpp/index/packed_integers.hpp`."""

    core: _core.index.PackedIntegers  # all of them
    dtype: np.dtype[Any]  # of the integers
    # which of them these are
    begin: int
    end: int

    @classmethod
    def whole(cls, core: _core.index.PackedIntegers, dtype: np.dtype[Any]) -> PackedArray:
        """Return all that is packed."""
        return cls(core, dtype, 0, len(core))

    @property
    def shape(self) -> tuple[int]:
        """Their number."""
        return (len(self),)

    def __len__(self) -> int:
        """Return how many there are."""
        return self.end - self.begin

    def __getitem__(self, part: slice) -> PackedArray:
        """Return a range of them, whose ends are given."""
        begin, end = self.begin + part.start, self.begin + part.stop
        return PackedArray(self.core, self.dtype, begin, end)

    def unpack(self) -> NDArray[Any]:
        """Return the integers as an array."""
        log_bytes = self.dtype.itemsize.bit_length() - 1
        return self.core.read(self.begin, len(self), log_bytes).view(self.dtype)


Arrays = Mapping[str, NDArray[Any]]
Stored = NDArray[Any] | PackedArray


class IndexArrays(Mapping[str, NDArray[Any]]):
    """Arrays by name; a packed array is unpacked at every access."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self.stored = dict(stored)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array of integers as it was before it was packed."""
        return _unpacked(self.stored[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.stored)

    def __len__(self) -> int:
        """Return how many arrays there are."""
        return len(self.stored)


def stored_in(arrays: Arrays) -> Mapping[str, Stored]:
    """Return arrays without unpacking them."""
    return arrays.stored if isinstance(arrays, IndexArrays) else arrays


def unpack_part(array: Stored, begin: int, end: int) -> NDArray[Any]:
    """Unpack a range of an array, without the rest."""
    return _unpacked(array[begin:end])


def join_stored(parts: Sequence[Stored]) -> Stored:
    """Concatenate arrays."""
    if len(parts) == 1:
        return parts[0]
    arrays = [one for one in parts if not isinstance(one, PackedArray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    core = _core.index.PackedIntegers()
    for one in parts:
        core.append(packed_in(one))
    return PackedArray.whole(core, parts[0].dtype)


def pack(array: Stored) -> NDArray[np.uint8] | None:
    """Return integers in fewer bytes, as `PackedIntegers` reads them; None if it takes more."""
    if not isinstance(array, PackedArray) and (array.ndim != 1 or array.dtype.kind not in "iu"):
        return None
    packed = packed_in(array).bytes
    return packed if packed.nbytes < len(array) * array.dtype.itemsize else None


def packed_in(array: Stored) -> _core.index.PackedIntegers:
    """Return integers packed, and nothing beside them."""
    if isinstance(array, PackedArray) and len(array) == len(array.core):
        return array.core
    core = _core.index.PackedIntegers()
    for begin in range(0, len(array), _RUN):
        core.extend(unpack_part(array, begin, min(begin + _RUN, len(array))).astype(np.uint64))
    return core


def _unpacked(array: Stored) -> NDArray[Any]:
    return array.unpack() if isinstance(array, PackedArray) else array


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
    payloads, described = {}, {}
    for name, array in sorted(stored_in(content.arrays).items()):
        packed = pack(array)
        payloads[name] = np.ascontiguousarray(_unpacked(array)) if packed is None else packed
        described[name] = {
            "dtype": array.dtype.newbyteorder("<").str,
            "shape": array.shape,
            "starts": content.starts[name].tolist(),
            "packed": None if packed is None else packed.nbytes,
        }
    header = {
        "meaning": meaning,
        "files": content.described,
        "facts": content.facts,
        "arrays": described,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as out:
        out.write(INDEX.head + pack_block(b"", to_json(header)))
        for name, payload in payloads.items():
            out.write(block_head(name.encode(), payload.data))
            out.write(payload.data)


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
            if not INDEX.begins(file.read(len(INDEX.head))):
                return None
            header = json.loads(bytes(read_block(file)[1]))
            if header["meaning"] != meaning:
                return None
            described = header["arrays"]
            arrays = {name: _array(read_block(file)[1], one) for name, one in described.items()}
    except (DataError, OSError, ValueError):
        return None
    starts = {name: np.array(one["starts"], np.int64) for name, one in described.items()}
    files = [(name, size, tag) for name, size, tag in header["files"]]
    return IndexContent(files, header["facts"], IndexArrays(arrays), starts)


def to_json(value: object) -> bytes:
    """Return a value in the one way that it is written."""
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def digest_of(content: bytes | memoryview) -> str:
    """Return a digest of bytes."""
    digest = _core.base.Digest()
    digest.update(content)
    return digest.hex()


def _array(content: memoryview, described: Mapping[str, Any]) -> Stored:
    """Return an array in memory of its own, which can be freed by itself."""
    dtype, shape = np.dtype(described["dtype"]), described["shape"]
    if described["packed"] is not None:
        held = _core.index.PackedIntegers(np.frombuffer(content, np.uint8), shape[0])
        return PackedArray.whole(held, dtype)
    return np.frombuffer(content.toreadonly(), dtype).reshape(shape)
