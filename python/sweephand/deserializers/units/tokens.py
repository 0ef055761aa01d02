"""Sequences of bare numbers in files: one stream, the field "tokens"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus import chunks
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike, choose_streams
from sweephand.deserializers.units.file_columns import FileColumn, read_columns
from sweephand.errors import DataError
from sweephand.files.source_file import SourceFile


def open_tokens(
    streams: StreamDefs,
    ids: SequenceIds,
    files: Sequence[SourceFile],
    pieces: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    dtype: np.dtype[np.generic],
    *,
    skipped: NDArray[np.int64] | None = None,
) -> Corpus:
    """Return the corpus of a stream of numbers.

    Parameters
    ----------
    streams : StreamDefs
        One stream; see `one_stream`.
    files, pieces
        See `FileColumn`.
    offsets : ndarray of int64, shape (sequences + 1,)
        Where each sequence begins, in elements of the stream.
    dtype : numpy.dtype
        Of the elements, in native byte order.
    skipped : ndarray of int64, optional
        Sequences that are damaged, ascending: without elements, they keep their places as one
        sample each.
    """
    if len(offsets) == 1 + (0 if skipped is None else len(skipped)):
        raise DataError("the corpus is empty: no sequences", files[0].path)
    ((name, definition),) = streams.items()
    column = ColumnData(None, dtype, (), int(offsets[-1]), offsets)
    marks = np.arange(0, int(offsets[-1]), chunks.CHUNK_BYTES // dtype.itemsize)
    starts = np.append(np.searchsorted(offsets[:-1], marks), len(offsets) - 1)
    starts = starts[np.diff(starts, append=len(offsets)) > 0]
    reader = read_columns(
        [FileColumn(column, files, pieces)],
        [describe_stream(name, column, definition)],
        starts,
        dtype.itemsize,
        skipped=skipped,
    )
    return Corpus([reader], ids, [file.name for file in files])


def one_stream(streams: StreamsLike | None) -> StreamDefs:
    """Return the one stream that is asked for, with the field "tokens".

    Raises
    ------
    ValueError
        If several are asked for, or one with another field.
    """
    defined = choose_streams(streams, lambda: StreamDefs(tokens=StreamDef()))
    if len(defined) != 1:
        raise ValueError(f"there is one field, 'tokens', got streams {', '.join(defined)}")
    ((name, definition),) = defined.items()
    field = definition.field or name
    if field != "tokens":
        raise ValueError(
            f"there is no field {field!r}, only 'tokens': write "
            f"StreamDefs({name}=StreamDef(field='tokens'))"
        )
    return defined
