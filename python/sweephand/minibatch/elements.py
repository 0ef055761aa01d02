"""Samples of several elements each: byte strings, and sparse vectors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.streams import StreamInfo


def byte_strings(stream: _core.engine.StreamBatch) -> NDArray[np.object_]:
    """Return every sample as ``bytes``: an array of objects."""
    data = stream.values(np.dtype(np.uint8), (stream.num_elements,)).tobytes()
    objects = np.empty(stream.num_samples, object)
    ends = pairwise(stream.element_offsets().tolist())
    objects[:] = [data[begin:end] for begin, end in ends]
    return objects


def sparse_matrix(stream: _core.engine.StreamBatch, info: StreamInfo) -> Any:
    """Return every sample as a row of a SciPy CSR matrix; ImportError without SciPy."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        raise ImportError(
            "sparse streams come as SciPy matrices: pip install 'sweephand[scipy]', or "
            "use asarray()"
        ) from None
    shape = (stream.num_samples, *info.shape)
    return csr_matrix(_elements(stream, info), shape=shape)


def dense_rows(stream: _core.engine.StreamBatch, info: StreamInfo) -> NDArray[Any]:
    """Return every sparse sample as a dense row; elements of one column are added."""
    data, indices, starts = _elements(stream, info)
    dense = np.zeros((stream.num_samples, *info.shape), info.dtype)
    rows = np.repeat(np.arange(stream.num_samples), np.diff(starts))
    np.add.at(dense, (rows, indices), data)
    return dense


def _elements(
    stream: _core.engine.StreamBatch, info: StreamInfo
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
    values = stream.values(info.dtype, (stream.num_elements,))
    indices = stream.indices()
    if indices is None:  # an empty share never saw a column
        indices = np.empty(0, np.int32)
    return values, indices, stream.element_offsets()
