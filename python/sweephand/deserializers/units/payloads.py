"""Payloads of containers that know bytes alone: examples, JSON, or bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import ColumnData, column_of_bytes, offsets_of
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.jsonl import JsonLines, guess_fields
from sweephand.deserializers.tfrecord_files import (
    PADDING,
    ExampleConverter,
    keys_of_records,
)
from sweephand.deserializers.units.line_units import LinePlace
from sweephand.deserializers.units.unit_scan import Columns, SampleType
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile

RECORD = "record"
"""The stream of a record that is served as its bytes."""

Payload = Callable[[Sequence[bytes], SourceFile, int], Columns]
"""Makes the streams of records of a file, of which the first has a number."""


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
        return partial(_of_examples, ExampleConverter(definitions, fields, kinds))
    if payload == "json":
        return partial(_of_json, JsonLines(definitions, fields, kinds))
    if len(definitions) > 1:
        raise ValueError(
            f"records of bytes are one stream, not {len(definitions)}: "
            f"{', '.join(definitions)}; payload= says what else they hold"
        )
    ((name, definition),) = definitions.items()
    return partial(_of_bytes, (name, definition))


def _of_examples(
    converter: ExampleConverter, records: Sequence[bytes], file: SourceFile, first: int
) -> Columns:
    """Return the streams of messages of ``tf.train.Example`` or ``SequenceExample``."""
    offsets = offsets_of([len(one) for one in records])
    content = np.frombuffer(b"".join(records) + bytes(PADDING), np.uint8)
    return converter.convert(content, file, LinePlace(0, 0, 0, first), offsets)


def _of_json(
    lines: JsonLines, records: Sequence[bytes], file: SourceFile, first: int
) -> Columns:
    """Return the streams of texts of JSON, each an object; see `JSONLDeserializer`."""
    text = _as_lines(records)
    padded = np.frombuffer(text + bytes(lines.padding), np.uint8)
    columns, wrong = lines.convert(padded, file, LinePlace(0, len(text), 0, first))
    # Offsets and lines are those of the text that was made here.
    return columns, {
        row: DataError(error.reason, file.path, stream=error.stream, sequence=first + row)
        for row, error in wrong.items()
    }


def _of_bytes(
    stream: tuple[str, StreamDef], records: Sequence[bytes], file: SourceFile, first: int
) -> Columns:
    """Return bytes: one sample, or with a dtype a sequence of the numbers they are."""
    name, definition = stream
    if definition.dtype is None or np.dtype(definition.dtype).kind not in "biuf":
        return [column_of_bytes(records)], {}
    shape = definition.sample_shape or ()
    dtype = np.dtype(definition.dtype).newbyteorder("<")
    sample = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    wrong = {}
    rows: list[NDArray[Any]] = [np.empty((0, *shape), dtype)]
    for row, record in enumerate(records):
        if len(record) % sample:
            reason = f"its {len(record)} bytes are no whole number of {sample}"
            wrong[row] = DataError(reason, file.path, stream=name, sequence=first + row)
            record = b""
        rows.append(np.frombuffer(record, dtype).reshape(-1, *shape))
    values = np.concatenate(rows).astype(dtype.newbyteorder("="), copy=False)
    offsets = offsets_of([len(one) for one in rows[1:]])
    return [ColumnData(values, values.dtype, shape, len(values), offsets)], wrong


def _as_lines(records: Sequence[bytes]) -> bytes:
    """Return JSON texts as lines: one each, whatever white space is in them.

    A line break within a string, which JSON does not allow, stays something that it does not.
    """
    lines = [one.replace(b"\r", b"\t").replace(b"\n", b"\t") for one in records]
    return b"".join((b"null" if not one.strip() else one) + b"\n" for one in lines)
