"""A file of chunks that a map made, which are read as if they were stored so.

::

    | "SWEEPMAP" | digest of what was mapped: 32 hex digits | chunk | chunk | ...
    chunk:  u64 bytes of the header | u32 crc32c of it | header: JSON | array | array | ...

Numbers are little endian. The header says of every stream its dtype, the shape and number of
its samples, and of every array its dtype, length and crc32c. The first arrays of a chunk are
how many sequences were made of each that is stored there, and their sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData
from sweephand.errors import DataError

_MAGIC = b"SWEEPMAP"
_HEAD = len(_MAGIC) + 32
_ARRAYS = ("values", "sample_offsets", "element_offsets", "indices")
_DAMAGED = "the file that keeps what a map made is damaged; delete it, and it is made again"


@dataclass(frozen=True)
class MadeChunk:
    """What a map made of the sequences of a chunk.

    Attributes
    ----------
    counts : ndarray of uint32, shape (stored sequences,)
        How many sequences it made of each.
    sizes : ndarray of uint32, shape (sequences made,)
    columns : list of ColumnData
        One per stream; none if nothing was made.
    several : bool
        Whether the map returned lists.
    """

    counts: NDArray[np.uint32]
    sizes: NDArray[np.uint32]
    columns: Sequence[ColumnData]
    several: bool


def begin_file(file: BinaryIO, digest: str) -> list[int]:
    """Return where the chunks of an unfinished file begin, and stand behind them.

    What is of something else, or damaged, is cut off.
    """
    offsets: list[int] = []
    if file.read(_HEAD) != _MAGIC + digest.encode():
        file.seek(0)
        file.truncate()
        file.write(_MAGIC + digest.encode())
        return offsets
    end = _HEAD
    while True:
        try:
            read_chunk(file, end)
        except DataError:
            break
        offsets.append(end)
        end = file.tell()
    file.seek(end)
    file.truncate()
    return offsets


def write_chunk(file: BinaryIO, chunk: MadeChunk) -> None:
    """Append a chunk."""
    arrays: list[NDArray[Any]] = [chunk.counts, chunk.sizes]
    streams = []
    for column in chunk.columns:
        held = {name: getattr(column, name) for name in _ARRAYS}
        streams.append(
            {
                "dtype": column.dtype.str,
                "shape": column.shape,
                "num_samples": column.num_samples,
                "arrays": [name for name, array in held.items() if array is not None],
            }
        )
        arrays += [array for array in held.values() if array is not None]
    plain = [np.ascontiguousarray(array) for array in arrays]
    told = [[one.dtype.str, one.size, _core.formats.crc32c(one.data)] for one in plain]
    facts = {"streams": streams, "arrays": told, "several": chunk.several}
    header = json.dumps(facts, allow_nan=False).encode()
    crc = _core.formats.crc32c(header)
    file.write(len(header).to_bytes(8, "little") + crc.to_bytes(4, "little") + header)
    for array in plain:
        file.write(array.data)


def read_chunk(file: BinaryIO, offset: int) -> MadeChunk:
    """Read a chunk, and stand behind it.

    Raises
    ------
    DataError
        If the bytes are not those that were written.
    """
    file.seek(offset)
    try:
        head = _read(file, 12)
        header = _read(file, int.from_bytes(head[:8], "little"))
        if _core.formats.crc32c(header.data) != int.from_bytes(head[8:], "little"):
            raise ValueError("header")
        told = json.loads(header.tobytes())
        arrays = iter([_read_array(file, *one) for one in told["arrays"]])
        counts, sizes = next(arrays), next(arrays)
        columns = [_column(one, arrays) for one in told["streams"]]
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataError(_DAMAGED, str(getattr(file, "name", "")), offset) from error
    return MadeChunk(counts, sizes, columns, bool(told["several"]))


def _column(told: dict[str, Any], arrays: Iterator[NDArray[Any]]) -> ColumnData:
    held: dict[str, Any] = {name: next(arrays) for name in told["arrays"]}
    shape = tuple(told["shape"])
    values = held.get("values")
    if values is not None and "element_offsets" not in held:
        held["values"] = values.reshape(told["num_samples"], *shape)
    return ColumnData(
        values=held.pop("values", None),
        dtype=np.dtype(told["dtype"]),
        shape=shape,
        num_samples=told["num_samples"],
        **held,
    )


def _read(file: BinaryIO, size: int) -> NDArray[np.uint8]:
    if not 0 <= size < 1 << 40:
        raise ValueError("size")
    found = np.empty(size, np.uint8)
    if file.readinto(found.data) != size:  # type: ignore[attr-defined]
        raise ValueError("the file ends")
    return found


def _read_array(file: BinaryIO, dtype: str, size: int, crc: int) -> NDArray[Any]:
    kind = np.dtype(dtype)
    found = _read(file, size * kind.itemsize)
    if _core.formats.crc32c(found.data) != crc:
        raise ValueError("checksum")
    return found.view(kind)
