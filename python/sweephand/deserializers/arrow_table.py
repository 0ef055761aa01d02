"""Arrow tables in memory, served in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.stream_defs import StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.units.arrow_units import ArrowUnits, streams_of
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.deserializers.units.unit_scan import Columns, Facts, UnitScan
from sweephand.errors import DataError
from sweephand.files.index_file import Advance, Index, join_scans
from sweephand.files.source_file import FileList, SourceFile


class ArrowTable(ArrowUnits):
    """Serve the rows of a pyarrow.Table; every record batch is a unit, and a chunk."""

    format = "table"

    def __init__(
        self,
        table: Any,
        streams: StreamsLike | None,
        order: NDArray[np.int64] | None = None,
        ids: RowIds | None = None,
    ) -> None:
        memory = _Memory("table", "table", table.nbytes, "")
        self._batches = table.to_batches()
        self._schema = table.schema
        self.is_resident = True
        super().__init__(FileList([memory], []), streams, ids=ids)
        reach = np.zeros(1, np.int64) if order is None or not order.size else order
        if reach.min() < 0 or reach.max() >= max(1, table.num_rows):
            raise DataError(
                f"the indices mapping reaches beyond the {table.num_rows} rows", "table"
            )
        self.order = order

    def guess_streams(self) -> StreamDefs:
        """Return the columns that can be served."""
        streams, self.left_out = streams_of(self._schema, self.files[0].path)
        return streams

    def load_index(self) -> Index:
        """Find the streams and rows; nothing is read from a file."""
        return join_scans(self.files, [self._scan(self.files[0], lambda num_bytes: None)])

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Look at every record batch."""
        scan = UnitScan()
        self.add_kinds(scan, self._schema, file.path)
        for batch in self._batches:
            self.add_rows(scan, [batch], list(self.definitions), file.path)
            scan.rows.append(batch.num_rows)
            scan.num_bytes.append(batch.nbytes)
        return scan

    def read_units(self, file: SourceFile, facts: Facts, begin: int, end: int) -> Columns:
        """Take record batches as they are."""
        return self.to_columns(self._batches[begin:end], file.path)


@dataclass(frozen=True)
class _Memory(SourceFile):
    """Placeholder for the file of data in memory, which never change."""

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        raise NotImplementedError

    def check_unchanged(self) -> None:
        pass
