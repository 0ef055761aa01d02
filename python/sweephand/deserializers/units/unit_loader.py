"""Chunks of units, read and compared with the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sweephand import _core
from sweephand.corpus.casts import cast
from sweephand.corpus.chunks import make_chunk
from sweephand.corpus.columns import ColumnData, blank_column, concat_columns, spread, take
from sweephand.corpus.ledger import Ledger
from sweephand.deserializers.units.guard import guarded
from sweephand.deserializers.units.row_table import RowTable
from sweephand.deserializers.units.unit_scan import Columns, Facts, SampleType
from sweephand.errors import DataError, StaleError
from sweephand.files.local import LocalFile
from sweephand.files.source_file import SourceFile

_NOT_INDEXED = "the rows are not those that the index was built of"

Piece = tuple[SourceFile, Facts, int, int]
"""A file, its facts, and the first and the end of some of its units."""


@dataclass(frozen=True)
class UnitLoader:
    """Loads chunks of rows.

    It reads by the methods of `IndexedDeserializer`, and counts rows that prove to be damaged
    in its ledger; the memory of chunks that are `owned` counts as the source's.
    """

    read_units: Callable[[SourceFile, Facts, int, int], Columns]
    read_together: Callable[[Sequence[Piece]], list[ColumnData] | None]
    rows: RowTable
    kinds: Mapping[str, SampleType]
    ledger: Ledger
    owned: bool

    def load(self, number: int) -> _core.read.Chunk:
        """Return a chunk or a unit; newly found damage is skipped."""
        first, end = self.rows.load_units[number : number + 2].tolist()
        with guarded(self._place(first, end)[0].path):  # memory may lack for blank rows too
            return self._load(first, end)

    def _load(self, first: int, end: int) -> _core.read.Chunk:
        parts: list[list[ColumnData]] = []
        skipped: list[int] = []  # rows
        pieces = list(self._pieces(first, end))
        if len(pieces) > 1 and self.rows.are_all_served:
            together = self._read_together(pieces)
            if together is not None:
                return make_chunk(together, owned=self.owned)
        for begin, stop in pieces:
            self._read_or_skip(begin, stop, parts, skipped)
        columns = [concat_columns(one) for one in zip(*parts, strict=True)]
        first_row = int(self.rows.unit_rows[first])
        skipped = [row - first_row for row in skipped]
        return make_chunk(columns, owned=self.owned, skipped=skipped)

    def _read_together(self, pieces: Sequence[tuple[int, int]]) -> list[ColumnData] | None:
        """Return units of several files; None if they are to be read in order."""
        columns = self.read_together([self._place(*piece) for piece in pieces])
        if columns is None:
            return None
        rows = self.rows.rows_of(pieces[0][0], pieces[-1][1])
        for column, (name, kind) in zip(columns, self.kinds.items(), strict=True):
            is_so = SampleType.of(column) == kind and np.array_equal(
                column.lengths, self.rows.lengths_of(name, rows)
            )
            if not is_so:
                return None
        return columns

    def _place(self, begin: int, end: int) -> Piece:
        """Return units of the corpus, all of one file, as they are numbered in it."""
        index = self.rows.index
        starts = index.starts["rows"]
        number = int(np.searchsorted(starts, begin, side="right")) - 1
        first = int(starts[number])
        return index.files[number], index.facts[number]["format"], begin - first, end - first

    def _pieces(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut a run of units at the borders of files."""
        starts = self.rows.index.starts["rows"]
        while first < end:
            file = int(np.searchsorted(starts, first, side="right")) - 1
            stop = min(end, int(starts[file + 1]))
            yield first, stop
            first = stop

    def _read_or_skip(
        self, begin: int, end: int, parts: list[list[ColumnData]], skipped: list[int]
    ) -> None:
        """Read units of a file; after a failure each by itself, to lose as few as possible.

        What the index knows to be damaged is skipped with what turns out to be.
        """
        rows = self.rows.rows_of(begin, end)
        known = (rows.start + np.flatnonzero(~self.rows.is_served[rows])).tolist()
        if len(known) == rows.stop - rows.start:
            parts.append(self._blank(rows))
            skipped += known
            return
        try:
            columns, wrong = self._read(begin, end)
        except StaleError:
            raise
        except DataError as error:
            if end - begin > 1:
                for unit in range(begin, end):
                    self._read_or_skip(unit, unit + 1, parts, skipped)
            else:
                self.ledger.add(error)
                parts.append(self._blank(rows))
                skipped += range(rows.start, rows.stop)
            return
        parts.append(columns)
        skipped += known
        for row, reason in wrong.items():
            if self.rows.is_served[rows.start + row]:  # the index does not know
                self.ledger.add(reason)
                skipped.append(rows.start + row)

    def _read(self, begin: int, end: int) -> Columns:
        file, facts, first, stop = self._place(begin, end)
        with guarded(file.path):
            columns, wrong = self.read_units(file, facts, first, stop)
        if not isinstance(file, LocalFile):  # which was looked at when it was read
            file.check_unchanged()
        rows = self.rows.rows_of(begin, end)
        usable = np.flatnonzero(self.rows.is_served[rows])
        num_rows = rows.stop - rows.start
        checked = []
        for column, (name, kind) in zip(columns, self.kinds.items(), strict=True):
            if column.dtype != kind.dtype and SampleType.of(column).is_like(kind):
                column, faults = _cast(column, np.dtype(kind.dtype))
                for row, reason in faults.items():
                    at = self.rows.row_in_file(rows.start + row)
                    lost = DataError(reason, file.path, stream=name, sequence=at)
                    wrong.setdefault(row, lost)
            if kind.is_ragged and len(usable) < num_rows == column.num_sequences:
                column = spread(take(column, usable), usable, num_rows)
            if SampleType.of(column) != kind or column.num_sequences != num_rows:
                raise StaleError(f"{_NOT_INDEXED}; delete the index", file.path, stream=name)
            lengths = column.lengths
            for row in np.flatnonzero(lengths != self.rows.lengths_of(name, rows)).tolist():
                found = f"the row has {lengths[row]} samples; {_NOT_INDEXED}"
                at = self.rows.row_in_file(rows.start + row)
                wrong.setdefault(row, StaleError(found, file.path, stream=name, sequence=at))
            checked.append(column)
        return checked, wrong

    def _blank(self, rows: slice) -> list[ColumnData]:
        return [
            blank_column(kind.to_column(), self.rows.lengths_of(name, rows))
            for name, kind in self.kinds.items()
        ]


def _cast(column: ColumnData, dtype: np.dtype[np.generic]) -> tuple[ColumnData, dict[int, str]]:
    """Return a column as another dtype, and what is wrong with the rows that do not fit."""
    assert column.values is not None
    faults: dict[int, str] = {}
    try:
        values = cast(column.values, dtype)
    except ValueError:
        values = np.zeros(column.values.shape, dtype)
        ends = column.sample_offsets
        ends = np.arange(len(values) + 1) if ends is None else ends
        for row, (begin, end) in enumerate(pairwise(ends.tolist())):
            try:
                values[begin:end] = cast(column.values[begin:end], dtype)
            except ValueError as error:
                faults[row] = str(error)
    return replace(column, values=values, dtype=dtype), faults
