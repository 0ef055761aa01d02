"""TFRecord files read by the core, in the shape of the model."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from tests.read.example_model import Stream

from sweephand import _core


def declare(streams: list[Stream]) -> list[_core.ExampleStream]:
    return [
        _core.ExampleStream(
            stream.key,
            getattr(_core.FeatureKind, stream.kind),
            stream.sample_elements,
            stream.is_sequence,
            stream.is_required,
        )
        for stream in streams
    ]


def to_samples(
    column: tuple[np.ndarray | None, ...], sample_elements: int
) -> list[list[list[object]]]:
    values, sample_offsets, element_offsets, _ = column
    assert values is not None
    assert sample_offsets is not None
    if element_offsets is None:
        samples = values.reshape(-1, sample_elements).tolist()
    else:
        data = values.tobytes()
        samples = [[data[begin:end]] for begin, end in pairwise(element_offsets)]
    return [samples[begin:end] for begin, end in pairwise(sample_offsets)]


def open_records(
    path: Path,
    streams: list[Stream],
    offsets: np.ndarray,
    *,
    verify: bool = True,
    records_per_chunk: int = 2,
    skipped: tuple[int, ...] = (),
) -> _core.RecordDeserializer:
    ends = offsets.tolist()
    firsts = range(0, len(ends) - 1, records_per_chunk)
    chunks = [
        _core.RecordChunk(0, ends[first], ends[last] - ends[first], first, last - first, skips)
        for first in firsts
        for last in [min(first + records_per_chunk, len(ends) - 1)]
        for skips in [[number for number in skipped if first <= number < last]]
    ]
    source = _core.RecordFile(str(path), _core.File(str(path)).tag)
    return _core.RecordDeserializer(declare(streams), [source], chunks, verify), len(chunks)


def read_records(
    path: Path, streams: list[Stream], *, max_errors: int = 0, **options: object
) -> list[list[list[list[object]]]]:
    """Return, for every sequence, the samples of every stream."""
    ledger = _core.Ledger(max_errors)
    offsets = _core.index_records(_core.File(str(path)), ledger)
    ledger.check()
    deserializer, num_chunks = open_records(path, streams, offsets, **options)  # type: ignore[arg-type]
    columns = [[] for _ in streams]
    for chunk in range(num_chunks):
        for stream, column in enumerate(deserializer.load(chunk)):
            columns[stream] += to_samples(column, streams[stream].sample_elements)
    return [list(sequence) for sequence in zip(*columns, strict=True)]
