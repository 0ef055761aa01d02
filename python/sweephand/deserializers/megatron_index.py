"""The index of one of Megatron's indexed datasets, checked against its data.

::

    .bin   tokens | tokens | tokens | ...            bare numbers, nothing between them
    .idx   "MMIDIDX" 0 0 | u64 version 1 | u8 dtype | u64 S sequences | u64 D bounds
           | i32 length[S] | i64 offset[S] | i64 first sequence of document[D] | i8 mode[S]

Numbers are little endian; modes may be absent. A document is a run of sequences; the last bound
is S, so that there are D - 1 documents. https://github.com/NVIDIA/Megatron-LM,
megatron/core/datasets/indexed_dataset.py
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweephand.columns import offsets_of
from sweephand.errors import DataError
from sweephand.files import SourceFile
from sweephand.ledger import Ledger

_MAGIC = b"MMIDIDX\0\0"
_LEGACY_MAGIC = b"TNTIDX\0\0"
_HEADER = 34
_DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 8: "u2"}
_FLOATS = {6: "float64", 7: "float32"}


@dataclass(frozen=True)
class MegatronIndex:
    """What the index says, all of it possible.

    Attributes
    ----------
    path : str
    dtype : numpy.dtype
        Of the tokens.
    lengths : ndarray of int64, shape (sequences,)
        Tokens of every sequence; 0 for the damaged ones.
    is_good : ndarray of bool, shape (sequences,)
        False for those that are damaged.
    pieces : ndarray of int64, shape (pieces, 2)
        Offset and size in bytes of the runs of ``.bin`` that the good sequences fill, in order.
    bounds : ndarray of int64, shape (documents + 1,)
        The first sequence of every document, and the end.
    """

    path: str
    dtype: np.dtype[np.generic]
    lengths: NDArray[np.int64]
    is_good: NDArray[np.bool_]
    pieces: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def documents(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the tokens of every document, and whether all its sequences are good."""
        starts = offsets_of(self.lengths)
        bad = offsets_of((~self.is_good).astype(np.int64))
        return np.diff(starts[self.bounds]), np.diff(bad[self.bounds]) == 0


def read_index(
    file: SourceFile, data: SourceFile, ledger: Ledger, *, any_order: bool
) -> MegatronIndex:
    """Read an index and check every number in it before it is used.

    Parameters
    ----------
    file, data : SourceFile
        The ``.idx`` and the ``.bin`` file.
    ledger : Ledger
        Where damaged sequences are counted.
    any_order : bool
        Sequences may lie in any order in ``.bin``.

    Raises
    ------
    DataError
        If the header, the size of the file or a document bound cannot be; or, beyond the
        budget, a length or an offset.
    """
    content = file.read(0, file.size)
    dtype, num_sequences, num_bounds = _read_header(content[:_HEADER].tobytes(), file.path)
    lengths, offsets, bounds = _read_sections(content, file.path, num_sequences, num_bounds)
    _check_bounds(bounds, num_sequences, file.path)
    sequences = _Sequences(file, dtype, lengths.astype(np.int64), offsets, ledger)
    sequences.check(data.size, any_order)
    unused = data.size - int(sequences.sizes[sequences.is_good].sum())
    if unused:
        warnings.warn(
            f"{unused} bytes of {data.path} belong to no sequence", UserWarning, stacklevel=2
        )
    return MegatronIndex(
        path=file.path,
        dtype=dtype,
        lengths=np.where(sequences.is_good, sequences.lengths, 0),
        is_good=sequences.is_good,
        pieces=sequences.pieces(),
        bounds=bounds.astype(np.int64),
    )


def _read_header(content: bytes, path: str) -> tuple[np.dtype[np.generic], int, int]:
    if content[: len(_LEGACY_MAGIC)] == _LEGACY_MAGIC:
        raise DataError(
            "this is the legacy format TNTIDX; prepare the data again by Megatron's tools",
            path,
            0,
        )
    if content[: len(_MAGIC)] != _MAGIC[: len(content)] or not content:
        raise DataError(
            f"no Megatron index: it begins with {content[:9]!r}, not {_MAGIC!r}", path, 0
        )
    if len(content) < _HEADER:
        raise DataError(
            f"the file ends in its header of {_HEADER} bytes, there are {len(content)}",
            path,
            len(content),
        )
    version = int.from_bytes(content[9:17], "little")
    if version != 1:
        raise DataError(f"version {version} is not supported, only 1", path, 9)
    code = content[17]
    if code in _FLOATS:
        raise DataError(f"the elements are {_FLOATS[code]}, which are no tokens", path, 17)
    if code not in _DTYPES:
        raise DataError(f"there is no dtype code {code}; there are 1 to 8", path, 17)
    counts = np.frombuffer(content, "<u8", 2, 18).tolist()
    return np.dtype(_DTYPES[code]), counts[0], counts[1]


def _read_sections(
    content: NDArray[np.uint8], path: str, num_sequences: int, num_bounds: int
) -> list[NDArray[np.signedinteger]]:
    sections = []
    end = _HEADER
    for name, dtype, count in (
        ("lengths", "<i4", num_sequences),
        ("offsets", "<i8", num_sequences),
        ("document bounds", "<i8", num_bounds),
    ):
        begin, end = end, end + count * np.dtype(dtype).itemsize
        if end > len(content):
            raise DataError(
                f"the file ends in its section of {name}: {count} of them end at byte {end}, "
                f"there are {len(content)}",
                path,
                len(content),
            )
        sections.append(np.frombuffer(content, dtype, count, begin))
    if len(content) not in (end, end + num_sequences):
        raise DataError(
            f"{len(content) - end} bytes follow the document bounds; there may be one per "
            f"sequence, {num_sequences}, or none",
            path,
            end,
        )
    return sections


def _check_bounds(bounds: NDArray[np.signedinteger], num_sequences: int, path: str) -> None:
    begin = _HEADER + 12 * num_sequences
    if not bounds.size or bounds[0] != 0:
        raise DataError("the first document bound must be 0", path, begin)
    falls = np.flatnonzero(bounds[1:] < bounds[:-1])
    if falls.size:
        raise DataError(
            f"document bound {falls[0] + 1} is below the one before it",
            path,
            begin + 8 * (int(falls[0]) + 1),
        )
    if bounds[-1] != num_sequences:
        raise DataError(
            f"the last document bound is {bounds[-1]}, not the number of sequences, "
            f"{num_sequences}",
            path,
            begin + 8 * (bounds.size - 1),
        )


class _Sequences:
    """Where the sequences lie; those that cannot be are taken out, reason by reason."""

    def __init__(
        self,
        file: SourceFile,
        dtype: np.dtype[np.generic],
        lengths: NDArray[np.int64],
        offsets: NDArray[np.signedinteger],
        ledger: Ledger,
    ) -> None:
        self._path = file.path
        self._item = dtype.itemsize
        self._ledger = ledger
        self.lengths = lengths
        self.sizes = lengths * self._item  # at most 2^31 * 8: no overflow
        self.offsets = offsets
        self.is_good = np.ones(len(lengths), np.bool_)

    def check(self, data_size: int, any_order: bool) -> None:
        """Take out what cannot be."""
        lengths_at, offsets_at = _HEADER, _HEADER + 4 * len(self.lengths)
        self._refuse(self.lengths < 0, "the length is negative", lengths_at, 4)
        self._refuse(self.offsets < 0, "the offset is negative", offsets_at, 8)
        self._refuse(
            self.offsets % self._item != 0,
            f"the offset is no multiple of the {self._item} bytes of a token",
            offsets_at,
            8,
        )
        self._refuse(
            (self.offsets > data_size) | (self.sizes > data_size - self.offsets),
            f"the sequence ends behind the {data_size} bytes of the .bin file",
            offsets_at,
            8,
        )
        good = np.flatnonzero(self.is_good)
        if any_order:
            good = good[np.argsort(self.offsets[good], kind="stable")]
        ends = np.maximum.accumulate(self.offsets[good] + self.sizes[good])
        overlaps = np.zeros(len(self.lengths), np.bool_)
        overlaps[good[1:]] = self.offsets[good[1:]] < ends[:-1]
        self._refuse(
            overlaps,
            "the sequence overlaps another one"
            if any_order
            else "the sequence lies before the end of an earlier one; any_order=True accepts "
            "another order, without overlaps",
            offsets_at,
            8,
        )

    def pieces(self) -> NDArray[np.int64]:
        """Return offset and size of the runs that the good sequences fill: (pieces, 2)."""
        begins = self.offsets[self.is_good].astype(np.int64)
        ends = begins + self.sizes[self.is_good]
        first = np.flatnonzero(np.append(True, begins[1:] != ends[:-1])[: len(begins)])
        last = np.append(first[1:], len(begins)) - 1
        return np.stack([begins[first], ends[last] - begins[first]], axis=1)

    def _refuse(self, is_wrong: NDArray[np.bool_], reason: str, begin: int, step: int) -> None:
        wrong = np.flatnonzero(is_wrong & self.is_good)
        for number in wrong.tolist():
            self._ledger.add(
                DataError(reason, self._path, begin + step * number, sequence=number)
            )
        self.is_good[wrong] = False
