"""Files of records with bare values, for formats that only say where the next record is.

::

    file      | head | values | head | values | ...
    a format          ^^^^^^^^        ^^^^^^^^  finds their places, in one reading
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.columns import offsets_of
from sweephand.corpus.stream_defs import StreamDef, StreamDefs
from sweephand.corpus.wanted_streams import StreamsLike
from sweephand.deserializers.units.guard import guarded
from sweephand.deserializers.units.placed import PlacedDeserializer, add_placed, add_units
from sweephand.deserializers.units.row_ids import RowIds
from sweephand.deserializers.units.unit_scan import SampleType, UnitScan
from sweephand.errors import DataError, StaleError
from sweephand.files.content_file import ContentFile
from sweephand.files.index_file import Advance
from sweephand.files.index_places import Keep
from sweephand.files.local import LocalFile, join_pieces
from sweephand.files.range_reader import open_to_scan
from sweephand.files.source_file import FileList, Files, SourceFile, room_for

_MOST_UNSEEN = 1 << 20  # records of a damaged file that are believed to have been there
_ABSENT = 0, -1

Places = Mapping[str, tuple[int, int]]
"""Where the values of each field of a record begin in the file, and their size, in bytes."""


@dataclass
class FoundRecords:
    """The records of a file.

    Attributes
    ----------
    places : dict of ndarray of int64, shape (records, 2)
        Begin and size in bytes of the values of each stream; a size of -1 where there are none.
    faults : dict of DataError
        Of records that are lost, by their numbers.
    samples : dict of SampleType
        Types that the file alone says: of streams whose fields have None for theirs.
    rest : DataError or None
        The reason why nobody knows how many records follow.
    """

    places: dict[str, NDArray[np.int64]]
    faults: dict[int, DataError] = field(default_factory=dict)
    samples: dict[str, SampleType] = field(default_factory=dict)
    rest: DataError | None = None


class RecordDeserializer(PlacedDeserializer):
    """Serve records that `find_records` finds in files, each a sequence.

    Attributes
    ----------
    samples : dict of (SampleType, or None)
        The fields of records, and the type of their samples: numbers of this machine's byte
        order, or bytes, of which a record has one sample, or, where a stream declares a
        ``dtype``, the numbers in them. None: `find_all` says it of each file.
    """

    samples: Mapping[str, SampleType | None]

    def __init__(
        self,
        files: Files | FileList,
        streams: StreamsLike | None = None,
        *,
        index: Keep = "auto",
        ids: RowIds | None = None,
    ) -> None:
        super().__init__(files, streams, index=index, ids=ids)
        for name, one in self.fields.items():
            self._kind_of(one, name)

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
        raise NotImplementedError

    def find_all(self, file: SourceFile) -> FoundRecords:
        """Find the records of a file, by `find_records`, or by a table that the file has."""
        records: list[Places] = []
        faults: dict[int, DataError] = {}
        rest: DataError | None = None
        try:
            with open_to_scan(file) as content, guarded(file.path):
                for one in self.find_records(content):
                    if isinstance(one, DataError):
                        faults[len(records)] = one
                        one = {}
                    records.append(one)
        except StaleError:
            raise
        except DataError as error:
            rest = error.within(file=file.path, sequence=len(records))
        places = {
            name: np.array([one.get(at, _ABSENT) for one in records], np.int64).reshape(-1, 2)
            for name, at in self.fields.items()
        }
        return FoundRecords(places, faults, rest=rest)

    def count_records(self, file: SourceFile) -> int | None:
        """Return the records of a file, if something beside it says how many they are."""
        return None

    def guess_streams(self) -> StreamDefs:
        """Return a stream for each field."""
        if not self.samples:
            raise DataError("there is no field that can be served", self.files[0].path)
        return StreamDefs({name: StreamDef() for name in self.samples})

    def scan_units(self, file: SourceFile, advance: Advance) -> UnitScan:
        """Find the records; those whose values are cut, or no whole samples, are damaged."""
        scan = UnitScan()
        try:
            found = self.find_all(file)
        except StaleError:
            raise
        except DataError as error:
            count = self.count_records(file)
            is_known = count is not None and count <= max(_MOST_UNSEEN, file.size)
            rows = range(count if count is not None and is_known else 0)
            scan.add_error(error.within(file=file.path), rows if is_known else None)
            lost = np.tile(np.array([_ABSENT], np.int64), (len(rows), 1))
            found = FoundRecords(dict.fromkeys(self.fields, lost))
        faults = {
            row: error.within(file=file.path, sequence=row)
            for row, error in found.faults.items()
        }
        total: NDArray[np.int64] | int = 0
        for name, one in self.fields.items():
            kind = self._kind_of(one, name) or found.samples.get(name)
            begins, sizes = found.places[name].T.copy()
            lengths = np.where(sizes < 0, 0, 1)
            begins[sizes < 0] = sizes[sizes < 0] = 0
            width = 1 if kind is None or kind.are_bytes else kind.sample_bytes
            is_there = (begins >= 0) & (begins <= file.size - sizes)
            for row in np.flatnonzero(~is_there | (sizes % width != 0)).tolist():
                reason = f"its {sizes[row]} bytes are " + (
                    f"no whole number of {width}" if is_there[row] else "not in the file"
                )
                at = int(max(begins[row], 0))
                faults.setdefault(row, DataError(reason, file.path, at, None, name, row))
            blank = list(faults)
            begins[blank] = sizes[blank] = lengths[blank] = 0
            if kind is not None and not kind.are_bytes:
                lengths = sizes // width
            add_placed(scan, name, kind, lengths, begins, sizes)
            total += sizes
        scan.add_faults(faults)
        if found.rest is not None:
            scan.add_error(found.rest)
        assert isinstance(total, np.ndarray)
        if isinstance(file, ContentFile) and len(total):  # it is unpacked as a whole
            scan.rows, scan.num_bytes = [len(total)], [int(total.sum())]
        else:
            add_units(scan, total)
        advance(file.size)
        return scan

    def _kind_of(self, field: str, stream: str) -> SampleType | None:
        """Return the type of a stream's samples; None if each file says it."""
        if field not in self.samples:
            reason = f"there is no field {field!r}, there are: {', '.join(self.samples)}"
            if field in self.left_out:
                reason = f"the field {field!r} cannot be served: {self.left_out[field]}"
            raise DataError(reason, self.files[0].path, stream=stream)
        kind, wanted = self.samples[field], self.definitions[stream]
        if kind is None:
            return None
        dtype = None if wanted.dtype is None else np.dtype(wanted.dtype)
        if kind.are_bytes and dtype is not None and dtype.kind in "iuf":
            kind = SampleType(dtype.name, wanted.sample_shape or ())
        return replace(kind, is_ragged=True)


Gather = Callable[[NDArray[np.integer], NDArray[np.integer]], NDArray[np.uint8]]


def gatherer(file: SourceFile) -> Gather:
    """Return what joins short runs of a file's bytes, by begins and sizes.

    A local file is read there alone; from a store, or unpacked, it is read as a whole, once.
    """
    if isinstance(file, LocalFile):
        run = join_pieces([file], np.array([[0, 0, file.size]], np.uint64))

        def gather(
            begins: NDArray[np.integer], sizes: NDArray[np.integer]
        ) -> NDArray[np.uint8]:
            found = room_for(int(sizes.sum()), file.path)
            run.gather(begins.astype(np.uint64), sizes.astype(np.uint64), found)
            return found

        return gather
    content = file.fetch(0, file.size)

    def pick(begins: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.uint8]:
        within = np.arange(int(sizes.sum())) - np.repeat(offsets_of(sizes)[:-1], sizes)
        return content[np.repeat(begins, sizes) + within]

    return pick
