"""TFRecord files read by the core, in the shape of the model."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tests.read.example_model import Stream

from sweephand import _core


def declare(
    streams: list[Stream], *, may_narrow: bool = False
) -> list[_core.formats.ExampleStream]:
    return [
        _core.formats.ExampleStream(
            stream.key,
            getattr(_core.formats.FeatureKind, stream.kind),
            stream.sample_elements,
            stream.is_sequence,
            stream.is_required,
            may_narrow,
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


def find_offsets(path: Path, piece: int = 1 << 16) -> np.ndarray:
    """Return where the records of a file begin, and its end; the file comes in pieces."""
    data = np.frombuffer(path.read_bytes(), np.uint8)
    finder = _core.formats.FrameFinder(str(path))
    while finder.wanted < len(data):
        finder.feed(finder.wanted, data[finder.wanted : finder.wanted + piece])
    finder.finish(len(data))
    return finder.offsets


def decode_records(
    path: Path,
    streams: list[Stream],
    ledger: _core.formats.Ledger,
    *,
    verify: bool = True,
    may_narrow: bool = False,
) -> list[Any]:
    """Return the columns of a file."""
    records = np.frombuffer(path.read_bytes() + bytes(_core.formats.EXAMPLE_PADDING), np.uint8)
    declared = declare(streams, may_narrow=may_narrow)
    return _core.formats.decode_records(
        declared, records, str(path), 0, 0, verify, ledger, None
    )


def decode_blocks(
    path: Path,
    streams: list[Stream],
    ledger: _core.formats.Ledger,
    *,
    verify: bool = True,
    may_narrow: bool = False,
) -> list[Any]:
    """Return the same, read block by block."""
    file, size = _core.read.File(str(path)), path.stat().st_size
    declared = declare(streams, may_narrow=may_narrow)
    return _core.formats.decode_file_records(declared, file, 0, size, 0, verify, ledger)


def read_records(
    path: Path, streams: list[Stream], *, verify: bool = True
) -> list[list[list[list[object]]]]:
    """Return, for every sequence, the samples of every stream; narrow integers are the same."""
    find_offsets(path)
    ledger = _core.formats.Ledger(0)
    found = decode_records(path, streams, ledger, verify=verify)
    ledger.check()
    narrow = decode_blocks(path, streams, ledger, verify=verify, may_narrow=True)
    for column, narrower in zip(found, narrow, strict=True):
        for wide, same in zip(column, narrower, strict=True):
            np.testing.assert_array_equal(wide, same)
    columns = [
        to_samples(column, stream.sample_elements)
        for stream, column in zip(streams, found, strict=True)
    ]
    return [list(sequence) for sequence in zip(*columns, strict=True)]
