"""The common parts of formats that pyarrow decodes: their columns, without a copy if possible.

A list is a sequence and a scalar is one sample; fixed-size lists, and the innermost lists where
a shape asks for them, are samples of several numbers; strings and binary are bytes. A row with
a null anywhere is wrong, and so is one whose innermost lists do not have the shape. Pictures
and sounds of Hugging Face, structs of bytes and a path, are their bytes, and its arrays of two
axes or more are samples of their shape. Other structs and maps, and lists of them, are Python
objects, one sample each, without the keys that are null in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import OptionalModule
from sweephand.corpus.columns import ColumnData, bytes_column, concat_columns, spread
from sweephand.corpus.given_data import IS_NULL
from sweephand.corpus.objects import OBJECT, Unusable, column_of_values, splits_of
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.text_numbers import read_numbers
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError, some_of
from sweephand.files.local import LocalFile
from sweephand.files.range_reader import RangeReader
from sweephand.files.source_file import SourceFile

pa = OptionalModule("pyarrow", extra="parquet")
pc = OptionalModule("pyarrow.compute", extra="parquet")

# Extension types that are fully described by their storage; others need foreign code.
_TRANSPARENT = ("arrow.json", "arrow.uuid", "arrow.bool8")

_LISTS = ("list", "large_list", "fixed_size_list")
_BYTES = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")

_HF_ARRAY = re.compile(r"datasets\.features\.features\.Array\dDExtensionType")

_NO_BYTES = (
    "has no bytes, if anything the path of a file: give the dataset to MapDeserializer, or "
    "save it with its files"
)

# One that decodes to more is refused: a whole unit is in memory at a time.
MAX_UNIT_BYTES = 1 << 30
_PANDAS_INDEX = "__index_level_"


def pick(batch: Any, name: str) -> Any:
    """Return a field of a batch; ``a.b.c`` is the field c of b of the struct a."""
    if batch.schema.names.count(name) > 1:
        raise ValueError(f"there are several fields {name!r}")
    if (found := _pick_in(batch.to_struct_array(), name)) is not None:
        return found
    listed = some_of(batch.schema.names, 20)
    raise ValueError(f"there is no field {name!r}, there are: {listed}")


def _pick_in(array: Any, name: str) -> Any:
    """Return a field of structs at any depth; None if there is none."""
    if not pa.types.is_struct(array.type):
        return None
    for outer, inner in splits_of(name):
        number = array.type.get_field_index(outer)
        if number >= 0:
            child = pc.struct_field(array, [number])
            found = child if inner is None else _pick_in(child, inner)
            if found is not None:
                return found
    return None


def convert(
    array: Any,
    shape: tuple[int, ...] | None = None,
    dtype: np.dtype[Any] | None = None,
) -> tuple[ColumnData, dict[int, str]]:
    """Return an Arrow array as a column, one row per entry."""
    if dtype == OBJECT or _holds_structs(array.type):
        return column_of_values(_without_filled(_python_values(array)))
    if isinstance(array.type, pa.FixedShapeTensorType):
        return _convert_tensors(array, shape, dtype)
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType) and _HF_ARRAY.fullmatch(kind.extension_name):
        # Their first extent is None where it differs: then a row is a sequence.
        own = tuple(kind.shape[1:] if kind.shape[0] is None else kind.shape)
        array, shape = array.storage, own if shape is None else shape
    arrays, offsets = [_storage(array)], []
    while _is_list(arrays[-1].type):
        begins, child = _open_list(arrays[-1])
        offsets.append(begins)
        arrays.append(_storage(child))
    nested = _Nested(arrays, offsets)
    faults: dict[int, str] = {}
    if pa.types.is_decimal(nested.arrays[-1].type) and dtype is not None:
        nested, faults = nested.parsed(dtype)
    sample_levels = _sample_levels(nested, shape, array.type)
    is_media = str(array.type).find("struct<") >= 0
    wrong = dict.fromkeys(nested.null_rows(), _NO_BYTES if is_media else IS_NULL)
    for depth, extent in sample_levels:
        others = np.flatnonzero(np.diff(nested.offsets[depth]) != extent)
        for row in nested.rows(others, depth):
            wrong.setdefault(row, f"has samples of another shape than {shape}")
    wrong = faults | wrong
    if not wrong:
        return nested.to_column([extent for _, extent in sample_levels]), {}
    is_good = np.ones(len(array), np.bool_)
    is_good[list(wrong)] = False
    column, _ = convert(array.filter(pa.array(is_good)), shape, dtype)
    return spread(column, np.flatnonzero(is_good), len(array)), wrong


def _without_filled(value: Any) -> Any:
    """Return values without the keys that Arrow fills with null in objects that lack them."""
    if isinstance(value, dict):
        return {key: _without_filled(one) for key, one in value.items() if one is not None}
    return list(map(_without_filled, value)) if isinstance(value, list | tuple) else value


def _python_values(array: Any) -> list[object]:
    """Return values as Python objects; those that Python does not have are `Unusable`."""
    values: list[object] = []
    for one in array:
        try:
            values.append(one.as_py())
        except (ValueError, OverflowError) as error:  # such as a date beyond the year 9999
            values.append(Unusable(f"is no Python object: {error}"))
    return values


def _convert_tensors(
    array: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None
) -> tuple[ColumnData, dict[int, str]]:
    """Return tensors of one shape as samples."""
    kind = array.type
    axes = kind.permutation or range(len(kind.shape))
    own = tuple(kind.shape[axis] for axis in axes)
    if shape not in (None, own):
        raise ValueError(f"{kind} cannot make samples of shape {shape}")
    column, wrong = convert(array.storage, dtype=dtype)
    values = np.asarray(column.values).reshape(-1, *kind.shape)
    values = np.ascontiguousarray(values.transpose(0, *(1 + axis for axis in axes)))
    return replace(column, values=values, shape=own), wrong


def _holds_structs(kind: Any) -> bool:
    """Return True for structs and maps that are no media, and lists of them."""
    while _is_list(kind):
        kind = kind.value_type
    return not _is_media(kind) and bool(pa.types.is_struct(kind) or pa.types.is_map(kind))


@dataclass(frozen=True)
class _Nested:
    """An array taken apart: lists within lists, and the values of the innermost."""

    # that of every level, the outermost first, and the values; only their nulls matter
    arrays: Sequence[Any]
    # where each list of a level begins in the next one, and the end
    offsets: Sequence[NDArray[np.int64]]

    def rows(self, entries: NDArray[np.integer], depth: int) -> list[int]:
        """Return the rows that hold these entries of a level."""
        for offsets in reversed(self.offsets[:depth]):
            entries = np.searchsorted(offsets, entries, side="right") - 1
        rows: list[int] = np.unique(entries).tolist()
        return rows

    def null_rows(self) -> list[int]:
        """Return the rows with a null at any level."""
        return [
            row
            for depth, array in enumerate(self.arrays)
            if array.null_count
            for row in self.rows(np.flatnonzero(array.is_null().to_numpy(False)), depth)
        ]

    def parsed(self, dtype: np.dtype[Any]) -> tuple[_Nested, dict[int, str]]:
        """Return the decimals as numbers, and what is wrong with those of a row."""
        values = self.arrays[-1]
        texts = bytes_column(*_open_bytes(_storage(values.cast(pa.string()))))
        numbers, wrong = read_numbers(texts, dtype)
        parsed = pa.array(numbers.values, mask=values.is_null().to_numpy(False))
        faults: dict[int, str] = {}
        for entry, reason in wrong.items():
            faults.setdefault(self.rows(np.array([entry]), len(self.offsets))[0], reason)
        return replace(self, arrays=[*self.arrays[:-1], parsed]), faults

    def to_column(self, shape: Sequence[int]) -> ColumnData:
        """Return the column; all lists at the innermost levels have this shape."""
        is_ragged = len(self.offsets) > len(shape)
        sample_offsets = self.offsets[0] if is_ragged else None
        values = self.arrays[-1]
        if _is_bytes(values.type):
            return bytes_column(*_open_bytes(values), sample_offsets)
        numbers = _numbers(values).reshape(-1, *shape)
        return ColumnData(numbers, numbers.dtype, tuple(shape), len(numbers), sample_offsets)


def _sample_levels(
    nested: _Nested, shape: tuple[int, ...] | None, kind: Any
) -> list[tuple[int, int]]:
    """Return the levels whose lists make samples, and how long each list must be."""
    depth = len(nested.offsets)
    types = [array.type for array in nested.arrays]
    if shape is None:
        first = depth
        while first > 0 and pa.types.is_fixed_size_list(types[first - 1]):
            first -= 1
        levels = [(level, types[level].list_size) for level in range(first, depth)]
    else:
        first = depth - len(shape)
        if first < 0:
            raise ValueError(f"{kind} cannot make samples of shape {shape}")
        levels = list(zip(range(first, depth), shape, strict=True))
    if first > 1:
        raise TypeError(
            f"{kind} is lists of lists; if the inner ones are samples of equal length, give "
            "their shape"
        )
    if levels and _is_bytes(nested.arrays[-1].type):
        raise TypeError(f"{kind}: bytes cannot be part of a sample of several")
    return levels


def _is_list(kind: Any) -> bool:
    return any(getattr(pa.types, f"is_{one}")(kind) for one in _LISTS)


def _is_bytes(kind: Any) -> bool:
    return any(getattr(pa.types, f"is_{one}")(kind) for one in _BYTES)


def _storage(array: Any) -> Any:
    """Return the plain array of any type; offsets of lists and of bytes are of 64 bits."""
    kind = array.type
    if _is_media(kind):
        return _storage(pc.struct_field(array, "bytes"))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name not in _TRANSPARENT:
            raise TypeError(f"the extension type {kind.extension_name!r} is not supported")
        return _storage(array.storage)
    if pa.types.is_dictionary(kind):
        return _storage(array.dictionary_decode())
    if pa.types.is_list(kind):
        return array.cast(pa.large_list(kind.value_field))
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return array.cast(pa.large_binary()) if is_view or _is_bytes(kind) else array


def repeated_bytes(array: Any) -> int:
    """Return the bytes of a dictionary's texts as they are written out for every row.

    A text of 1 MiB in 4,096 rows is 4 GiB, out of a file of 900 bytes.
    """
    if not pa.types.is_dictionary(array.type):
        return 0
    texts = _storage(array.dictionary)
    if not _is_bytes(texts.type):
        return 0
    return pc.sum(pc.take(pc.binary_length(texts), array.indices)).as_py() or 0


def _is_media(kind: Any) -> bool:
    """Return True for the type of Hugging Face's stored pictures and sounds."""
    return bool(
        pa.types.is_struct(kind)
        and {kind.field(number).name for number in range(kind.num_fields)} == {"bytes", "path"}
        and _is_bytes(kind.field("bytes").type)
    )


def _open_list(array: Any) -> tuple[NDArray[np.int64], Any]:
    """Return where each list begins in its child, and the child."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        child = array.values.slice(array.offset * size, len(array) * size)
        return np.arange(len(array) + 1, dtype=np.int64) * size, child
    begins = _offsets(array, len(array.values))
    return begins - begins[0], array.values.slice(begins[0], begins[-1] - begins[0])


def _open_bytes(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all bytes, and where each entry begins in them."""
    values = _buffer(array, 2, np.dtype(np.uint8))
    begins = _offsets(array, len(values))
    return values[begins[0] : begins[-1]], begins - begins[0]


def _offsets(array: Any, end: int) -> NDArray[np.int64]:
    """Return the offsets of lists or bytes, checked; `end` is the length of the child."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    begins = _buffer(array, 1, np.dtype(np.int64))[array.offset :][: len(array) + 1]
    if len(begins) <= len(array) or begins[0] < 0 or begins[-1] > end:
        raise ValueError("offsets reach beyond the data")
    _core.index.check_offsets(begins - begins[0], int(begins[-1] - begins[0]))
    return begins


def _numbers(array: Any) -> NDArray[Any]:
    kind, types = array.type, pa.types
    if types.is_null(kind):
        raise TypeError("all values are null: fill them (fillna), or leave the column out")
    if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        hint = "; name a field of it, such as 'a.b'" if types.is_struct(kind) else ""
        hint = "; declare a dtype, such as 'float64'" if types.is_decimal(kind) else hint
        raise TypeError(f"{kind} is not supported{hint}")
    if types.is_boolean(kind):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    # to_numpy would import pandas.
    numbers = _buffer(array, 1, np.dtype(kind.to_pandas_dtype()))[array.offset :][: len(array)]
    if len(numbers) < len(array):
        raise ValueError("there are fewer values than rows")
    return numbers


def _buffer(array: Any, number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    buffer = array.buffers()[number]
    if buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, buffer.size // dtype.itemsize)


class ArrowUnits(IndexedDeserializer):
    """Serve rows of record batches."""

    is_cast = True

    def to_columns(
        self, batches: Sequence[Any], path: str, streams: Sequence[str] = (), first: int = 0
    ) -> Columns:
        """Return streams of batches, by default all, and the faults by row.

        `first` is the number of the first row, in errors.
        """
        wrong: dict[int, DataError] = {}
        columns = []
        for name in streams or self.definitions:
            parts = []
            row = 0
            for batch in batches:
                part, reasons = self._convert(name, batch, path)
                parts.append(part)
                for number, reason in reasons.items():
                    message = f"the field {self.fields[name]!r} {reason}"
                    at = row + number
                    error = DataError(message, path, stream=name, sequence=first + at)
                    wrong.setdefault(at, error)
                row += batch.num_rows
            columns.append(concat_columns(parts))
        return columns, wrong

    def kinds_of(self, schema: Any, path: str) -> dict[str, SampleType]:
        """Return the types of a file's streams, which follow from the schema alone."""
        empty = empty_batch(schema)
        return {
            name: SampleType.of(self._convert(name, empty, path)[0])
            for name in self.definitions
        }

    def _convert(self, name: str, batch: Any, path: str) -> tuple[ColumnData, dict[int, str]]:
        try:
            array = pick(batch, self.fields[name])
            wanted = self.definitions[name]
            dtype = None if wanted.dtype is None else np.dtype(wanted.dtype)
            return convert(array, wanted.sample_shape, dtype)
        except (TypeError, ValueError) as error:
            raise DataError(str(error), path, stream=name) from error


def empty_batch(schema: Any) -> Any:
    """Return a record batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


@contextmanager
def data_errors(path: str, what: str) -> Iterator[None]:
    """Raise pyarrow's errors on damaged bytes as DataError; errors of the system stay."""
    try:
        yield
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{what} cannot be decoded: {error}", path) from error


def open_source(file: SourceFile) -> Any:
    """Open a file for pyarrow; a local one without Python between, if it knows the name."""
    is_text = file.path.isascii() or file.path.encode(errors="ignore").decode() == file.path
    if isinstance(file, LocalFile) and is_text:
        file.check_unchanged()  # pyarrow would wait for the writer of a pipe of that name
        return pa.OSFile(file.path)
    return pa.PythonFile(RangeReader(file), "r")


def read_schema(read: Callable[[Any], Any], file: SourceFile) -> Any:
    """Return the schema of a file, by a function of pyarrow."""
    with data_errors(file.path, "the schema"), open_source(file) as source:
        return read(source)


def streams_of(schema: Any, path: str) -> tuple[StreamDefs, dict[str, str]]:
    """Return the columns of a schema that can be served, and the reason for each other column.

    The row numbers of pandas are neither.
    """
    batch = empty_batch(schema)
    streams = {}
    refused = {}
    for number, name in enumerate(schema.names):
        try:
            convert(batch.column(number), None)
        except (TypeError, ValueError) as error:
            refused[name] = str(error)
            continue
        if not name.startswith(_PANDAS_INDEX):
            streams[name] = StreamDef()
    if not streams:
        reasons = "; ".join(f"{one!r}: {why}" for one, why in refused.items())
        raise DataError(f"no column can be served by itself: {reasons or 'none'}", path)
    return StreamDefs(streams), refused
