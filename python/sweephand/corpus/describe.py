"""Checks a column against the definition of its stream."""

from __future__ import annotations

import numpy as np

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import StreamInfo

_MOST_AXES = 62
_MOST_EMPTY = 2**32 - 1  # of samples that take no memory, so that nothing else bounds them


def describe_stream(
    name: str, column: ColumnData, definition: StreamDef, *, is_single: bool | None = None
) -> StreamInfo:
    """Check a column against its definition and return the stream as it is delivered.

    Parameters
    ----------
    column : ColumnData
        All samples of the stream, or samples that represent all.
    is_single : bool, optional
        True if every sequence of the corpus has one sample; by default as in the column.

    Raises
    ------
    ValueError
        If shape or sparseness differ from the definition, or the cast is not possible.
    """
    form = definition
    if definition.decode:
        if not column.is_bytes or column.holds_objects:
            held = "objects" if column.holds_objects else column.dtype
            raise ValueError(
                f"stream {name!r} has {held}: decode={definition.decode!r} is for bytes"
            )
        form = StreamDef()  # the definition's is that of what they are decoded to
    wanted = form.sample_shape
    if wanted is not None and wanted != column.shape:
        raise ValueError(
            f"stream {name!r} has samples of shape {column.shape}, not {wanted}: declare that, "
            "or leave the shape out"
        )
    if len(column.shape) > _MOST_AXES:
        raise ValueError(
            f"stream {name!r} has samples of {len(column.shape)} dimensions: NumPy has room "
            f"for {_MOST_AXES} beside those of rows and sequences"
        )
    if column.num_samples > _MOST_EMPTY and not column.is_bytes and column.sample_bytes == 0:
        raise ValueError(
            f"stream {name!r} has {column.num_samples} samples of shape {column.shape}: "
            f"without elements there may be {_MOST_EMPTY} at most"
        )
    if form.is_sparse and not column.is_sparse:
        raise ValueError(f"stream {name!r} is declared sparse, but its data are dense")
    stored = np.dtype(object) if column.is_bytes else column.dtype
    dtype = stored if form.dtype is None else np.dtype(form.dtype)
    opaque = _core.base.ElementType.opaque
    if dtype != stored and opaque in (element_type(dtype), element_type(stored)):
        held = "bytes" if column.is_bytes else stored
        raise ValueError(f"stream {name!r}: there is no cast from {held} to {dtype}")
    if form.broadcast and column.element_offsets is not None:
        kind = "sparse" if column.is_sparse else "bytes"
        raise ValueError(f"stream {name!r}: a {kind} stream cannot be broadcast")
    return StreamInfo(
        name=name,
        dtype=dtype,
        shape=column.shape,
        is_sparse=column.is_sparse,
        is_single=column.is_single if is_single is None else is_single,
        is_object=column.holds_objects,
        definition=definition,
    )


def delivered_bytes(column: ColumnData, info: StreamInfo) -> int:
    """Return the bytes of all samples of a column in the dtype that they are delivered in."""
    stored = column.num_samples * column.sample_bytes
    if column.values is not None:
        stored = column.values.nbytes
    offsets = column.num_bytes - (0 if column.values is None else stored)
    itemsize = column.dtype.itemsize if info.is_bytes else info.dtype.itemsize
    return offsets + stored // column.dtype.itemsize * itemsize
