"""Arrays, lists, texts and nulls that users pass as the data of a stream, read as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.casts import as_array, unmasked
from sweephand.corpus.columns import ColumnData, column_of_bytes, offsets_of
from sweephand.corpus.sizes import check_offsets


def make_column(
    name: str,
    data: object,
    shape: tuple[int, ...] | None = None,
    *,
    whole: bool = False,
) -> ColumnData:
    """Read one stream out of the data that a user passes."""
    if getattr(data, "is_nested", False):  # a tensor of torch: its parts are sequences
        data = list(data.unbind())  # type: ignore[attr-defined]
    check_nulls(f"stream {name!r}", data)
    if type(data).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
        data = np.asarray(data)
    if isinstance(data, tuple):
        if len(data) != 2:
            raise TypeError(
                f"stream {name!r}: a tuple is (values, offsets), got {len(data)} items; give "
                "a list"
            )
        return _from_offsets(name, data[0], data[1])
    if _is_csr(data):
        return _from_csr(name, data)
    if isinstance(data, list):
        if shape is None and whole:
            shape = common_picture_shape(data)
        return _from_list(name, data, shape)
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = listed(f"stream {name!r}", data)
        if isinstance(data, list):
            return _from_list(name, data)
    values = _as_values(name, data)
    return ColumnData(values, values.dtype, values.shape[1:], len(values))


def _is_csr(data: object) -> bool:
    # Without importing SciPy: who passes such a matrix has it imported.
    return getattr(data, "format", None) == "csr" and hasattr(data, "indptr")


def _as_values(name: str, data: object) -> NDArray[Any]:
    values = as_array(f"stream {name!r}", data)
    if values.ndim == 0:
        raise TypeError(
            f"stream {name!r} must have a first axis of samples, got a single {values.dtype}"
        )
    if is_text_array(values):
        raise ValueError(
            f"stream {name!r} has several texts in a sample, of shape {values.shape}: a text "
            "is a sample; give a list with the texts of every sequence"
        )
    return np.ascontiguousarray(values)


def _from_offsets(name: str, data: object, offsets: object) -> ColumnData:
    what = f"stream {name!r}"
    column = None
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = listed(what, data)
    if isinstance(data, list) and data and isinstance(data[0], bytes | str):
        column = _from_bytes(name, data)
    if column is None:
        values = _as_values(name, data)
        column = ColumnData(values, values.dtype, values.shape[1:], len(values))
    starts = np.asarray(unmasked(f"stream {name!r}: offsets", offsets))
    if starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise ValueError(
            f"stream {name!r}: offsets must be one row of integers, got {starts.dtype} of "
            f"shape {starts.shape}"
        )
    checked = np.ascontiguousarray(starts, dtype=np.int64)
    try:
        check_offsets(checked, column.num_samples)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return replace(column, sample_offsets=checked)


def _from_list(
    name: str, data: list[object], shape: tuple[int, ...] | None = None
) -> ColumnData:
    _refuse_objects(name, data)
    if data and isinstance(data[0], np.ndarray):
        data = [listed(f"stream {name!r}", one) for one in data]
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
    if shape and {(one.shape, one.dtype) for one in sequences} == {(shape, sequences[0].dtype)}:
        return _as_samples(sequences)
    # A sequence without samples takes its form from the rest.
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


def _as_samples(arrays: Sequence[NDArray[Any]]) -> ColumnData:
    """Return arrays of one shape as one sample each."""
    values = np.stack(arrays)
    return ColumnData(values, values.dtype, values.shape[1:], len(values))


def _refuse_objects(name: str, data: list[object]) -> None:
    """Refuse, by name, the objects that lists often hold beside numbers."""
    problem = f"stream {name!r} holds Python objects (dtype object)"
    if data and isinstance(data[0], Mapping):
        raise TypeError(f"{problem}: a list of dicts is for MapDeserializer(rows)")
    if NULLS.isdisjoint(kind.__name__ for kind in set(map(type, data))):
        return
    absent = next(number for number, item in enumerate(data) if is_null(item))
    raise TypeError(f"{problem}: item {absent} is {data[absent]}; {HOW_TO_FILL}")


def _offsets_of(sequences: Sequence[Any]) -> NDArray[np.int64]:
    return offsets_of([sequence.shape[0] for sequence in sequences])


def _from_bytes(name: str, samples: Sequence[object]) -> ColumnData:
    return column_of_bytes(to_bytes(f"stream {name!r}", samples))


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


_CHANNELS = (1, 3, 4)


def is_picture(value: Any) -> bool:
    """Return True for a picture of Pillow's, and for an array with the shape of a picture.

    It has three axes, of which the first or the last are channels.

    Examples
    --------
    >>> import numpy as np
    >>> [is_picture(np.zeros(shape)) for shape in [(3, 8, 8), (8, 8, 3), (8, 8), (9, 8, 8)]]
    [True, True, False, False]
    """
    if type(value).__module__.startswith("PIL."):
        return True
    shape: Sequence[int] = getattr(value, "shape", ())
    return len(shape) == 3 and (shape[0] in _CHANNELS or shape[-1] in _CHANNELS)


def common_picture_shape(values: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the common shape of pictures; None if shapes differ."""
    if not values or not all(is_picture(one) for one in values):
        return None
    shapes = {shape_of(one) for one in values}
    return shapes.pop() if len(shapes) == 1 else None


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a picture as an array."""
    if not hasattr(value, "shape"):
        import numpy as np

        value = np.asarray(value)  # of Pillow's, whose mode decides if it has channels
    return tuple(int(extent) for extent in value.shape)


HOW_TO_FILL = "fill it (fillna), or drop its row (dropna)"
IS_NULL = (
    "is null, or has a null in it: fill it (fillna), drop its row (dropna), or pass over it by "
    "max_errors"
)

_TEXTS = "SUT"  # kinds of dtypes: bytes and texts of a fixed width, and texts of any
NULLS = {"NoneType", "NAType", "NaTType"}  # names of the types of nulls


def listed(what: str, data: Any) -> Any:
    """Return an array of texts or of Python objects as lists; anything else as it is.

    Zeros that pad a text to the width of its dtype do not belong to it.
    """
    if isinstance(data, np.ndarray) and data.dtype.kind in f"{_TEXTS}O" and data.itemsize:
        array: Any = unmasked(what, data)
        return array.tolist()
    return data


def is_text_array(data: object) -> bool:
    """Return True if data are an array of texts."""
    return isinstance(data, np.ndarray) and data.dtype.kind in _TEXTS and data.itemsize > 0


def is_null(value: object) -> bool:
    """Return True for None and for the null values of pandas."""
    return type(value).__name__ in NULLS


def check_nulls(what: str, data: Any) -> None:
    """Refuse a column of Arrow, polars or pandas with nulls; NaN of floats is a value."""
    if _count_nulls(data):
        raise ValueError(
            f"{what} has nulls, which have no value: fill or drop them (fillna, dropna)"
        )


def to_bytes(what: str, samples: Sequence[object]) -> list[bytes]:
    """Return texts as bytes."""
    encoded = []
    for number, sample in enumerate(samples):
        if isinstance(sample, str):
            try:
                encoded.append(sample.encode())
            except UnicodeEncodeError:
                raise ValueError(
                    f"{what}: sample {number} holds half a surrogate pair, which is no text"
                ) from None
        elif isinstance(sample, bytes):
            encoded.append(sample)
        else:
            is_absent = is_null(sample) or sample != sample  # NaN, in columns of pandas
            hint = f"; if it is a null, {HOW_TO_FILL}" if is_absent else ""
            raise TypeError(
                f"{what}: sample {number} is {type(sample).__name__}, where the first is bytes "
                f"or str{hint}"
            )
    return encoded


def _count_nulls(data: Any) -> int:
    nulls: Any = getattr(data, "null_count", None)  # of a column of Arrow or polars
    if nulls is not None:
        return int(nulls() if callable(nulls) else nulls)
    dtype = getattr(data, "dtype", None)
    if type(data).__module__.partition(".")[0] != "pandas" or isinstance(dtype, np.dtype):
        return 0
    stored = getattr(data, "array", data)
    if hasattr(dtype, "pyarrow_dtype"):  # where NaN and null are two things
        return int(stored.__arrow_array__().null_count)
    return int(stored.isna().sum())
