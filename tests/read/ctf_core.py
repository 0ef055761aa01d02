"""CNTK's text format read by the core, in the shape of the model."""

import itertools
from pathlib import Path

import numpy as np
from tests.read.ctf_model import Corpus, Sequence, Stream

from sweephand import _core

MANY = 2**64 - 2


def make_format(
    streams: list[Stream],
    *,
    skip_sequence_ids: bool = False,
    allow_blank_lines: bool = False,
    allow_nonfinite: bool = False,
    max_line_bytes: int = 2**28,
) -> _core.formats.CtfFormat:
    declared = [
        _core.formats.CtfStream(
            stream.field,
            stream.dimension,
            stream.is_sparse,
            getattr(_core.base.ElementType, stream.dtype),
            stream.defines_mb_size,
        )
        for stream in streams
    ]
    return _core.formats.CtfFormat(
        declared, skip_sequence_ids, allow_blank_lines, allow_nonfinite, max_line_bytes
    )


def build_index(
    path: Path, form: _core.formats.CtfFormat, splits: list[int], max_errors: int
) -> _core.formats.CtfIndex:
    file = _core.read.File(str(path))
    start = _core.formats.ctf_start(file, form)
    borders = [_core.formats.ctf_part(file, form, start, offset) for offset in [0, *splits]]
    index = _core.formats.CtfIndex(max_errors)
    for begin, end in zip(borders, [*borders[1:], file.tag.size], strict=True):
        index.append(_core.formats.ctf_index(file, form, start, begin, end, max_errors), start)
    index.ledger.check()
    return index


def open_ctf(
    path: Path, form: _core.formats.CtfFormat, index: _core.formats.CtfIndex, chunk_bytes: int
) -> tuple[_core.formats.CtfDeserializer, list[int]]:
    """Return the deserializer and the first sequence of every chunk, with the end."""
    file = _core.read.File(str(path))
    start = _core.formats.ctf_start(file, form)
    source = _core.formats.CtfFile(str(path), file.tag, start.ignore_ids)
    chunks = cut_file(
        index.offsets, index.lines, file.tag.size, index.ledger.offsets, chunk_bytes
    )
    return (
        _core.formats.CtfDeserializer(form, [source], chunks),
        chunks.sequences.offsets().tolist(),
    )


def cut_file(
    offsets: np.ndarray, lines: np.ndarray, size: int, items: np.ndarray, chunk_bytes: int
) -> _core.formats.CtfChunks:
    """Return the chunks of one file."""
    starts, item_starts = np.array([0, len(offsets)]), np.array([0, len(items)])
    sizes = np.array([size], np.uint64)
    return _core.formats.CtfChunks(
        offsets, lines, starts, sizes, items, item_starts, chunk_bytes, [None]
    )


def to_samples(column: tuple[np.ndarray, ...], dimension: int) -> list[list[list[object]]]:
    """Return sequences of samples of values, or of (index, value)."""
    values, sample_offsets, element_offsets, indices = column
    if element_offsets is None:
        samples = values.reshape(-1, dimension).tolist()
    else:
        pairs = list(zip(indices.tolist(), values.tolist(), strict=True))
        samples = [pairs[begin:end] for begin, end in itertools.pairwise(element_offsets)]
    return [samples[begin:end] for begin, end in itertools.pairwise(sample_offsets)]


def read_ctf(
    path: Path,
    streams: list[Stream],
    *,
    chunk_bytes: int = 2**25,
    splits: list[int] | None = None,
    max_errors: int = MANY,
    **options: bool,
) -> Corpus:
    form = make_format(streams, **options)
    index = build_index(path, form, splits or [], max_errors)
    deserializer, firsts = open_ctf(path, form, index, chunk_bytes)
    samples: list[list[list[list[object]]]] = [[] for _ in streams]
    for chunk in range(len(firsts) - 1):
        columns = deserializer.load(chunk)
        for stream, column in enumerate(columns):
            samples[stream] += to_samples(column, streams[stream].dimension)
    skipped = set(index.skipped.tolist())
    return Corpus(
        [
            Sequence(key, size, [one[i] for one in samples], i in skipped)
            for i, (key, size) in enumerate(
                zip(index.keys.tolist(), index.sizes.tolist(), strict=True)
            )
        ],
        [(item.offset, item.caused_by) for item in index.ledger.items],
    )
