"""Sequences of bare numbers in files, read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus import chunks
from sweephand.corpus.chunks import make_chunk, read_in_place
from sweephand.corpus.columns import ColumnData, offsets_of
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.describe import describe_stream
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.reader import Reader
from sweephand.corpus.sizes import size_columns
from sweephand.corpus.streams import StreamDef, StreamDefs
from sweephand.errors import DataError
from sweephand.files.access import access_to
from sweephand.files.local import join_pieces
from sweephand.files.source_file import SourceFile


@dataclass(frozen=True)
class TokenFiles:
    """One stream of numbers that lie bare in pieces of files.

    Attributes
    ----------
    files : sequence of SourceFile
        Those that the pieces are of.
    pieces : ndarray of uint64, shape (pieces, 3)
        File number, byte where it begins, and size in bytes. One behind the other they are the
        values of the stream.
    offsets : ndarray of int64, shape (sequences + 1,)
        Where each sequence begins, in elements of the stream.
    dtype : numpy.dtype
        Of the elements, in native byte order.
    skipped : ndarray of int64
        Sequences that are damaged, ascending: without elements, they keep their places as one
        sample each.
    mapped : bool
        Local files are mapped into memory.
    """

    files: Sequence[SourceFile]
    pieces: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    dtype: np.dtype[np.generic]
    skipped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    mapped: bool = False

    def open(self, streams: StreamDefs | None, ids: SequenceIds) -> Corpus:
        """Return the corpus.

        Local files are read sequence by sequence, or in chunks where the user gives a window;
        objects in stores in chunks.

        Parameters
        ----------
        streams : StreamDefs, optional
            One stream, with the field "tokens".
        ids : SequenceIds
        """
        if len(self.offsets) == 1 + len(self.skipped):
            raise DataError("the corpus is empty: no sequences", self.files[0].path)
        name, definition = _one_stream(streams)
        column = ColumnData(None, self.dtype, (), int(self.offsets[-1]), self.offsets)
        starts = self._chunk_starts()
        access = access_to(self.files)
        core: _core.read.Deserializer = _core.read.CallbackDeserializer(
            partial(self._load, starts)
        )
        chunked: _core.read.Deserializer | None = None
        if access.local is not None:
            extents = join_pieces(access.local, self.pieces, mapped=self.mapped)
            in_files = replace(column, extents=extents)
            core, by_chunk = read_in_place([in_files], starts, self.skipped)
            chunked = None if self.mapped else by_chunk
        reader = Reader(
            core=core,
            streams=[describe_stream(name, column, definition)],
            chunk_sequences=np.diff(starts).astype(np.uint64),
            measure=partial(size_columns, {name: column}, starts, skipped=self.skipped),
            resident=access.is_local,
            sample_bytes=self.dtype.itemsize,
            load_threads=access.threads(),
            holds_stored=not access.is_local,
            chunked=chunked,
        )
        return Corpus([reader], ids, [file.name for file in self.files])

    def _chunk_starts(self) -> NDArray[np.int64]:
        """Return the first sequence of every chunk, and the end."""
        marks = np.arange(0, int(self.offsets[-1]), chunks.CHUNK_BYTES // self.dtype.itemsize)
        begins = self.offsets[:-1]
        return np.unique(np.append(np.searchsorted(begins, marks), len(begins)))

    def _load(self, starts: NDArray[np.int64], chunk: int) -> _core.read.Chunk:
        """Load a chunk of objects in stores."""
        first, end = starts[chunk : chunk + 2].tolist()
        offsets = self.offsets[first : end + 1] - self.offsets[first]
        item = self.dtype.itemsize
        values = self._read(int(self.offsets[first]) * item, int(offsets[-1]) * item)
        tokens = values.view(self.dtype)
        within = self.skipped[slice(*np.searchsorted(self.skipped, (first, end)))] - first
        column = ColumnData(tokens, self.dtype, (), len(tokens), offsets)
        return make_chunk([column], skipped=within.tolist())

    def _read(self, begin: int, size: int) -> NDArray[np.uint8]:
        """Read some bytes of the stream, by one request for every piece."""
        starts = offsets_of(self.pieces[:, 2].astype(np.int64))
        parts: list[NDArray[np.uint8]] = []
        done = 0
        while done < size:
            piece = int(np.searchsorted(starts, begin + done, side="right")) - 1
            number, offset, num_bytes = self.pieces[piece].tolist()
            inside = begin + done - int(starts[piece])
            count = min(size - done, num_bytes - inside)
            parts.append(self.files[number].fetch(offset + inside, count))
            self.files[number].check_unchanged()
            done += count
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _one_stream(streams: StreamDefs | None) -> tuple[str, StreamDef]:
    defined = streams or StreamDefs(tokens=StreamDef())
    if len(defined) != 1:
        raise ValueError(f"there is one field, 'tokens', got streams {', '.join(defined)}")
    ((name, definition),) = defined.items()
    field = definition.field or name
    if field != "tokens":
        raise ValueError(f"there is no field {field!r}, only 'tokens'")
    return name, definition
