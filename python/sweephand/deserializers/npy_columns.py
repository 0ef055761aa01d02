"""Streams of ``.npy`` files: an array, an array with offsets, or a file per sequence."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from sweephand import _core
from sweephand.corpus.casts import element_type
from sweephand.corpus.columns import (
    ColumnData,
    column_of_bytes,
    offsets_of,
    read_offsets,
)
from sweephand.corpus.sizes import MANY_SEQUENCES, check_offsets
from sweephand.corpus.stream_defs import StreamDef
from sweephand.deserializers.npy_header import NpyHeader, read_header
from sweephand.deserializers.units.file_columns import FileColumn
from sweephand.errors import DataError
from sweephand.files.find import find_files
from sweephand.files.local import LocalFile
from sweephand.files.paths import AnyPath, as_path, stat_all
from sweephand.files.source_file import PathLike, SourceFile

Column = PathLike | tuple[PathLike, PathLike] | Sequence[PathLike]
"""The path of values, those of values and offsets, or one for every sequence."""

_HEADERS = 1 << 14  # that are kept
_MANY = 4096  # integers in a row, that may be tokens
_MANY_OFFSETS = MANY_SEQUENCES  # that take longer to copy than to look a few up

_header_of = lru_cache(_HEADERS)(read_header)


def open_column(stream: str, given: Column, definition: StreamDef) -> FileColumn:
    """Open one stream of ``.npy`` files; see `NpyDeserializer`."""
    if not isinstance(given, str | os.PathLike | tuple):
        return _open_sequences(stream, find_files(given, as_given=True).files, definition)
    paths = given if isinstance(given, tuple) else (given,)
    values, *offsets = stat_all([as_path(path) for path in paths])
    header = _header_of(values)
    dtype = served_dtype(stream, header.dtype, definition, values.path, header.shape)
    column = _column_of(dtype, header)
    if offsets:
        column = _with_offsets(stream, column, offsets[0])
    return _in_files(column, [values], [header])


def served_dtype(
    stream: str,
    stored: np.dtype[Any],
    definition: StreamDef,
    path: str,
    shape: tuple[int, ...] | None = None,
) -> np.dtype[Any]:
    """Return the dtype of an array as it is served; that of texts is object.

    Two bytes of no type are a bfloat16 if it is declared, as NumPy stores it so.
    """
    if shape == ():
        raise DataError("the file holds a single number, not an array of samples", path)
    if stored.kind in "SU":
        if shape is not None and len(shape) > 1:
            raise DataError(
                f"it has several texts in a row: shape {shape}", path, stream=stream
            )
        return np.dtype(object)
    wanted = None if definition.dtype is None else np.dtype(definition.dtype)
    is_bare = stored.kind == "V" and stored.names is None and stored.subdtype is None
    if is_bare and wanted is not None and (wanted.name, stored.itemsize) == ("bfloat16", 2):
        return wanted
    native = stored.newbyteorder("=")
    is_number = native.kind == "c" or element_type(native) != _core.base.ElementType.opaque
    if native.kind not in "biufc" or not is_number:
        name = "records" if stored.names else str(stored)
        hint = ""
        if is_bare and stored.itemsize == 2:
            hint = "; if these are bfloat16, declare StreamDef(dtype='bfloat16')"
        raise DataError(
            f"it holds {name:.80}, neither numbers nor texts{hint}", path, stream=stream
        )
    return native


def warn_of_tokens(place: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Warn if the only data are integers that look like tokens."""
    if len(shape) == 1 and dtype.kind in "iu" and shape[0] >= _MANY:
        warnings.warn(
            f"{place} is one row of {shape[0]} integers, and each is served as a sequence of "
            "one sample; if they are tokens, say the sequence_length to cut them into, or the "
            "end_of_document that parts them",
            stacklevel=2,
        )


def are_sequences(paths: Sequence[AnyPath]) -> bool:
    """Return True if each file is a sequence: they differ in the number of samples alone."""
    if len(paths) < 2:
        return False
    headers = [_header_of(file) for file in stat_all(paths)]
    if any(not header.shape for header in headers):
        return False
    kinds = {(header.dtype, header.shape[1:]) for header in headers}
    if len(kinds) > 1 or len({header.shape[0] for header in headers}) == 1:
        return False
    if headers[0].dtype.kind in "iu" and len(headers[0].shape) == 1:
        raise ValueError(
            f"{str(paths[0])!r} and {len(paths) - 1} more are rows of integers of unequal "
            "lengths: if they are tokens, say the sequence_length to cut them into or the "
            "end_of_document that parts them, as RawTokensDeserializer takes them too; if "
            "each file is a sequence, write NpyDeserializer({'x': [paths]})"
        )
    return True


def _open_sequences(
    stream: str, files: Sequence[SourceFile], definition: StreamDef
) -> FileColumn:
    """Return files of which each is a sequence."""
    headers = [_header_of(file) for file in files]
    first = headers[0]
    dtype: np.dtype[Any] | None = None
    for file, header in zip(files, headers, strict=True):
        own = served_dtype(stream, header.dtype, definition, file.path, header.shape)
        dtype = own if dtype is None else _common_dtype(dtype, own, definition)
        if dtype is None or header.shape[1:] != first.shape[1:]:
            raise DataError(
                f"it has samples of {header.dtype} of shape {header.shape[1:]}, others of "
                f"{first.dtype} of shape {first.shape[1:]}; numbers of several types need a "
                "declared dtype",
                file.path,
                stream=stream,
            )
    assert dtype is not None
    lengths = [header.shape[0] for header in headers]
    whole = NpyHeader((sum(lengths), *first.shape[1:]), first.dtype, first.offset)
    column = replace(_column_of(dtype, whole), sample_offsets=offsets_of(lengths))
    return _in_files(column, files, headers)


def _common_dtype(
    one: np.dtype[Any], other: np.dtype[Any], definition: StreamDef
) -> np.dtype[Any] | None:
    """Return the type that holds the numbers of both exactly, if they may be mixed."""
    if one == other:
        return one
    if definition.dtype is None or {one.kind, other.kind} - {*"biuf"}:
        return None
    common = np.result_type(one, other)
    # 64-bit integers are no floats: NumPy would round them.
    is_exact = common.kind != "f" or all(
        kind.kind == "f" or kind.itemsize < 8 for kind in (one, other)
    )
    return common if is_exact else None


def _column_of(dtype: np.dtype[Any], header: NpyHeader) -> ColumnData:
    """Return samples of which only their number is known yet."""
    num_samples = header.shape[0]
    if dtype.hasobject:
        return replace(column_of_bytes([]), values=None, num_samples=num_samples)
    return ColumnData(None, dtype, header.shape[1:], num_samples)


def _in_files(
    column: ColumnData, files: Sequence[SourceFile], headers: Sequence[NpyHeader]
) -> FileColumn:
    pieces = [
        (number, header.offset, file.size - header.offset)
        for number, (file, header) in enumerate(zip(files, headers, strict=True))
    ]
    # Bytes of no type are served as a type of their size.
    stored = [column.dtype if h.dtype.kind == "V" else h.dtype for h in headers]
    is_same = all(one == column.dtype for one in stored)
    return FileColumn(
        column, files, np.array(pieces, np.uint64), stored=None if is_same else stored
    )


def _with_offsets(stream: str, column: ColumnData, file: SourceFile) -> ColumnData:
    """Return a column with the offsets of a file: mapped if they are many, else in memory."""
    header = _header_of(file)
    if len(header.shape) != 1 or header.dtype.kind not in "iu":
        raise DataError(
            f"offsets must be one row of integers, got {header.dtype} of shape {header.shape}",
            file.path,
            stream=stream,
        )
    mapped = None
    if header.shape[0] > _MANY_OFFSETS and not column.is_bytes:
        mapped = _map_offsets(file, header)
    if mapped is None:
        loaded = file.read(header.offset, file.size - header.offset).view(header.dtype)
        offsets = np.ascontiguousarray(loaded, dtype=np.int64)
    else:
        offsets = mapped.array
    column = replace(
        column, sample_offsets=offsets, mapped_offsets=mapped, offsets_file=file.path
    )
    try:
        read_offsets(column, partial(check_offsets, offsets, column.num_samples))
    except ValueError as error:
        raise DataError(str(error), file.path, stream=stream) from None
    return column


def _map_offsets(file: SourceFile, header: NpyHeader) -> _core.read.MappedOffsets | None:
    """Return offsets that need no copy: local and stored as they are used; else None."""
    is_aligned = header.offset % header.dtype.itemsize == 0
    if not isinstance(file, LocalFile) or header.dtype != np.int64 or not is_aligned:
        return None
    return _core.read.MappedOffsets.map(file.listed(), header.offset, header.shape[0])
