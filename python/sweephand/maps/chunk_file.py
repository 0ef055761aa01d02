"""A file of chunks that a map made, read like stored chunks.

::

    first block   label: digest of what was mapped, 32 hex digits
    other blocks  a chunk each; label: JSON, payload: array | 0 ... | array | 0 ... |

Blocks are those of `run/records.py`. The label has of every stream its dtype, the shape and
number of its samples, and of every array its dtype and length; arrays begin at multiples of 8
bytes of the payload and are little endian. The first two are how many sequences were made of
each that is stored there, and their sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData
from sweephand.errors import DataError
from sweephand.run.records import RecordKind, pack_block, read_block

KEPT = RecordKind(b"SWEEPMAP", 2, "file of a map", "delete it, and it is made again")
_ARRAYS = ("values", "sample_offsets", "element_offsets", "indices")
_DAMAGED = "the file that keeps what a map made is damaged; delete it, and it is made again"


@dataclass(frozen=True)
class MadeChunk:
    """Results of mapping the sequences of a chunk."""

    counts: NDArray[np.uint32]  # how many sequences it made of each
    sizes: NDArray[np.uint32]
    columns: Sequence[ColumnData]  # one per stream; none if nothing was made
    several: bool  # whether the map returned lists


def pack_chunk(chunk: MadeChunk) -> bytes:
    """Return the block of a chunk."""
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
    facts = {
        "streams": streams,
        "arrays": [[array.dtype.str, array.size] for array in arrays],
        "several": chunk.several,
    }
    plain = map(np.ascontiguousarray, arrays)
    parts = [part for one in plain for part in (one.data, bytes(-one.nbytes % 8))]
    return pack_block(json.dumps(facts, allow_nan=False).encode(), b"".join(parts))


def read_chunk(file: BinaryIO, offset: int) -> MadeChunk:
    """Read a chunk; DataError if the bytes are not those that were written."""
    file.seek(offset)
    try:
        label, payload = read_block(file)
        facts = json.loads(label)
        arrays = _arrays(payload, facts["arrays"])
        counts, sizes = next(arrays).copy(), next(arrays).copy()  # which outlive the columns
        columns = [_column(one, arrays) for one in facts["streams"]]
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataError(_DAMAGED, str(getattr(file, "name", "")), offset) from error
    return MadeChunk(counts, sizes, columns, bool(facts["several"]))


def _column(header: dict[str, Any], arrays: Iterator[NDArray[Any]]) -> ColumnData:
    held: dict[str, Any] = {name: next(arrays) for name in header["arrays"]}
    shape = tuple(header["shape"])
    values = held.get("values")
    if values is not None and "element_offsets" not in held:
        held["values"] = values.reshape(header["num_samples"], *shape)
    return ColumnData(
        values=held.pop("values", None),
        dtype=np.dtype(header["dtype"]),
        shape=shape,
        num_samples=header["num_samples"],
        **held,
    )


def _arrays(payload: memoryview, described: Sequence[Any]) -> Iterator[NDArray[Any]]:
    at = 0
    for dtype, size in described:
        array = np.frombuffer(payload, dtype, size, at)
        at += array.nbytes + -array.nbytes % 8
        yield array
