"""Samples of several elements each: byte strings, and sparse vectors."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.streams import StreamInfo

_MOST_INT32 = 2**31 - 1
_DIMENSIONS = 64  # of streams, whose empty matrices are kept


def byte_strings(
    stream: _core.engine.StreamBatch, elements: NDArray[np.uint8]
) -> NDArray[np.object_]:
    """Return every sample as ``bytes``: an array of objects."""
    data = elements.tobytes()
    objects = np.empty(stream.num_samples, object)
    ends = pairwise(stream.element_offsets().tolist())
    objects[:] = [data[begin:end] for begin, end in ends]
    return objects


def sparse_matrix(
    stream: _core.engine.StreamBatch, info: StreamInfo, elements: NDArray[Any]
) -> Any:
    """Return every sample as a row of a SciPy CSR matrix; ImportError without SciPy."""
    shape = (stream.num_samples, *info.shape)
    try:
        empty = _empty_matrix(info.shape)
    except ImportError:
        raise ImportError(
            "sparse streams come as SciPy matrices: pip install 'sweephand[scipy]', or "
            "use asarray()"
        ) from None
    indices, starts = _places(stream)
    matrix = copy(empty)  # SciPy's checks of the arrays are already done
    matrix._shape = shape  # its setter reshapes, and its constructor takes five times as long
    if max(len(elements), *shape) > _MOST_INT32 or matrix.shape != shape:
        return type(empty)((elements, indices, starts), shape=shape)
    matrix.data, matrix.indices, matrix.indptr = elements, indices, starts.astype(np.int32)
    return matrix


@lru_cache(_DIMENSIONS)
def _empty_matrix(dimension: tuple[int, ...]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((0, *dimension))


def dense_rows(
    stream: _core.engine.StreamBatch, info: StreamInfo, elements: NDArray[Any]
) -> NDArray[Any]:
    """Return every sparse sample as a dense row; elements of one column are added."""
    indices, starts = _places(stream)
    dense = np.zeros((stream.num_samples, *info.shape), info.dtype)
    rows = np.repeat(np.arange(stream.num_samples), np.diff(starts))
    np.add.at(dense, (rows, indices), elements)
    return dense


def _places(
    stream: _core.engine.StreamBatch,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the column of every element, and where each sample's begin."""
    indices = stream.indices()
    if indices is None:  # an empty share never saw a column
        indices = np.empty(0, np.int32)
    return indices, stream.element_offsets()
