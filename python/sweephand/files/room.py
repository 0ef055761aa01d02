"""Memory for bytes to be read, of a length that a file states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.errors import DataError


def room_for(size: int, path: str, offset: int | None = None) -> NDArray[np.uint8]:
    """Return an array of `size` uninitialised bytes.

    Raises
    ------
    DataError
        If there is less memory. `path` and `offset` are the place of the length.
    """
    if size > _core.read.physical_memory():
        raise DataError(
            f"{size} bytes are to be read at once, more than the memory there is",
            path,
            offset,
        )
    try:
        return _core.read.empty_bytes(size)
    except MemoryError:
        raise DataError(
            f"{size} bytes are to be read, more than memory is left", path, offset
        ) from None
