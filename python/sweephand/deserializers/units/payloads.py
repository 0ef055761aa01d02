"""Payloads of containers that know bytes alone: examples, JSON, or bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData, column_of_bytes, offsets_of
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.jsonl import JsonLines, guess_fields
from sweephand.deserializers.units.line_units import LinePlace
from sweephand.deserializers.units.tf_examples import (
    PADDING,
    decode_examples,
    example_fields,
    find_kinds,
    keys_of_records,
)
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

RECORD = "record"
"""The stream of a record that is served as its bytes."""


class Payload(Protocol):
    """Makes columns of records, and learns their types from one to the next."""

    def convert(self, records: Sequence[bytes], file: SourceFile, first: int) -> Columns:
        """Return the streams of records, numbered from `first`."""

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that are known."""


def guess_payload(records: Sequence[bytes]) -> str:
    """Return the content of records by the first: "example", "json" or "bytes"."""
    if not records:
        return "bytes"
    try:
        if records[0].lstrip().startswith(b"{") and isinstance(json.loads(records[0]), dict):
            return "json"
    except ValueError:
        pass
    return "example" if keys_of_records(records[:1]) else "bytes"


def guess_streams(
    payload: str, records: Sequence[bytes], path: str
) -> tuple[StreamDefs, dict[str, str]]:
    """Return the streams of the first records, and reasons for those left out."""
    if payload == "json":
        text = _as_lines(records)
        return guess_fields(lambda size: text[:size], path)
    names = keys_of_records(records) if payload == "example" else [RECORD]
    if not names:
        raise DataError("the first records are no tf.train.Example with features", path)
    return StreamDefs({name: StreamDef() for name in names}), {}


def make_payload(
    payload: str,
    definitions: StreamDefs,
    fields: Mapping[str, str],
    kinds: Mapping[str, SampleType],
) -> Payload:
    """Return the converter of records; `kinds` are the known types of streams."""
    if payload == "example":
        return ExamplePayload(definitions, fields, kinds)
    if payload == "json":
        return JsonPayload(definitions, fields, kinds)
    return BytesPayload(definitions)


@dataclass
class ExamplePayload:
    """Messages of ``tf.train.Example`` or ``SequenceExample``."""

    definitions: StreamDefs
    fields: Mapping[str, str]
    known: Mapping[str, SampleType]

    def convert(self, records: Sequence[bytes], file: SourceFile, first: int) -> Columns:
        """Return the streams of records."""
        offsets = offsets_of([len(one) for one in records])
        content = np.frombuffer(b"".join(records) + bytes(PADDING), np.uint8)
        self.known = find_kinds(
            self.definitions, self.fields, content, self.known, offsets=offsets
        )
        fields = example_fields(self.definitions, self.fields, self.known)
        return decode_examples(fields, content, file=file.path, first=first, offsets=offsets)

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that have had values."""
        return dict(self.known)


class JsonPayload:
    """Texts of JSON, each an object; see `JSONLDeserializer`."""

    def __init__(
        self,
        definitions: StreamDefs,
        fields: Mapping[str, str],
        kinds: Mapping[str, SampleType],
    ) -> None:
        self._lines = JsonLines(definitions, fields, kinds)

    def convert(self, records: Sequence[bytes], file: SourceFile, first: int) -> Columns:
        """Return the streams of records."""
        text = _as_lines(records)
        padded = np.frombuffer(text + bytes(self._lines.padding), np.uint8)
        columns, wrong = self._lines.convert(padded, file, LinePlace(0, len(text), 0, first))
        # Offsets and lines are those of the text that was made here.
        return columns, {
            row: DataError(error.reason, file.path, stream=error.stream, sequence=first + row)
            for row, error in wrong.items()
        }

    def kinds(self) -> dict[str, SampleType]:
        """Return the types of the streams that have had values."""
        return self._lines.kinds()


class BytesPayload:
    """Bytes as they are: one sample, or with a dtype a sequence of the numbers they are."""

    def __init__(self, definitions: StreamDefs) -> None:
        if len(definitions) > 1:
            raise ValueError(
                f"records of bytes are one stream, not {len(definitions)}: "
                f"{', '.join(definitions)}; payload= says what else they hold"
            )
        ((self._name, definition),) = definitions.items()
        self._shape = definition.sample_shape or ()
        self._dtype: np.dtype[Any] | None = None
        if definition.dtype is not None and np.dtype(definition.dtype).kind in "biuf":
            self._dtype = np.dtype(definition.dtype).newbyteorder("<")

    def convert(self, records: Sequence[bytes], file: SourceFile, first: int) -> Columns:
        """Return the stream of records."""
        if self._dtype is None:
            return [column_of_bytes(records)], {}
        wrong = {}
        blank: NDArray[Any] = np.empty((0, *self._shape), self._dtype)
        rows = [blank]
        sample = int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize
        for row, record in enumerate(records):
            if len(record) % sample:
                reason = f"its {len(record)} bytes are no whole number of {sample}"
                wrong[row] = DataError(
                    reason, file.path, stream=self._name, sequence=first + row
                )
                record = b""
            rows.append(np.frombuffer(record, self._dtype).reshape(-1, *self._shape))
        values = np.concatenate(rows).astype(self._dtype.newbyteorder("="), copy=False)
        offsets = offsets_of([len(one) for one in rows[1:]])
        column = ColumnData(values, values.dtype, self._shape, len(values), offsets)
        return [column], wrong

    def kinds(self) -> dict[str, SampleType]:
        """Return the type of the stream, by its definition."""
        if self._dtype is None:
            return {self._name: SampleType("bytes")}
        return {self._name: SampleType(self._dtype.name, self._shape, is_ragged=True)}


def _as_lines(records: Sequence[bytes]) -> bytes:
    """Return JSON texts as lines: one each, whatever white space is in them.

    A line break within a string, which JSON does not allow, stays something that it does not.
    """
    lines = [one.replace(b"\r", b"\t").replace(b"\n", b"\t") for one in records]
    return b"".join((b"null" if not one.strip() else one) + b"\n" for one in lines)
