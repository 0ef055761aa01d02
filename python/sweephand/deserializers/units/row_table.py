"""The rows of indexed files as sequences: sizes, ids and chunks, known without reading them.

::

    files   | a.parquet          | b.parquet | c.parquet    |
    units   | unit | unit | unit | unit      | unit | unit  |   what can be read by itself
    chunks  | chunk       | chunk            | chunk | chunk |   some MB of units each
    rows    one sequence each; the damaged ones keep their places, and are skipped
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus import chunks
from sweephand.corpus.casts import unmasked
from sweephand.corpus.columns import offsets_of
from sweephand.corpus.ids import SequenceIds, ShardIds
from sweephand.corpus.ledger import Ledger
from sweephand.corpus.reader import StoredReader
from sweephand.corpus.sizes import Sizing, chunks_between
from sweephand.errors import DataError
from sweephand.files.index_file import Index
from sweephand.files.source_file import empty_corpus

_PART_BYTES = 1 << 17


RowIds = str | Sequence[str] | Sequence[int] | NDArray[np.generic]


class RowTable:
    """The rows of a corpus: their lengths, and the chunk of each.

    `lengths` are the samples of every row per stream, None: one each; `sizing` are the streams
    whose longest is the size; rows without samples are counted in the ledger.
    """

    def __init__(
        self,
        index: Index,
        lengths: Mapping[str, NDArray[np.uint32] | None],
        sizing: Sequence[str],
        ledger: Ledger,
        *,
        order: NDArray[np.int64] | None = None,
        chunk_per_unit: bool = False,
        in_parts: bool = False,
        chunk_bytes: int | None = None,
    ) -> None:
        num_bytes = index.arrays["num_bytes"]
        self.index = index
        # the first row of every unit, and the end
        self.unit_rows = offsets_of(index.arrays["rows"])
        chunk_units = (
            np.arange(len(num_bytes) + 1)
            if chunk_per_unit
            else cut_chunks(num_bytes, chunk_bytes)
        )
        self.chunk_rows = chunks_between(self.unit_rows[chunk_units])
        # The first unit of all that is loaded at a time, and the end: of a chunk or a part.
        self.load_units = chunk_units
        self.parts: _core.index.Starts | None = None
        if in_parts:
            self.load_units = cut_parts(num_bytes, chunk_units)
            self.parts = chunks_between(self.unit_rows[self.load_units])
        self._num_rows = int(self.unit_rows[-1])
        self._file_rows = self.unit_rows[index.starts["rows"]]
        self.lengths = dict(lengths)
        # False for rows that are damaged or empty: one sample each, and skipped.
        self.is_served = np.ones(self._num_rows, np.bool_)
        damaged = np.diff(index.starts["damaged_rows"])
        firsts = np.repeat(self._file_rows[:-1], damaged)
        self.is_served[firsts + index.arrays["damaged_rows"]] = False
        self._sizing = sizing
        self._leave_out_empty(ledger)
        self.are_all_served = bool(self.is_served.all())
        if not self.is_served.any():
            raise empty_corpus([file.path for file in index.files])
        if not self.are_all_served:
            self.lengths = {
                name: None if own is None else np.where(self.is_served, own, np.uint32(0))
                for name, own in lengths.items()
            }
        names = [file.name for file in index.files]
        self.numbers: NDArray[np.uint64] | None = None  # the order as the core takes it
        self.chunks = self.chunk_rows  # of the sequences of the corpus, in their order
        self.ids: SequenceIds = ShardIds(names, self._file_rows.tolist())
        if order is not None:
            self.ids = ShardIds(names[:1], [0, len(order)])
            size = -(-len(order) // len(self.chunk_rows))
            self.chunks = _core.index.Starts.even(len(order), size)
            self.numbers = order.astype(np.uint64)

    def measure(self) -> Sizing:
        """Return the sizes of all rows."""
        sizes = self._sizes(self._sizing)
        if sizes is None:
            return Sizing.one_each(self.chunk_rows)
        return Sizing.of(sizes, self.chunk_rows)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of a row for one sample of the longest stream."""
        sizes = self._sizes(list(self.lengths))
        num_samples = self._num_rows if sizes is None else int(sizes.sum(dtype=np.int64))
        return int(self.index.arrays["num_bytes"].sum()) / max(1, num_samples)

    def rows_of(self, begin: int, end: int) -> slice:
        """Return the rows of units ``[begin, end)``."""
        return slice(int(self.unit_rows[begin]), int(self.unit_rows[end]))

    def lengths_of(self, stream: str, rows: slice) -> NDArray[np.uint32]:
        """Return the number of samples of each row; 0 for ragged rows that are not served."""
        lengths = self.lengths[stream]
        return np.ones(rows.stop - rows.start, np.uint32) if lengths is None else lengths[rows]

    def is_single(self, stream: str) -> bool:
        """Return True if every row that is served has exactly one sample of a stream."""
        lengths = self.lengths[stream]
        return lengths is None or bool((lengths == self.is_served).all())

    def row_in_file(self, row: int) -> int:
        """Return the number of a row among those of its file."""
        return row - int(self._file_rows[self.file_of(row)])

    def file_of(self, row: int) -> int:
        """Return the number of a row's file."""
        return int(np.searchsorted(self._file_rows, row, side="right")) - 1

    def files_of_rows(self) -> NDArray[np.int64]:
        """Return the number of each row's file."""
        return np.repeat(np.arange(len(self._file_rows) - 1), np.diff(self._file_rows))

    def _sizes(self, streams: Sequence[str]) -> NDArray[np.uint32] | None:
        """Return the sizes of all rows; None: one sample each."""
        sizes = self._samples(streams)
        return None if sizes is None else np.where(self.is_served, sizes, np.uint32(1))

    def _samples(self, streams: Sequence[str]) -> NDArray[np.uint32] | None:
        """Return the samples of all rows, 0 of those that are damaged; None: one each."""
        chosen = [self.lengths[name] for name in streams]
        known = [lengths for lengths in chosen if lengths is not None]
        if not known:
            return None
        sizes: NDArray[np.uint32] = known[0] if len(known) == 1 else np.maximum.reduce(known)
        return sizes if len(known) == len(chosen) else np.maximum(sizes, 1)

    def _leave_out_empty(self, ledger: Ledger) -> None:
        sizes = self._samples(self._sizing)
        if sizes is None:
            return
        empty = np.flatnonzero((sizes == 0) & self.is_served)
        where = "any stream"
        if len(self._sizing) == 1:
            where = f"stream {self._sizing[0]!r}, which defines its size"
        for row in empty.tolist():
            ledger.add(
                DataError(
                    f"the sequence has no sample in {where}",
                    self.index.files[self.file_of(row)].path,
                    sequence=self.row_in_file(row),
                )
            )
        self.is_served[empty] = False


def cut_chunks(
    num_bytes: NDArray[np.int64], chunk_bytes: int | None = None
) -> NDArray[np.int64]:
    """Return the first unit of every chunk, and the end.

    A chunk ends with the unit that fills it up to `chunk_bytes`: large files are split between
    units and small ones joined. It depends on nothing but the units, as the order does.
    """
    if not num_bytes.size:
        return np.zeros(1, np.int64)
    begins = np.append(0, np.cumsum(num_bytes)[:-1])
    starts = np.flatnonzero(np.diff(begins // (chunk_bytes or chunks.CHUNK_BYTES), prepend=-1))
    return np.append(starts, len(num_bytes)).astype(np.int64)


def cut_parts(
    num_bytes: NDArray[np.int64], chunk_units: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first unit of every part, and the end; chunks begin with a part."""
    begins = np.append(0, np.cumsum(num_bytes)[:-1])[: len(num_bytes)]
    begins_part = np.diff(begins // _PART_BYTES, prepend=-1) > 0
    begins_part[chunk_units[:-1]] = True
    return np.append(np.flatnonzero(begins_part), len(num_bytes)).astype(np.int64)


def names_of_rows(
    ids: RowIds,
    rows: RowTable,
    order: NDArray[np.int64] | None,
    open_ids: Callable[[str], tuple[RowTable, StoredReader]],
) -> list[str]:
    """Return the id of every sequence.

    `ids` is a field of one integer or text in every row, whose rows and reader `open_ids`
    returns, or one id for each sequence.
    """
    if isinstance(ids, str):
        names = _read(*open_ids(ids), ids, rows)
        return names if order is None else [names[row] for row in order.tolist()]
    given = [str(one) for one in np.asarray(unmasked("ids", ids)).tolist()]
    count = rows.chunks.total
    if len(given) != count:
        raise ValueError(f"{len(given)} ids are given for {count} sequences")
    return given


def _read(own: RowTable, reader: StoredReader, field: str, rows: RowTable) -> list[str]:
    names: list[str] = []
    core = reader.in_window().core
    for part in range(len(reader.loads)):
        ((values, sample_offsets, element_offsets, _),) = core.load(part)
        if element_offsets is not None:
            content = values.tobytes()
            ends = pairwise(element_offsets.tolist())
            found = [content[b:e].decode(errors="surrogateescape") for b, e in ends]
        else:
            found = list(map(str, values.tolist() if values.dtype.kind in "iu" else ()))
        if sample_offsets is None:
            sample_offsets = np.arange(
                len(values) + 1 if element_offsets is None else len(found) + 1
            )
        for begin, end in pairwise(sample_offsets.tolist()):
            row = len(names)
            file, place = rows.index.files[rows.file_of(row)], rows.row_in_file(row)
            if not rows.is_served[row]:  # a damaged one, whatever is left of it
                names.append(f"{file.name}__{place}")
            elif own.is_served[row] and end - begin == 1 and found:
                names.append(found[begin])
            else:
                raise DataError(
                    f"a row has one integer or text in {field!r}, the field of its id",
                    file.path,
                    stream=field,
                    sequence=place,
                )
    return names
