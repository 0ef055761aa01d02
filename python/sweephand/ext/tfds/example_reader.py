"""Reads examples of a folder by number, and decodes them by their features."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.tfds.array_records import ArrayRecordFiles
from sweephand.ext.tfds.decoders import Decoder
from sweephand.ext.tfds.features import Feature
from sweephand.ext.tfds.file_instructions import FileInstruction
from sweephand.ext.tfds.read_order import ExampleIds
from sweephand.ext.tfds.records import RecordFiles
from sweephand.extend import (
    ColumnData,
    ExampleField,
    Ledger,
    _core,
    access_to,
    column_of_bytes,
    decode_examples,
    make_chunk,
    offsets_of,
    own_result,
    unmasked,
)

_MOST_TENSOR_BYTES = 1 << 30


class ExampleReader:
    """Reads examples by their number in the selection."""

    def __init__(
        self,
        features: Mapping[str, Feature],
        files: RecordFiles | ArrayRecordFiles,
        rows: Sequence[FileInstruction],
        ids: ExampleIds | Literal[False],
        ledger: Ledger,
    ) -> None:
        self._features = list(features.values())
        self._fields = [_to_field(name, feature) for name, feature in features.items()]
        self._files = files
        self._ids = ids
        self._ledger = ledger
        self._starts = offsets_of([row.take for row in rows])
        self._skips = np.array([row.skip for row in rows], np.int64)
        numbers = {path: number for number, path in enumerate(files.paths)}
        self._row_files = np.array([numbers[row.filename] for row in rows], np.int64)

    def fetch(self, numbers: NDArray[np.uint64]) -> _core.read.Chunk:
        """Return the examples with these numbers, without damaged examples in the budget."""
        columns, wrong = self.read(numbers.astype(np.int64))
        for error in wrong.values():
            self._ledger.add(error)
        # Only chunks are held for longer than a minibatch.
        owned = not access_to(self._files.files).is_local
        return make_chunk(columns, owned=owned, skipped=sorted(wrong))

    def read(self, numbers: NDArray[np.int64]) -> tuple[list[ColumnData], dict[int, DataError]]:
        """Return the streams of examples, and the errors of damaged examples."""
        rows = np.searchsorted(self._starts, numbers, side="right") - 1
        in_row = numbers - self._starts[rows]
        places = in_row + self._skips[rows]
        files = self._row_files[rows]
        records = self._files.read(files, places)

        def locate(error: DataError) -> DataError:
            """Return an error with the file and place of its example."""
            at = int(error.sequence or 0)
            path, place = self._files.paths[files[at]], int(places[at])
            offset = None if records.places is None else int(records.places[at])
            return type(error)(error.reason, path, offset, None, error.stream, place)

        try:
            columns, wrong = decode_examples(
                self._fields, records.content, file="", offsets=records.offsets
            )
        except DataError as error:
            raise locate(error) from None
        for at, lost in records.lost.items():
            wrong[at] = DataError(lost.reason, sequence=at)
        columns = [
            _unpack(field.name, feature, column, wrong)
            for field, feature, column in zip(
                self._fields, self._features, columns, strict=True
            )
        ]
        if self._ids:
            ids = [
                self._ids.of(*one) for one in zip(rows.tolist(), in_row.tolist(), strict=True)
            ]
            columns.append(column_of_bytes([os.fsencode(one) for one in ids]))
        return columns, {at: locate(error) for at, error in wrong.items()}


def _to_field(name: str, feature: Feature) -> ExampleField:
    if feature.is_packed:
        return ExampleField(name, feature.name, "bytes", is_ragged=False)
    return ExampleField(name, feature.name, feature.stored, feature.shape, feature.is_ragged)


def _unpack(
    name: str, feature: Feature, column: ColumnData, wrong: dict[int, DataError]
) -> ColumnData:
    """Return a column in the type of its feature: unsigned again, or unpacked from bytes."""
    if not feature.is_packed:
        if feature.dtype == np.uint64 and column.values is not None:
            values = column.values.view(np.uint64)
            return replace(column, values=values, dtype=values.dtype)
        return column
    content = np.asarray(column.values)
    blank = np.zeros((0 if feature.is_ragged else 1, *feature.shape), feature.dtype)
    tensors = [blank[:0]]
    for at, (begin, end) in enumerate(pairwise(np.asarray(column.element_offsets).tolist())):
        tensor = blank
        if at not in wrong:
            try:
                tensor = _decode(feature, content[begin:end].tobytes())
            except ValueError as error:
                wrong[at] = DataError(str(error), stream=name, sequence=at)
        tensors.append(tensor)
    values = np.concatenate(tensors)
    return ColumnData(
        values,
        values.dtype,
        feature.shape,
        len(values),
        offsets_of([len(one) for one in tensors[1:]]) if feature.is_ragged else None,
    )


def _decode(feature: Feature, content: bytes) -> NDArray[np.generic]:
    """Return the tensor in one value: its samples."""
    if feature.decoder is not None:
        return _call_decoder(feature, feature.decoder, content)[np.newaxis]
    sample = math.prod(feature.shape) * feature.dtype.itemsize
    if feature.encoding == "zlib":
        content = _unzip(content, _MOST_TENSOR_BYTES if feature.is_ragged else sample)
    fits = len(content) % max(1, sample) == 0 if feature.is_ragged else len(content) == sample
    if not fits:
        raise ValueError(
            f"the tensor has {len(content)} bytes, its shape wants "
            f"{'a multiple of ' if feature.is_ragged else ''}{sample}"
        )
    stored = np.frombuffer(content, feature.dtype.newbyteorder("<"))
    return stored.astype(feature.dtype).reshape(-1, *feature.shape)


def _call_decoder(feature: Feature, decoder: Decoder, content: bytes) -> NDArray[np.generic]:
    """Return the result of the user's decoder; an error if it is not as declared."""
    try:
        found = np.asarray(unmasked("its array", own_result(decoder, content)))
    except Exception as error:  # whatever it raises: the place is known here
        raise ValueError(f"the decoder failed: {type(error).__name__}: {error}") from error
    if (found.dtype, found.shape) != (feature.dtype, feature.shape):
        raise ValueError(
            f"the decoder gave {found.dtype} of shape {found.shape}, not {feature.dtype} of "
            f"shape {feature.shape}, as declared"
        )
    return found


def _unzip(content: bytes, most_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(content, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the tensor is damaged: {error}") from None
    if not unpacker.eof:
        raise ValueError(f"the tensor is cut, or unpacks to more than {most_bytes} bytes")
    return unpacked
