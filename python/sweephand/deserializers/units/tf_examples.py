"""Records of ``tf.train.Example`` and ``SequenceExample`` messages as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData, spread
from sweephand.corpus.stream_defs import StreamDef
from sweephand.deserializers.units.line_units import LinePlace
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

PADDING = _core.formats.EXAMPLE_PADDING
"""Bytes after records that the decoder may read."""

KINDS = {
    _core.formats.FeatureKind.int64: "int64",
    _core.formats.FeatureKind.float: "float32",
    _core.formats.FeatureKind.bytes: "bytes",
}
_KIND_OF = {name: kind for kind, name in KINDS.items()}
_Arrays = tuple[NDArray[np.generic], NDArray[np.int64], NDArray[np.int64] | None, object]
_MOST_ITEMS = 2**62
_MOST_LOOKED_AT = 1000  # records, to know their features


@dataclass(frozen=True)
class ExampleField:
    """One feature, or feature list, of every example as a stream."""

    name: str
    key: str  # ``context/KEY`` or ``feature_lists/KEY`` where both have the key
    dtype: str  # "int64", "float32" or "bytes"
    shape: tuple[int, ...] = ()  # of one sample
    is_ragged: bool = True  # any number of samples, none without the feature; or one

    def to_core(self, may_narrow: bool) -> _core.formats.ExampleStream:
        """Return the columns that the core decodes."""
        return _core.formats.ExampleStream(
            key=self.key,
            kind=_KIND_OF[self.dtype],
            sample_elements=int(np.prod(self.shape, dtype=np.int64)),
            is_sequence=self.is_ragged,
            is_required=not self.is_ragged,
            may_narrow=may_narrow,
        )


def decode_examples(
    fields: Sequence[ExampleField],
    records: NDArray[np.uint8] | _core.read.File,
    *,
    file: str,
    offset: int = 0,
    end: int = 0,
    first: int = 0,
    verify_checksums: bool = True,
    may_narrow: bool = False,
    offsets: NDArray[np.int64] | None = None,
) -> Columns:
    """Decode consecutive records.

    `records` are whole, with `PADDING` more bytes of any value, or a file that is read block by
    block from `offset` to `end`; `first` is the number of the first. Bare records, without
    frames, begin at `offsets`. Integers that may be narrow come in the narrowest type that
    holds all of them; the dtype of the column is int64 nevertheless. A damaged frame is raised.
    """
    ledger = _core.formats.Ledger(_MOST_ITEMS)
    streams = [field.to_core(may_narrow) for field in fields]
    if isinstance(records, _core.read.File):
        found = _core.formats.decode_file_records(
            streams, records, offset, end - offset, first, verify_checksums, ledger
        )
    else:
        found = _core.formats.decode_records(
            streams, records, file, offset, first, verify_checksums, ledger, offsets
        )
    names = {field.key: field.name for field in fields}
    wrong = {}
    for item in ledger.items:
        number = int(item.sequence or 0)
        stream = None if item.stream is None else names[item.stream]
        wrong[number - first] = DataError(
            item.reason, file, item.offset, stream=stream, sequence=number
        )
    num_records = len(found[0][1]) - 1
    good = np.setdiff1d(np.arange(num_records), list(wrong)) if wrong else None
    columns = [
        _to_column(field, arrays, good, num_records)
        for field, arrays in zip(fields, found, strict=True)
    ]
    return columns, wrong


def _to_column(
    field: ExampleField,
    arrays: _Arrays,
    good: NDArray[np.int64] | None,
    num_records: int,
) -> ColumnData:
    values, sample_offsets, element_offsets, _ = arrays
    is_bytes = field.dtype == "bytes"
    column = ColumnData(
        values=values.view(np.uint8) if is_bytes else values.reshape(-1, *field.shape),
        dtype=np.dtype(np.uint8 if is_bytes else field.dtype),
        shape=field.shape,
        num_samples=int(sample_offsets[-1]),
        sample_offsets=sample_offsets if field.is_ragged else None,
        element_offsets=element_offsets,
    )
    if field.is_ragged or good is None:
        return column
    return spread(column, good, num_records)


@dataclass
class ExampleConverter:
    """Makes columns of records of a file, and learns their types from one to the next."""

    definitions: Mapping[str, StreamDef]
    keys: Mapping[str, str]  # of the streams
    known: Mapping[str, SampleType]
    verify_checksums: bool = True
    may_narrow: bool = False
    padding: int = PADDING

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that have had values."""
        return dict(self.known)

    @property
    def fields(self) -> list[ExampleField]:
        """The columns of streams; those without any value are of integers."""
        return [
            ExampleField(name, self.keys[name], kind.dtype, kind.shape)
            for name, one in self.definitions.items()
            for kind in [self.known.get(name) or _sample_type(one, "int64")]
        ]

    def convert(
        self,
        records: NDArray[np.uint8],
        file: SourceFile,
        place: LinePlace,
        offsets: NDArray[np.int64] | None = None,
    ) -> Columns:
        """Return the streams of records; see `decode_examples`."""
        is_known = self.known.keys() >= self.definitions.keys()
        if not is_known:
            lacking = [name for name in self.definitions if name not in self.known]
            keys = [self.keys[name] for name in lacking]
            found = _core.formats.find_kinds(keys, records, self.verify_checksums, offsets)
            self.known = {
                **self.known,
                **{
                    name: _sample_type(self.definitions[name], KINDS[one.kind], one.step_values)
                    for name, one in zip(lacking, found, strict=True)
                    if one.kind in KINDS
                },
            }
        return decode_examples(
            self.fields,
            records,
            file=file.path,
            offset=place.begin,
            first=place.row,
            verify_checksums=self.verify_checksums,
            may_narrow=self.may_narrow,
            offsets=offsets,
        )


def _sample_type(stream: StreamDef, dtype: str, step_values: int = 0) -> SampleType:
    """Return a stream's sample type; a step of a list may have several values."""
    shape = stream.sample_shape
    if shape is None:
        shape = (step_values,) if step_values > 1 else ()
    return SampleType(dtype, () if dtype == "bytes" else shape, is_ragged=True)


def keys_of_records(records: Iterable[bytes]) -> list[str]:
    """Return the names of the features and feature lists of the first message.

    A name that both have is returned as ``context/NAME`` and ``feature_lists/NAME``.
    """
    context: set[str] = set()
    lists: set[str] = set()
    for record in islice(records, _MOST_LOOKED_AT):
        with suppress(ValueError, LookupError):  # reported when all are read
            message = _fields(record)
            found = _keys(message.get(1, [])), _keys(message.get(2, []))
            context.update(found[0])
            lists.update(found[1])
    both = context & lists
    placed = [f"{part}/{key}" for key in both for part in ("context", "feature_lists")]
    return sorted([*(context ^ lists), *placed])


def _keys(parts: list[bytes]) -> list[str]:
    """Return the keys of a map of features or lists, without their values."""
    entries = [entry for part in parts for entry in _fields(part).get(1, [])]
    return [_fields(entry)[1][-1].decode() for entry in entries]


def _fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the fields of bytes of a message, by their numbers."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        length, at = _varint(message, at)
        found.setdefault(tag >> 3, []).append(message[at : at + length])
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
        shift += 7
