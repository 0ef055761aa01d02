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
import re
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
_DTYPE = re.compile(r"[<|][biuf][1248]")

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

    Of no use are damaged files, as they can be built again, files that no writer can have
    written, and files of a user outside `owners`: the writer of an index decides which bytes
    are read.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_uid not in owners:
                return None
            header = _read_header(file)
            if header["meaning"] != meaning:
                return None
            files = _check_files(header["files"])
            facts = _checked(header["facts"], list, dict)
            if len(facts) != len(files):
                raise ValueError("facts of other files")
            arrays: dict[str, Stored] = {}
            starts = {}
            for name, one in _checked(header["arrays"], dict, dict).items():
                arrays[name] = _read_array(file, name, one)
                starts[name] = _check_starts(one["starts"], len(files), len(arrays[name]))
        return IndexContent(files, facts, IndexArrays(arrays), starts)
    except (DataError, OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    except (RecursionError, MemoryError, OverflowError):  # JSON may be as deep as it is long
        return None


def meaning_of(path: Path) -> Mapping[str, Any] | None:
    """Return the meaning of an index file; None if it is none, or damaged."""
    try:
        with open_regular(path) as file:
            meaning = _read_header(file)["meaning"]
    except (DataError, OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        return None
    return meaning if isinstance(meaning, dict) else None


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
    found: dict[str, Any] = _checked(json.loads(bytes(header)), dict)
    return found


def _checked(value: Any, kind: type, inner: type | None = None) -> Any:
    """Return a value if it, and all that it holds, is of a type."""
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected")
    if inner is not None:
        held: Any = value.values() if isinstance(value, dict) else value
        if {*map(type, held)} - {inner}:
            raise TypeError(f"{inner.__name__} expected")
    return value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _check_files(value: Any) -> list[Described]:
    files = [(name, size, tag) for name, size, tag in _checked(value, list)]
    names, sizes, tags = zip(*files, strict=True)
    if {*map(type, names), *map(type, tags)} != {str} or not all(map(_is_count, sizes)):
        raise TypeError("no description of a file")
    if len(set(files)) < len(files):
        raise ValueError("one of the files twice")
    return files


def _check_starts(value: Any, num_files: int, length: int) -> NDArray[np.int64]:
    if set(map(type, _checked(value, list))) != {int}:
        raise TypeError("no places")
    starts = np.array(value, np.int64)
    is_rising = len(starts) == num_files + 1 and bool((starts[1:] >= starts[:-1]).all())
    if not is_rising or starts[0] != 0 or starts[-1] != length:
        raise ValueError("parts of files that cannot be")
    return starts


def _plain(array: Stored) -> NDArray[Any]:
    return np.ascontiguousarray(array.unpack() if isinstance(array, PackedArray) else array)


def _read_array(file: BinaryIO, name: str, described: Mapping[str, Any]) -> Stored:
    """Return an array in memory of its own, which can be freed by itself."""
    if not _DTYPE.fullmatch(described["dtype"]):
        raise ValueError("no dtype of an index")
    dtype = np.dtype(described["dtype"])
    shape = _checked(described["shape"], list)
    if not shape or not all(map(_is_count, shape)) or 0 in shape[1:]:
        raise ValueError("no shape of an index")
    packed = described["packed"]
    label, content = read_block(file)
    if label != name.encode():
        raise ValueError("another array")
    if packed is not None:
        if dtype.kind not in "iu" or len(shape) != 1 or packed != len(content):
            raise ValueError("no integers that can be packed")
        held = _core.index.PackedIntegers(np.frombuffer(content, np.uint8), shape[0])
        return PackedArray.whole(held, dtype)
    return np.frombuffer(content.toreadonly(), dtype).reshape(shape)
