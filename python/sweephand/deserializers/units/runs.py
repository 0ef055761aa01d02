"""Rows that are read in runs, for formats that know of their rows before they read them.

::

    rows     0 1 2 3 4 5 6 7 8 9 ...
    runs    |     |   |       |       what is read, or lost, as a whole: a format says where
    units   |         |       |       runs joined until they are about as many bytes
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus import chunks
from sweephand.corpus.columns import ColumnData
from sweephand.deserializers.units.indexed import IndexedDeserializer
from sweephand.deserializers.units.unit_scan import Columns, Facts, SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance
from sweephand.files.source_file import SourceFile


@dataclass
class KnownRows:
    """Facts of the rows of a file that are known before they are read."""

    borders: (
        Sequence[int] | NDArray[np.int64]
    )  # first rows of runs that are read, or lost, whole
    run_bytes: float | NDArray[Any] = 0  # memory of each; a number is a guess until all is read
    kinds: Mapping[str, SampleType] = field(
        default_factory=dict
    )  # others are learnt from values
    # samples of every row, of streams of lists; others are learnt from their values
    lengths: Mapping[str, NDArray[np.integer]] = field(default_factory=dict)
    unsure: Collection[str] = ()  # streams that are read although all this is known of them
    # damaged items, and the rows that are lost; None: the rest, however many
    faults: Sequence[tuple[DataError, Iterable[int] | None]] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # what it takes to read them, as JSON
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # and as arrays


@dataclass(frozen=True)
class RowRun:
    """Rows of a file that are read together."""

    file: SourceFile
    facts: Facts  # those of `KnownRows`
    begin: int  # by their numbers in the file
    end: int
    streams: Sequence[str]  # that are wanted
    kinds: Mapping[str, SampleType]  # as far as known; of all streams, once the index is there

    def __len__(self) -> int:
        return self.end - self.begin


ReadRun = tuple[RowRun, int, list[ColumnData] | None]
"""Rows, about their memory, and their streams that were read; None if they are lost."""


class RunDeserializer(IndexedDeserializer):
    """Serve rows that a format counts, and reads run by run."""

    unit_bytes: ClassVar[int] = 0  # runs are joined until they are as many; 0: each is a unit

    @abstractmethod
    def find_rows(self, file: SourceFile) -> KnownRows:
        """Return what is known of the rows of a file before they are read."""

    @abstractmethod
    def read_rows(self, run: RowRun) -> Columns:
        """Read rows: a column of each stream, and the faults of rows that are blank in them.

        Raises
        ------
        DataError
            If none of them can be read.
        """

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Read of rows what their types and lengths take, each once."""
        found = self.find_rows(file)
        scan = UnitScan(kinds=dict(found.kinds), facts=found.facts, arrays=found.arrays)
        for error, rows in found.faults:
            scan.add_error(error, rows)
        unread = [
            name
            for name in self.definitions
            if name in found.unsure
            or name not in found.kinds
            or (found.kinds[name].is_ragged and name not in found.lengths)
        ]
        units = [0]
        lengths: dict[str, list[NDArray[np.integer]]] = {name: [] for name in unread}
        for part, num_bytes, columns in self._read_all(file, found, unread, scan):
            units.append(part.end)
            scan.rows.append(len(part))
            scan.num_bytes.append(num_bytes)
            for at, name in enumerate(unread):
                if columns is None:
                    lengths[name].append(np.zeros(len(part), np.int64))
                    continue
                lengths[name].append(columns[at].lengths)
                if name not in found.kinds and columns[at].num_samples:
                    scan.kinds[name] = SampleType.of(columns[at])
            advance(file.size * len(part) // int(found.borders[-1]))
        if len(units) <= units[-1]:  # else each is a row
            scan.facts["units"] = units
        for name in self.definitions:
            if name not in scan.kinds or scan.kinds[name].is_ragged:
                scan.lengths[name] = lengths[name] if name in lengths else [found.lengths[name]]
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Read the rows of units."""
        if units := facts.get("units"):
            begin, end = units[begin], units[end]
        return self.read_rows(RowRun(file, facts, begin, end, [*self.definitions], self.kinds))

    def _read_all(
        self, file: SourceFile, found: KnownRows, unread: Sequence[str], scan: UnitScan
    ) -> Iterator[ReadRun]:
        """Read the units of a file, with the memory of each; what is lost has no columns."""
        borders = np.asarray(found.borders, np.int64)
        is_filled = np.diff(borders) > 0
        run_bytes = np.broadcast_to(np.asarray(found.run_bytes), len(is_filled))[is_filled]
        borders = np.append(borders[:-1][is_filled], borders[-1:])
        starts = np.append(np.zeros(1, run_bytes.dtype), np.cumsum(run_bytes))
        is_lost = np.zeros(borders[-1] if len(borders) else 0, np.bool_)
        is_lost[scan.damaged_rows] = True
        is_measured = np.isscalar(found.run_bytes) and len(unread) == len(self.definitions)

        def read(first: int, stop: int) -> Iterator[ReadRun]:
            begin, end = borders[[first, stop]].tolist()
            run = RowRun(file, found.facts, begin, end, unread, scan.kinds)
            num_bytes = int(starts[stop] - starts[first])
            columns: list[ColumnData] | None = None
            try:
                if unread and not is_lost[begin:end].all():
                    columns, wrong = self.read_rows(run)
                    scan.add_faults(wrong, begin)
            except StaleError:
                raise
            except DataError as error:
                if stop - first > 1:  # to lose as few rows as possible
                    for at in range(first, stop):
                        yield from read(at, at + 1)
                    return
                scan.add_error(error.within(file=file.path), range(begin, end))
            if columns is not None and is_measured:
                num_bytes = sum(one.num_bytes for one in columns)
            yield run, num_bytes, columns

        firsts = np.arange(len(run_bytes))
        if least := min(self.unit_bytes, chunks.CHUNK_BYTES):
            firsts = np.flatnonzero(np.diff(starts[:-1] // least, prepend=-1))
        for first, stop in pairwise([*firsts.tolist(), len(run_bytes)]):
            yield from read(first, stop)
