"""Files of records with bare values, for formats that only say where the next record is.

::

    file      | head | values | head | values | ...
    a format          ^^^^^^^^        ^^^^^^^^  finds their places, in one reading
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO, ClassVar

import numpy as np

from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.deserializers.units.guard import guarded
from sweephand.deserializers.units.placed import PlacedDeserializer, add_placed, add_units
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.index_file import Advance
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import SourceFile

Places = Mapping[str, tuple[int, int]]
"""Where the values of each field of a record begin in the file, and their size, in bytes."""


class RecordDeserializer(PlacedDeserializer):
    """Serve records that `find_records` finds in files, each a sequence.

    Attributes
    ----------
    samples : dict of SampleType
        The fields of records, and the type of their samples: numbers of this machine's byte
        order, or bytes, of which a record has one sample.
    """

    samples: ClassVar[Mapping[str, SampleType]]

    @abstractmethod
    def find_records(self, content: BinaryIO) -> Iterator[Places | DataError]:
        """Find the records of a file, which is read once from beginning to end.

        Yields
        ------
        dict of (int, int), or DataError
            Begin and size of the values of each field; a field that a record lacks is left out.
            An error is yielded in place of a record that is lost, and keeps its number.

        Raises
        ------
        DataError, EOFError, struct.error
            If the rest of the file cannot be read.
        """

    def guess_streams(self) -> StreamDefs:
        """Return a stream for each field."""
        return StreamDefs({name: StreamDef() for name in self.samples})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Find the records; those whose values are cut, or no whole samples, are damaged."""
        scan = UnitScan()
        records: list[Places] = []
        try:
            with open_to_scan(file) as content, guarded(file.path):
                for one in self.find_records(content):
                    if isinstance(one, DataError):
                        scan.add_error(
                            one.within(file=file.path, sequence=len(records)), [len(records)]
                        )
                        one = {}
                    records.append(one)
                    advance(content.tell())
        except StaleError:
            raise
        except DataError as error:  # the rest cannot be found
            scan.add_error(error.within(file=file.path, sequence=len(records)))
        faults: dict[int, DataError] = {}
        total = np.zeros(len(records), np.int64)
        for name, field in self.fields.items():
            if field not in self.samples:
                reason = f"there is no field {field!r}, there are: {', '.join(self.samples)}"
                raise DataError(reason, file.path, stream=name)
            kind = replace(self.samples[field], is_ragged=True)
            width = 1 if kind.are_bytes else kind.sample_bytes
            places = [one.get(field, (0, 0)) for one in records]
            begins, sizes = np.array(places, np.int64).reshape(-1, 2).T.copy()
            is_whole = (sizes >= 0) & (begins >= 0) & (begins <= file.size - sizes)
            for row in np.flatnonzero(~is_whole | (sizes % width != 0)).tolist():
                reason = f"its {sizes[row]} bytes are not in the file, or no whole samples"
                at = int(max(begins[row], 0))
                faults.setdefault(row, DataError(reason, file.path, at, None, name, row))
                begins[row] = sizes[row] = 0
            lengths = sizes // width
            if kind.are_bytes:
                lengths = np.array([field in one for one in records], np.int64)
            add_placed(scan, name, kind, lengths, begins, sizes)
            total += sizes
        scan.add_faults(faults)
        add_units(scan, total)
        return scan
