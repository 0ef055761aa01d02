"""Data of Python code as columns: arrays and lists of a stream, items of a dataset, results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.calls import copied
from sweephand.corpus.casts import as_array, cast, unmasked
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    concat_columns,
    dense_column,
    offsets_of,
)
from sweephand.corpus.objects import (
    LACKING,
    OBJECT,
    ObjectText,
    Unusable,
    is_nested,
    member_at,
    object_text,
    objects_column,
)
from sweephand.corpus.sizes import check_offsets
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import sizing_streams


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
    return dense_column(_as_values(name, data))


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
    if isinstance(data, np.ndarray) and data.ndim == 1:
        data = listed(what, data)
    if isinstance(data, list) and data and isinstance(data[0], bytes | str):
        column = column_of_bytes(to_bytes(what, data))
    else:
        column = dense_column(_as_values(name, data))
    starts = np.asarray(unmasked(f"{what}: offsets", offsets))
    if starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise ValueError(
            f"{what}: offsets must be one row of integers, got {starts.dtype} of "
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
    what = f"stream {name!r}"
    _refuse_objects(what, data)
    if not data:
        return dense_column(np.empty(0))
    if isinstance(data[0], np.ndarray):
        data = [listed(what, one) for one in data]
    if all(_is_csr(item) for item in data):
        return _from_csr_list(name, data)
    if isinstance(data[0], bytes | str):
        return column_of_bytes(to_bytes(what, data))
    lists = [item for item in data if isinstance(item, list | tuple)]
    if len(lists) == len(data) and any(isinstance(one[0], bytes | str) for one in lists if one):
        samples = [sample for one in lists for sample in one]
        return column_of_bytes(to_bytes(what, samples), offsets_of(list(map(len, lists))))
    if np.ndim(as_array(what, data[0])) == 0:
        return dense_column(_as_values(name, data))
    sequences = [_as_values(name, item) for item in data]
    if shape and {(one.shape, one.dtype) for one in sequences} == {(shape, sequences[0].dtype)}:
        return dense_column(np.stack(sequences))  # one sample each
    # A sequence without samples takes its form from the rest.
    first = next((n for n, sequence in enumerate(sequences) if len(sequence)), 0)
    shape, dtype = sequences[first].shape[1:], sequences[first].dtype
    for number, sequence in enumerate(sequences):
        if len(sequence) and (sequence.shape[1:], sequence.dtype) != (shape, dtype):
            raise ValueError(
                f"{what}: sequence {number} has {sequence.dtype} samples of shape "
                f"{sequence.shape[1:]}, sequence {first} has {dtype} of {shape}"
            )
    filled = [sequence for sequence in sequences if len(sequence)]
    return dense_column(
        np.concatenate(filled or sequences[:1]), offsets_of(list(map(len, sequences)))
    )


def _refuse_objects(what: str, data: list[object]) -> None:
    """Refuse, by name, the objects that lists often hold beside numbers."""
    problem = f"{what} holds Python objects (dtype object)"
    if data and isinstance(data[0], Mapping):
        raise TypeError(f"{problem}: a list of dicts is for MapDeserializer(rows)")
    if not NULLS.isdisjoint(kind.__name__ for kind in set(map(type, data))):
        absent = next(number for number, item in enumerate(data) if is_null(item))
        raise TypeError(f"{problem}: item {absent} is {data[absent]}; {HOW_TO_FILL}")


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
    lengths = [matrix.shape[0] for matrix in matrices]
    return replace(concat_columns(parts), sample_offsets=offsets_of(lengths))


_CHANNELS = (1, 3, 4)


def is_picture(value: Any) -> bool:
    """Return True for a picture of Pillow's, and for three axes with channels first or last.

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
    # Of those of Pillow's the mode decides if they have channels.
    arrays = [one if hasattr(one, "shape") else np.asarray(one) for one in values]
    shapes = {tuple(int(extent) for extent in one.shape) for one in arrays}
    return shapes.pop() if len(shapes) == 1 else None


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
    nulls: Any = getattr(data, "null_count", 0)  # of a column of Arrow or polars
    dtype = getattr(data, "dtype", None)
    if type(data).__module__.partition(".")[0] == "pandas" and not isinstance(dtype, np.dtype):
        stored = getattr(data, "array", data)
        is_arrow = hasattr(dtype, "pyarrow_dtype")  # where NaN and null are two things
        nulls = stored.__arrow_array__().null_count if is_arrow else stored.isna().sum()
    if nulls() if callable(nulls) else nulls:
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


_LIKE_PICTURE = 3  # axes of an array that is rarely a sequence

# Per stream the samples of one sequence: an array (samples, *shape), a CSR matrix, a list of
# bytes, the text of an object.
Samples = dict[str, Any]


class WrongSamples(ValueError):
    """Values that are no samples of a stream."""

    def __init__(self, reason: str, stream: str | None = None) -> None:
        super().__init__(reason)
        self.stream = stream


class SampleForm:
    """Form that the samples of all sequences share.

    The first sequence decides undeclared properties. A value of the ``shape`` that is declared,
    or is known by `shapes`, is one sample, one with a first axis more a sequence of them;
    without a shape a number is one sample and an array a sequence along its first axis. Errors
    name `what` sequences are called, and warnings `whose` they are.
    """

    def __init__(
        self,
        streams: StreamDefs,
        what: str,
        whose: str,
        *,
        warns: bool = True,
        shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self._warns = warns
        self._streams = streams
        self._what = what
        self._whose = whose
        self.fields = {name: one.field or name for name, one in streams.items()}
        self._shapes = {
            name: shapes.get(name) if one.sample_shape is None else one.sample_shape
            for name, one in streams.items()
        }
        self.like: Samples = {}  # the form that all samples must have
        self.size_stream = next(
            (name for name, one in streams.items() if one.defines_mb_size), None
        )
        self._sizing = sizing_streams(streams)
        self.sequence_streams: set[str] = set()  # seen not to be one sample without an axis

    def convert(self, members: Mapping[Any, Any], *, may_be_empty: bool = False) -> Samples:
        """Return the samples of one sequence."""
        samples = {}
        for stream, field in self.fields.items():
            try:
                value = members[field] if field in members else member_at(members, field)
                if value is LACKING:
                    names = ", ".join(map(str, members))
                    raise ValueError(f"there is no field {field!r}, there are: {names:.200}")
                if isinstance(value, Unusable):
                    raise ValueError(f"the field {field!r} {value.reason}")
                samples[stream] = self._samples(stream, value)
            except (TypeError, ValueError) as error:
                raise WrongSamples(str(error), stream) from error
        if not may_be_empty and not self.size(samples):
            where = f"stream {self.size_stream!r}" if self.size_stream else "any stream"
            raise WrongSamples(f"the {self._what} has no sample in {where}")
        return samples

    def size(self, samples: Samples) -> int:
        """Return the size of a sequence, in samples."""
        return max((count(samples[name]) for name in self._sizing), default=1)

    def to_columns(self, sequences: Sequence[Samples]) -> dict[str, ColumnData]:
        """Return the samples of sequences as columns."""
        return {
            stream: _to_column(stream, [one[stream] for one in sequences])
            for stream in self.fields
        }

    def begin_columns(self, sizes: Sequence[int]) -> _core.read.SampleColumns:
        """Return columns that values of many sequences are written to."""
        likes = [self.like[name] for name in self.fields]
        names = list(self.fields)
        sizing = [names.index(name) for name in self._sizing]
        return _core.read.SampleColumns(list(self.fields.values()), likes, sizing, list(sizes))

    def checked(self, samples: Samples) -> list[Any]:
        """Return the samples of a sequence as such columns take them, an entry a stream.

        What they do not copy at once is a copy.
        """
        return [_plain(samples[name], self.like[name]) for name in self.fields]

    def end_columns(self, columns: _core.read.SampleColumns) -> list[ColumnData]:
        """Return the columns, once they hold all sequences."""
        return [
            _laid(name, self.like[name], found)
            for name, found in zip(self.fields, columns.take(), strict=True)
        ]

    def _samples(self, stream: str, value: Any) -> Any:
        """Return the samples of a value, in the dtype and shape of the first sample."""
        like = self.like.get(stream)
        declared = self._streams[stream].dtype
        if (
            isinstance(like, ObjectText)
            or (declared is not None and np.dtype(declared) == OBJECT)
            or (like is None and is_nested(value))
        ):
            return ObjectText([object_text(value)])
        if is_null(value):
            raise ValueError(f"it is {value}: {HOW_TO_FILL}, or pass over it by max_errors")
        if is_text_array(value) and value.ndim > 1:
            raise ValueError(f"it has texts of shape {value.shape}, and a text is one sample")
        value = listed("it", value)
        is_list = isinstance(value, list | tuple)
        first = value[0] if is_list and value else value
        if isinstance(first, bytes | str):
            if like is not None and not isinstance(like, list):
                raise ValueError(f"it is text or bytes, {self._what} 0 has numbers")
            if is_list:
                self.sequence_streams.add(stream)
            return to_bytes("it", value if is_list else [value])
        if isinstance(like, list):
            if is_list and not value:
                return []
            raise ValueError(f"it is no text or bytes, as {self._what} 0 has them")
        if getattr(value, "format", None) == "csr":
            self.sequence_streams.add(stream)
            return self._matrix(stream, like, value)
        if like is not None and not isinstance(like, np.ndarray):
            raise ValueError(f"it is no CSR matrix, as {self._what} 0 has one")
        return self._array(stream, like, value)

    def _matrix(self, stream: str, like: Any, matrix: Any) -> Any:
        if isinstance(like, np.ndarray):
            raise ValueError(f"it is a CSR matrix, {self._what} 0 has an array")
        column = make_column(stream, matrix)  # checks it
        if like is None:
            like = matrix
        if matrix.shape[1] != like.shape[1]:
            raise ValueError(
                f"it has {matrix.shape[1]} columns, {self._what} 0 has {like.shape[1]}"
            )
        values = self._cast(stream, column.values, np.dtype(like.dtype).newbyteorder("="))
        return type(matrix)((values, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _array(self, stream: str, like: Any, value: Any) -> NDArray[Any]:
        array = as_array("the value", value)
        shape = self._shapes[stream] if like is None else like.shape[1:]
        if shape is None:
            shape = array.shape[1:]
        is_sample = array.shape == shape
        is_like_picture = self._shapes[stream] is None and array.ndim >= _LIKE_PICTURE
        if like is None and is_like_picture and self._warns:
            warnings.warn(
                f"{self._whose}: stream {stream!r} of {self._what} 0 has shape {array.shape} "
                f"and is a sequence of {array.shape[0]} samples; if it is one sample, declare "
                f"{stream}=StreamDef(shape={array.shape})",
                stacklevel=2,
            )
        if not is_sample and (array.ndim == 0 or array.shape[1:] != shape):
            raise ValueError(f"samples of shape {shape} are wanted, got {array.shape}")
        if not is_sample:
            self.sequence_streams.add(stream)
        array = self._cast(stream, array, array.dtype if like is None else like.dtype)
        return array[None] if is_sample else array

    def _cast(self, stream: str, array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array in the dtype that is asked for, by default in that of the first."""
        declared = self._streams[stream].dtype
        if declared is None:
            return cast(array, dtype, rounds=False)
        return cast(array, np.dtype(declared))


def count(samples: Any) -> int:
    """Return how many samples there are of a stream."""
    return len(samples) if isinstance(samples, np.ndarray | list) else int(samples.shape[0])


def _to_column(stream: str, items: list[Any]) -> ColumnData:
    if isinstance(items[0], ObjectText):
        return objects_column([one[0] for one in items])
    if not isinstance(items[0], np.ndarray):
        return make_column(stream, items)
    # A copy also of a single one, which its maker may hold.
    values = np.ascontiguousarray(np.concatenate(items))
    return dense_column(values, offsets_of(list(map(len, items))))


def _plain(samples: Any, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return np.ascontiguousarray(samples, like.dtype)
    return samples if isinstance(like, list) else copied(samples)


def _laid(stream: str, like: Any, found: Any) -> ColumnData:
    """Return a column of the core as a column of the package."""
    if not isinstance(like, np.ndarray):
        return _to_column(stream, found)
    data, offsets = found
    values = data.view(like.dtype).reshape(int(offsets[-1]), *like.shape[1:])
    return dense_column(values, offsets)
