"""The arrays of an index, in as few bytes as their values need, and its file.

It is a file of records (`run/records.py`): a block whose payload is the header, as JSON, and a
block for each array, whose label is its name and whose payload are its bytes, little endian.

The header has of every array its dtype, the narrower one of its bytes, its shape, and how much
of it belongs to each file; of every file its name, size and tag; and what the index is of.
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

INDEX = RecordKind(b"SWEEPIDX", 4, "index", "delete it, and it is built again")

Described = tuple[str, int, str]
"""Name, size and tag of a file."""


Arrays = Mapping[str, NDArray[Any]]


class IndexArrays(Mapping[str, NDArray[Any]]):
    """Arrays by name, of their dtypes when they are asked for, and kept in narrower ones."""

    def __init__(
        self, arrays: Arrays, dtypes: Mapping[str, np.dtype[Any]] | None = None
    ) -> None:
        self.kept = {name: _narrow(one) for name, one in arrays.items()}
        self.dtypes = dtypes or {name: one.dtype for name, one in arrays.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array as it was given."""
        return self.part(name, 0, None)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.kept)

    def __len__(self) -> int:
        """Return how many arrays there are."""
        return len(self.kept)

    def part(self, name: str, begin: int, end: int | None) -> NDArray[Any]:
        """Return a range of an array, without the rest."""
        return self.kept[name][begin:end].astype(self.dtypes[name], copy=False)

    def parts(self, bounds: Mapping[str, tuple[int, int]]) -> IndexArrays:
        """Return a range of each."""
        kept = {name: one[slice(*bounds[name])] for name, one in self.kept.items()}
        return IndexArrays(kept, self.dtypes)


def in_few_bytes(arrays: Arrays) -> IndexArrays:
    """Return arrays as an index keeps them."""
    return arrays if isinstance(arrays, IndexArrays) else IndexArrays(arrays)


def join_arrays(parts: Sequence[Arrays]) -> IndexArrays:
    """Concatenate the arrays of several, name by name."""
    few = [in_few_bytes(one) for one in parts]
    if len(few) == 1:
        return few[0]
    joined = {name: np.concatenate([one.kept[name] for one in few]) for name in few[0]}
    return IndexArrays(joined, few[0].dtypes)


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        return array
    dtype = np.min_scalar_type(int(array.max()))
    return array.astype(dtype) if dtype.itemsize < array.dtype.itemsize else array


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
    few = in_few_bytes(content.arrays)
    payloads = {name: np.ascontiguousarray(few.kept[name]) for name in sorted(few)}
    described = {
        name: {
            "dtype": few.dtypes[name].newbyteorder("<").str,
            "kept": one.dtype.newbyteorder("<").str,
            "shape": one.shape,
            "starts": content.starts[name].tolist(),
        }
        for name, one in payloads.items()
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
    dtypes = {name: np.dtype(one["dtype"]) for name, one in described.items()}
    return IndexContent(files, header["facts"], IndexArrays(arrays, dtypes), starts)


def to_json(value: object) -> bytes:
    """Return a value in the one way that it is written."""
    return json.dumps(value, sort_keys=True, allow_nan=False).encode()


def digest_of(content: bytes | memoryview) -> str:
    """Return a digest of bytes."""
    digest = _core.base.Digest()
    digest.update(content)
    return digest.hex()


def _array(content: memoryview, described: Mapping[str, Any]) -> NDArray[Any]:
    """Return an array in memory of its own, which can be freed by itself."""
    kept = np.frombuffer(content.toreadonly(), np.dtype(described["kept"]))
    return kept.reshape(described["shape"])
