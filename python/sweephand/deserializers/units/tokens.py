"""Sequences of bare numbers in files: one stream, the field "tokens"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.base.checks import check_int
from sweephand.corpus import chunks
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import StoredCorpus
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.sizes import chunks_between
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams
from sweephand.deserializers.units.file_columns import FileColumn, read_columns
from sweephand.files.access import access_to
from sweephand.files.source_file import SourceFile, empty_corpus


def open_tokens(
    streams: StreamDefs,
    ids: SequenceIds,
    files: Sequence[SourceFile],
    pieces: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    dtype: np.dtype[np.generic],
    *,
    skipped: NDArray[np.int64] | None = None,
    chunk_size_in_bytes: int | None = None,
) -> StoredCorpus:
    """Return the corpus of a stream of numbers."""
    if len(offsets) == 1 + (0 if skipped is None else len(skipped)):
        raise empty_corpus([file.path for file in files])
    ((name, definition),) = streams.items()
    column = ColumnData(None, dtype, (), int(offsets[-1]), offsets)
    is_local = access_to(files).is_local
    chunk_bytes = chunk_size_in_bytes or chunks.default_chunk_bytes(is_local=is_local)
    reader = read_columns(
        [FileColumn(column, files, pieces)],
        [describe_stream(name, column, definition)],
        _cut(offsets, chunk_bytes // dtype.itemsize),
        dtype.itemsize,
        skipped=skipped,
    )
    names = [file.name for file in files]
    return StoredCorpus([reader], ids, names, files=files)


def _cut(offsets: NDArray[np.int64], chunk_elements: int) -> _core.index.Starts:
    """Return the first sequence of every chunk, and the end."""
    marks = np.arange(0, int(offsets[-1]), max(1, chunk_elements))
    starts = np.append(np.searchsorted(offsets[:-1], marks), len(offsets) - 1)
    return chunks_between(starts[np.diff(starts, append=len(offsets)) > 0])


def check_chunk_bytes(given: int | None) -> int | None:
    """Return the option ``chunk_size_in_bytes``; ValueError if it is none."""
    if given is not None:
        check_int("chunk_size_in_bytes", given, 1, 2**63)
    return given


def one_stream(streams: StreamsLike | None, only: str = "tokens") -> StreamDefs:
    """Return the one stream that is asked for, with the only field that there is."""
    defined = choose_streams(streams, lambda: StreamDefs({only: StreamDef()}))
    if len(defined) != 1:
        raise ValueError(f"there is one field, {only!r}, got streams {', '.join(defined)}")
    ((name, definition),) = defined.items()
    field = definition.field or name
    if field != only:
        raise ValueError(
            f"there is no field {field!r}, only {only!r}: write "
            f"StreamDefs({name}=StreamDef(field={only!r}))"
        )
    return defined
