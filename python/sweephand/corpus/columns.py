"""Columns: one stream of one chunk as plain arrays, made of whatever holds the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.casts import as_array, element_type, unmasked
from sweephand.corpus.streams import StreamDef, StreamInfo

_MOST_EMPTY = 2**32 - 1  # of samples that take no memory, so that nothing else bounds them


@dataclass(frozen=True)
class ColumnData:
    """One stream of one chunk.

    Attributes
    ----------
    values : ndarray or None
        Dense: C-contiguous, shape (samples, *shape). Sparse: the values of the non-zero
        elements. Bytes: the bytes of all samples. None if they lie in `extents`.
    dtype : numpy.dtype
        Of the elements.
    shape : tuple of int
        Of one sample.
    num_samples : int
        Samples in the chunk.
    sample_offsets : ndarray of int64 or None
        Where each sequence begins, and the end; None: every sequence is one sample.
    element_offsets : ndarray of int64 or None
        Of sparse samples and of bytes: where each sample's elements begin, and the end.
    indices : ndarray of int32 or None
        Of sparse samples: the index of each element.
    """

    values: NDArray[Any] | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    num_samples: int
    sample_offsets: NDArray[np.int64] | None = None
    element_offsets: NDArray[np.int64] | None = None
    indices: NDArray[np.int32] | None = None
    extents: _core.read.Extents | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether samples come as indices and values."""
        return self.indices is not None

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample that is neither sparse nor bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def is_bytes(self) -> bool:
        """Whether samples are byte strings: elements of one byte, any number per sample."""
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

    def to_core(self) -> _core.read.Column:
        """Return what the core reads; it borrows the arrays."""
        return _core.read.Column(
            values=self.values,
            sample_offsets=self.sample_offsets,
            element_offsets=self.element_offsets,
            indices=self.indices,
            element_bytes=self.dtype.itemsize,
            sample_elements=math.prod(self.shape),
            type=element_type(self.dtype),
            extents=self.extents,
            num_samples=self.num_samples,
        )


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
    """Return a copy of some sequences, in the order in which they are named."""
    samples, sample_offsets = sequences, None
    if column.sample_offsets is not None:
        samples = ranges(column.sample_offsets, sequences)
        sample_offsets = offsets_of(column.lengths[sequences])
    elements, element_offsets = samples, None
    if column.element_offsets is not None:
        elements = ranges(column.element_offsets, samples)
        element_offsets = offsets_of(np.diff(column.element_offsets)[samples])
    return replace(
        column,
        values=None if column.values is None else column.values[elements],
        num_samples=len(samples),
        sample_offsets=sample_offsets,
        element_offsets=element_offsets,
        indices=None if column.indices is None else column.indices[elements],
    )


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
    """Return the sequences of all parts, which are of one kind, one behind the other."""
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
    """Return all integers of the ranges ``[offsets[n], offsets[n + 1])`` one after the other.

    Examples
    --------
    >>> ranges(np.array([0, 2, 2, 5]), np.array([2, 0]))
    array([2, 3, 4, 0, 1])
    """
    begins: NDArray[np.int64] = offsets[numbers]
    ends = offsets_of(offsets[numbers + 1] - begins)
    integers: NDArray[np.int64] = np.arange(ends[-1])
    return integers + np.repeat(begins - ends[:-1], np.diff(ends))


def offsets_of(lengths: NDArray[np.integer] | Sequence[int]) -> NDArray[np.int64]:
    """Return where runs of these lengths begin, and the end: int64, one entry more."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def make_column(name: str, data: object) -> ColumnData:
    """Read one stream out of what a user calls data.

    Parameters
    ----------
    name : str
        The stream, for errors.
    data : array, list, (values, offsets), SciPy CSR, list of CSR, or torch tensor
        An array of shape (sequences, *shape) holds one sample per sequence; a list holds one
        sequence per entry, each of shape (samples, *shape); ``(values, offsets)`` holds samples
        one behind the other and where each sequence begins. Entries that are ``bytes`` or
        ``str`` are one sample each, lists of them are sequences.

    Raises
    ------
    TypeError
        If the container or its elements cannot be numbers.
    ValueError
        If sample shapes differ, or offsets do not fit the values.
    """
    if isinstance(data, tuple):
        if len(data) != 2:
            raise TypeError(
                f"stream {name!r}: a tuple is (values, offsets), got {len(data)} items"
            )
        return _from_offsets(name, data[0], data[1])
    if _is_csr(data):
        return _from_csr(name, data)
    if isinstance(data, list):
        return _from_list(name, data)
    if isinstance(data, np.ndarray) and data.dtype.hasobject:
        return _from_list(name, list(data))
    values = _as_values(name, data)
    return ColumnData(values, values.dtype, values.shape[1:], len(values))


def describe_stream(name: str, column: ColumnData, definition: StreamDef) -> StreamInfo:
    """Check a column against its definition and return the stream as it is delivered.

    Raises
    ------
    ValueError
        If shape or sparseness differ from the definition, or the cast is not possible.
    """
    wanted = definition.sample_shape
    if wanted is not None and wanted != column.shape:
        raise ValueError(f"stream {name!r} has samples of shape {column.shape}, not {wanted}")
    if column.num_samples > _MOST_EMPTY and not column.is_bytes and column.sample_bytes == 0:
        raise ValueError(
            f"stream {name!r} has {column.num_samples} samples of shape {column.shape}: "
            f"without elements there may be {_MOST_EMPTY} at most"
        )
    if definition.is_sparse and not column.is_sparse:
        raise ValueError(f"stream {name!r} is declared sparse, but its data are dense")
    stored = np.dtype(object) if column.is_bytes else column.dtype
    dtype = stored if definition.dtype is None else np.dtype(definition.dtype)
    opaque = _core.base.ElementType.opaque
    if dtype != stored and opaque in (element_type(dtype), element_type(stored)):
        held = "bytes" if column.is_bytes else stored
        raise ValueError(f"stream {name!r}: there is no cast from {held} to {dtype}")
    if definition.broadcast and column.element_offsets is not None:
        kind = "sparse" if column.is_sparse else "bytes"
        raise ValueError(f"stream {name!r}: a {kind} stream cannot be broadcast")
    return StreamInfo(
        name=name,
        dtype=dtype,
        shape=column.shape,
        is_sparse=column.is_sparse,
        defines_mb_size=definition.defines_mb_size,
        broadcast=definition.broadcast,
        transforms=definition.transforms,
    )


def delivered_bytes(column: ColumnData, info: StreamInfo) -> int:
    """Return the bytes of all samples of a column in the dtype that they are delivered in."""
    stored = column.num_samples * column.sample_bytes
    if column.values is not None:
        stored = column.values.nbytes
    offsets = column.num_bytes - (0 if column.values is None else stored)
    itemsize = column.dtype.itemsize if info.is_bytes else info.dtype.itemsize
    return offsets + stored // column.dtype.itemsize * itemsize


def _is_csr(data: object) -> bool:
    # Without importing SciPy: who passes such a matrix has it imported.
    return getattr(data, "format", None) == "csr" and hasattr(data, "indptr")


def _as_values(name: str, data: object) -> NDArray[Any]:
    values = as_array(f"stream {name!r}", data)
    if values.ndim == 0:
        raise TypeError(
            f"stream {name!r} must have a first axis of samples, got a single {values.dtype}"
        )
    return np.ascontiguousarray(values)


def _from_offsets(name: str, data: object, offsets: object) -> ColumnData:
    values = _as_values(name, data)
    starts = np.asarray(unmasked(f"stream {name!r}: offsets", offsets))
    if starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise ValueError(
            f"stream {name!r}: offsets must be one row of integers, got {starts.dtype} of "
            f"shape {starts.shape}"
        )
    checked = np.ascontiguousarray(starts, dtype=np.int64)
    try:
        _core.index.check_offsets(checked, len(values))
    except ValueError as error:
        raise ValueError(f"stream {name!r}: {error}") from None
    return ColumnData(values, values.dtype, values.shape[1:], len(values), checked)


def _from_list(name: str, data: list[object]) -> ColumnData:
    if data and all(_is_csr(item) for item in data):
        return _from_csr_list(name, data)
    if data and isinstance(data[0], bytes | str):
        return _from_bytes(name, data)
    lists = [item for item in data if isinstance(item, list | tuple)]
    if len(lists) == len(data) and any(isinstance(one[0], bytes | str) for one in lists if one):
        samples = [sample for one in lists for sample in one]
        offsets = offsets_of([len(one) for one in lists])
        return replace(_from_bytes(name, samples), sample_offsets=offsets)
    if data and np.ndim(as_array(f"stream {name!r}", data[0])) == 0:
        values = _as_values(name, data)
        return ColumnData(values, values.dtype, values.shape[1:], len(values))
    if not data:
        return ColumnData(np.empty(0), np.dtype(float), (), 0)
    sequences = [_as_values(name, item) for item in data]
    # What a sequence without samples would hold is told by the others.
    first = next((n for n, sequence in enumerate(sequences) if len(sequence)), 0)
    shape, dtype = sequences[first].shape[1:], sequences[first].dtype
    for number, sequence in enumerate(sequences):
        if len(sequence) and sequence.shape[1:] != shape:
            raise ValueError(
                f"stream {name!r}: sequence {number} has samples of shape "
                f"{sequence.shape[1:]}, sequence {first} of shape {shape}"
            )
        if len(sequence) and sequence.dtype != dtype:
            raise ValueError(
                f"stream {name!r}: sequence {number} has dtype {sequence.dtype}, sequence "
                f"{first} has {dtype}"
            )
    filled = [sequence for sequence in sequences if len(sequence)]
    values = np.concatenate(filled or sequences[:1])
    return ColumnData(
        values, values.dtype, values.shape[1:], len(values), _offsets_of(sequences)
    )


def _offsets_of(sequences: Sequence[Any]) -> NDArray[np.int64]:
    return offsets_of([sequence.shape[0] for sequence in sequences])


def _from_bytes(name: str, samples: Sequence[object]) -> ColumnData:
    encoded = []
    for number, sample in enumerate(samples):
        if isinstance(sample, str):
            encoded.append(sample.encode())
        elif isinstance(sample, bytes):
            encoded.append(sample)
        else:
            raise TypeError(
                f"stream {name!r}: sample {number} is {type(sample).__name__}, where the "
                "first is bytes or str"
            )
    values = np.frombuffer(b"".join(encoded), np.uint8)
    return bytes_column(values, offsets_of([len(one) for one in encoded]))


def _from_csr(name: str, matrix: Any) -> ColumnData:
    values = _as_values(name, matrix.data)
    dimension = int(matrix.shape[1])
    if dimension > np.iinfo(np.int32).max:
        raise ValueError(f"stream {name!r}: sparse samples have at most 2^31 - 1 elements")
    columns = np.asarray(unmasked(f"stream {name!r}: indices", matrix.indices))
    if columns.size and (columns.min() < 0 or columns.max() >= dimension):
        raise ValueError(f"stream {name!r} has a column index outside [0, {dimension})")
    indices = np.ascontiguousarray(columns, dtype=np.int32)
    element_offsets = np.ascontiguousarray(matrix.indptr, dtype=np.int64)
    if len(indices) != len(values):
        raise ValueError(f"stream {name!r} has {len(indices)} indices for {len(values)} values")
    try:
        _core.index.check_offsets(element_offsets, len(values))
    except ValueError as error:
        raise ValueError(f"stream {name!r}: row {error}") from None
    return ColumnData(
        values,
        values.dtype,
        (dimension,),
        len(element_offsets) - 1,
        element_offsets=element_offsets,
        indices=indices,
    )


def _from_csr_list(name: str, matrices: Sequence[Any]) -> ColumnData:
    parts = [_from_csr(name, matrix) for matrix in matrices]
    for number, part in enumerate(parts):
        if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
            raise ValueError(
                f"stream {name!r}: sequence {number} has {part.shape[0]} columns of "
                f"{part.dtype}, sequence 0 has {parts[0].shape[0]} of {parts[0].dtype}"
            )
    counts = [np.diff(matrix.indptr) for matrix in matrices]
    element_offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts), dtype=np.int64)])
    return replace(
        parts[0],
        values=np.concatenate([part.values for part in parts if part.values is not None]),
        num_samples=len(element_offsets) - 1,
        sample_offsets=_offsets_of(matrices),
        element_offsets=element_offsets.astype(np.int64),
        indices=np.concatenate([part.indices for part in parts if part.indices is not None]),
    )
