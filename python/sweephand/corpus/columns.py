"""Columns: one stream of one chunk as plain arrays, checked, and chunks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.stream_defs import StreamDef
from sweephand.corpus.streams import StreamInfo


@dataclass(frozen=True)
class ColumnData:
    """One stream of one chunk: checked arrays."""

    # Dense: C-contiguous, shape (samples, *shape). Sparse: the values of the non-zero elements.
    # Bytes: the bytes of all samples. None if they lie in `extents`. Integers may be of a
    # narrower type than `dtype`, which they get when they are delivered.
    values: NDArray[Any] | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one sample
    num_samples: int
    # where each sequence begins, and the end; None: every sequence is one sample
    sample_offsets: NDArray[np.int64] | None = None
    # of sparse samples and of bytes: where each sample's elements begin, and the end
    element_offsets: NDArray[np.int64] | None = None
    indices: NDArray[np.int32] | None = None  # of sparse samples: the index of each element
    extents: _core.read.Extents | None = None
    # the mapped file that sample offsets lie in: they may change, and are read by its `read`
    mapped_offsets: _core.read.MappedOffsets | None = None
    offsets_file: str = ""  # that the sample offsets are of; empty if they are given or made
    holds_objects: bool = False  # Python objects, kept as the bytes of their JSON

    @property
    def is_sparse(self) -> bool:
        return self.indices is not None

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample that is neither sparse nor bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def is_bytes(self) -> bool:
        """True if samples are byte strings: elements of one byte, any number per sample."""
        return self.element_offsets is not None and self.indices is None

    @property
    def num_sequences(self) -> int:
        """Sequences in the chunk."""
        if self.sample_offsets is None:
            return self.num_samples
        return len(self.sample_offsets) - 1

    @property
    def num_bytes(self) -> int:
        """Memory that the arrays hold, in bytes."""
        arrays = (self.values, self.sample_offsets, self.element_offsets, self.indices)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Samples of each sequence: int64, shape (sequences,)."""
        if self.sample_offsets is None:
            return np.ones(self.num_samples, np.int64)
        return np.diff(self.sample_offsets)

    @property
    def is_single(self) -> bool:
        """True if every sequence has exactly one sample."""
        if self.sample_offsets is None:
            return True
        if self.num_samples != self.num_sequences:  # the quick answer
            return False
        return bool((np.diff(self.sample_offsets) == 1).all())

    def to_core(self) -> _core.read.Column:
        """Return the column of the core; it borrows the arrays."""
        dtype = self.dtype
        if self.values is not None and self.values.itemsize < dtype.itemsize:
            dtype = self.values.dtype
        return _core.read.Column(
            values=self.values,
            sample_offsets=self.sample_offsets,
            element_offsets=self.element_offsets,
            indices=self.indices,
            element_bytes=dtype.itemsize,
            sample_elements=math.prod(self.shape),
            type=element_type(dtype),
            extents=self.extents,
            mapped_offsets=self.mapped_offsets,
            num_samples=self.num_samples,
        )


Read = TypeVar("Read")


def read_offsets(column: ColumnData, read: Callable[[], Read]) -> Read:
    """Return the result of `read`, which reads sample offsets that a file may hold."""
    return read() if column.mapped_offsets is None else column.mapped_offsets.read(read)


def bytes_column(
    values: NDArray[np.uint8],
    element_offsets: NDArray[np.int64],
    sample_offsets: NDArray[np.int64] | None = None,
) -> ColumnData:
    """Return samples that are byte strings, given by where each begins in `values`."""
    return ColumnData(
        values,
        np.dtype(np.uint8),
        (),
        len(element_offsets) - 1,
        sample_offsets,
        element_offsets=element_offsets,
    )


def dense_column(
    values: NDArray[Any], sample_offsets: NDArray[np.int64] | None = None
) -> ColumnData:
    """Return an array, whose first axis is that of samples, as a column."""
    return ColumnData(values, values.dtype, values.shape[1:], len(values), sample_offsets)


def column_of_bytes(
    samples: Sequence[bytes], sample_offsets: NDArray[np.int64] | None = None
) -> ColumnData:
    """Return byte strings as a column, each copied."""
    content = np.frombuffer(b"".join(samples), np.uint8)
    return bytes_column(content, offsets_of([len(one) for one in samples]), sample_offsets)


def blank_column(column: ColumnData, lengths: NDArray[np.integer]) -> ColumnData:
    """Return sequences of these lengths, of the same kind as those of `column`, all zero."""
    num_samples = int(lengths.sum())
    offsets = None if column.sample_offsets is None else offsets_of(lengths)
    if column.element_offsets is None:
        values = np.zeros((num_samples, *column.shape), column.dtype)
        return replace(column, values=values, num_samples=num_samples, sample_offsets=offsets)
    return replace(
        column,
        values=np.empty(0, column.dtype),
        num_samples=num_samples,
        sample_offsets=offsets,
        element_offsets=np.zeros(num_samples + 1, np.int64),
        indices=None if column.indices is None else np.empty(0, np.int32),
    )


def take(column: ColumnData, sequences: NDArray[np.integer]) -> ColumnData:
    """Return a copy of the given sequences, in the order of their numbers."""
    samples, sample_offsets = sequences, None
    if column.sample_offsets is not None:
        samples = ranges(column.sample_offsets, sequences)
        sample_offsets = offsets_of(column.lengths[sequences])
    element_offsets = None
    if column.element_offsets is not None:
        element_offsets = offsets_of(np.diff(column.element_offsets)[samples])
    values, indices = column.values, column.indices
    if values is not None or indices is not None:
        elements = _elements(column, samples)
        values = None if values is None else _copied(values, elements)
        indices = None if indices is None else _copied(indices, elements)
    return replace(
        column,
        values=values,
        num_samples=len(samples),
        sample_offsets=sample_offsets,
        element_offsets=element_offsets,
        indices=indices,
    )


def _elements(column: ColumnData, samples: NDArray[np.integer]) -> slice | NDArray[np.integer]:
    """Return the places of the elements of samples: 16 bytes for each, or a slice of a run."""
    if len(samples) > 0 and bool((np.diff(samples) == 1).all()):  # a run
        begin, end = int(samples[0]), int(samples[-1]) + 1
        if column.element_offsets is not None:
            begin, end = column.element_offsets[[begin, end]].tolist()
        return slice(begin, end)
    if column.element_offsets is None:
        return samples
    return ranges(column.element_offsets, samples)


def _copied(values: NDArray[Any], elements: slice | NDArray[np.integer]) -> NDArray[Any]:
    return values[elements].copy() if isinstance(elements, slice) else values[elements]


def spread(column: ColumnData, rows: NDArray[np.integer], num_rows: int) -> ColumnData:
    """Return a column of `num_rows` sequences, of which only those at `rows` are given.

    The others are empty, or one sample of zeros where every sequence is one sample.
    """
    if column.sample_offsets is not None:
        lengths = np.zeros(num_rows, np.int64)
        lengths[rows] = column.lengths
        return replace(column, sample_offsets=offsets_of(lengths))
    if column.element_offsets is not None:
        counts = np.zeros(num_rows, np.int64)
        counts[rows] = np.diff(column.element_offsets)
        return replace(column, num_samples=num_rows, element_offsets=offsets_of(counts))
    values = np.zeros((num_rows, *column.shape), column.dtype)
    values[rows] = column.values
    return replace(column, num_samples=num_rows, values=values)


def concat_columns(parts: Sequence[ColumnData]) -> ColumnData:
    """Concatenate the sequences of parts of one kind."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    sample_offsets = element_offsets = indices = None
    if any(part.sample_offsets is not None for part in parts):
        sample_offsets = offsets_of(np.concatenate([part.lengths for part in parts]))
    if first.element_offsets is not None:
        counts = [
            np.diff(part.element_offsets) for part in parts if part.element_offsets is not None
        ]
        element_offsets = offsets_of(np.concatenate(counts))
    if first.indices is not None:
        indices = np.concatenate([part.indices for part in parts if part.indices is not None])
    return replace(
        first,
        values=np.concatenate([part.values for part in parts if part.values is not None]),
        num_samples=sum(part.num_samples for part in parts),
        sample_offsets=sample_offsets,
        element_offsets=element_offsets,
        indices=indices,
    )


def ranges(offsets: NDArray[np.int64], numbers: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return all integers of the ranges ``[offsets[n], offsets[n + 1])``, range by range."""
    begins: NDArray[np.int64] = offsets[numbers]
    return runs(begins, offsets[numbers + 1] - begins)


def runs(begins: NDArray[np.integer] | int, lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the integers of runs of these lengths, run by run."""
    ends = offsets_of(lengths)
    return np.arange(ends[-1]) + np.repeat(begins - ends[:-1], lengths)


def offsets_of(lengths: NDArray[np.integer] | Sequence[int]) -> NDArray[np.int64]:
    """Return where runs of these lengths begin, and the end: int64, one entry more."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


_MOST_AXES = 62
_MOST_EMPTY = 2**32 - 1  # of samples that take no memory, so that nothing else bounds them


def describe_stream(
    name: str, column: ColumnData, definition: StreamDef, *, is_single: bool | None = None
) -> StreamInfo:
    """Check a column against its definition and return the stream as it is delivered.

    The column has all samples of the stream, or some that represent all; `is_single` then says
    if every sequence of the corpus has one sample. ValueError if shape or sparseness differ
    from the definition, or the cast is not possible.
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
        raise ValueError(f"stream {name!r} has samples of more than {_MOST_AXES} dimensions")
    if column.num_samples > _MOST_EMPTY and not column.is_bytes and column.sample_bytes == 0:
        raise ValueError(f"stream {name!r} has more than {_MOST_EMPTY} samples of no elements")
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
