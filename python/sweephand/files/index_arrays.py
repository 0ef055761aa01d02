"""The arrays of an index: as they are, or packed until they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core

_RUN = 1 << 16  # values that are packed at a time


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
        return (self.end - self.begin,)

    def __len__(self) -> int:
        """Return how many there are."""
        return self.end - self.begin

    def part(self, begin: int, end: int) -> PackedArray:
        """Return a range of them."""
        return PackedArray(self.core, self.dtype, self.begin + begin, self.begin + end)

    def unpack(self) -> NDArray[Any]:
        """Return the integers as an array."""
        log_bytes = self.dtype.itemsize.bit_length() - 1
        return self.core.read(self.begin, len(self), log_bytes).view(self.dtype)


Stored = NDArray[Any] | PackedArray


class IndexArrays(Mapping[str, NDArray[Any]]):
    """Arrays by name; a packed array is unpacked at every access."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self.stored = dict(stored)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return an array of integers as it was before it was packed."""
        found = self.stored[name]
        return found.unpack() if isinstance(found, PackedArray) else found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.stored)

    def __len__(self) -> int:
        """Return how many arrays there are."""
        return len(self.stored)

    def part(self, bounds: Mapping[str, tuple[int, int]]) -> IndexArrays:
        """Return a range of each."""
        return IndexArrays(
            {name: _part(one, *bounds[name]) for name, one in self.stored.items()}
        )


def stored_in(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, Stored]:
    """Return arrays without unpacking them."""
    return arrays.stored if isinstance(arrays, IndexArrays) else arrays


def unpack_part(array: Stored, begin: int, end: int) -> NDArray[Any]:
    """Unpack a range of an array, without the rest."""
    found = _part(array, begin, end)
    return found.unpack() if isinstance(found, PackedArray) else found


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
    if isinstance(array, PackedArray) and len(array) == len(array.core):
        return array.core.bytes
    if len(array.shape) != 1 or array.dtype.kind not in "iu":
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


def _part(array: Stored, begin: int, end: int) -> Stored:
    return array.part(begin, end) if isinstance(array, PackedArray) else array[begin:end]
