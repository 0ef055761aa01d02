"""Form of samples from Python code: items of a dataset, results of a map."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.calls import copied
from sweephand.corpus.casts import as_array, cast
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.given_data import (
    HOW_TO_FILL,
    is_null,
    is_text_array,
    listed,
    make_column,
    to_bytes,
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
from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.streams import sizing_streams

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
        self._fields = {name: one.field or name for name, one in streams.items()}
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

    @property
    def fields(self) -> list[str]:
        """The keys of the values, in the order of the streams."""
        return list(self._fields.values())

    def convert(self, members: Mapping[Any, Any], *, may_be_empty: bool = False) -> Samples:
        """Return the samples of one sequence."""
        samples = {}
        for stream, field in self._fields.items():
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
            for stream in self._fields
        }

    def begin_columns(self, sizes: Sequence[int]) -> _core.read.SampleColumns:
        """Return columns that values of many sequences are written to."""
        likes = [self.like[name] for name in self._fields]
        names = list(self._fields)
        sizing = [names.index(name) for name in self._sizing]
        return _core.read.SampleColumns(self.fields, likes, sizing, list(sizes))

    def checked(self, samples: Samples) -> list[Any]:
        """Return the samples of a sequence as such columns take them, an entry a stream.

        What they do not copy at once is a copy.
        """
        return [_plain(samples[name], self.like[name]) for name in self._fields]

    def end_columns(self, columns: _core.read.SampleColumns) -> list[ColumnData]:
        """Return the columns, once they hold all sequences."""
        return [
            _laid(name, self.like[name], found)
            for name, found in zip(self._fields, columns.take(), strict=True)
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
            self._see(stream, is_list)
            return to_bytes("it", value if is_list else [value])
        if isinstance(like, list):
            if is_list and not value:
                return []
            raise ValueError(f"it is no text or bytes, as {self._what} 0 has them")
        if getattr(value, "format", None) == "csr":
            self._see(stream, True)
            return self._matrix(stream, like, value)
        if like is not None and not isinstance(like, np.ndarray):
            raise ValueError(f"it is no CSR matrix, as {self._what} 0 has one")
        return self._array(stream, like, value)

    def _see(self, stream: str, is_sequence: bool) -> None:
        if is_sequence:
            self.sequence_streams.add(stream)

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
            self._warn_of_picture(stream, array.shape)
        if not is_sample and (array.ndim == 0 or array.shape[1:] != shape):
            raise ValueError(f"samples of shape {shape} are wanted, got {array.shape}")
        self._see(stream, not is_sample)
        array = self._cast(stream, array, array.dtype if like is None else like.dtype)
        return array[None] if is_sample else array

    def _warn_of_picture(self, stream: str, shape: tuple[int, ...]) -> None:
        warnings.warn(
            f"{self._whose}: stream {stream!r} of {self._what} 0 has shape {shape} and is a "
            f"sequence of {shape[0]} samples; if it is one sample, declare "
            f"{stream}=StreamDef(shape={shape})",
            stacklevel=2,
        )

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
    offsets = offsets_of(list(map(len, items)))
    return ColumnData(values, values.dtype, values.shape[1:], len(values), offsets)


def _plain(samples: Any, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return np.ascontiguousarray(samples, like.dtype)
    return samples if isinstance(like, list) else copied(samples)


def _laid(stream: str, like: Any, found: Any) -> ColumnData:
    """Return a column of the core as a column of the package."""
    if not isinstance(like, np.ndarray):
        return _to_column(stream, found)
    data, offsets = found
    shape, num_samples = like.shape[1:], int(offsets[-1])
    values = data.view(like.dtype).reshape(num_samples, *shape)
    return ColumnData(values, like.dtype, shape, num_samples, offsets)
