"""Examples of ArrayRecord files, any of them at any time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.tfds.builder_info import StoredSplit
from sweephand.ext.tfds.records import Records
from sweephand.extend import PADDING, ArrayRecords, SourceFile, offsets_of, stat_all


class ArrayRecordFiles:
    """The records of all files of several splits; see `RecordFiles`.

    FileNotFoundError if a file is absent; ImportError if the package ``array_record`` is not
    installed; DataError if a file has another number of records than the folder says, or is
    damaged.
    """

    index_path = None  # every file has its own

    def __init__(self, splits: Sequence[StoredSplit]) -> None:
        self.files: list[SourceFile] = []
        num_records = 0
        for split in splits:
            files = stat_all(split.files) if split.files else []
            for file, wanted in zip(files, split.shard_lengths, strict=True):
                count = len(ArrayRecords(file))
                if count != wanted:
                    raise DataError(
                        f"the shard has {count} examples, dataset_info.json says {wanted}",
                        file.path,
                    )
                num_records += count
            self.files += files
        self.paths = [file.path for file in self.files]
        self.mean_bytes = sum(file.size for file in self.files) / max(1, num_records)

    def read(self, files: NDArray[np.int64], numbers: NDArray[np.int64]) -> Records:
        """Read records, given by their file and their number in it."""
        found: list[bytes] = [b""] * len(files)
        lost: dict[int, DataError] = {}
        for number in np.unique(files).tolist():
            stored = ArrayRecords(self.files[number])
            stored.file.check_unchanged()
            places = np.flatnonzero(files == number).tolist()
            try:
                records = stored.read(numbers[places].tolist())
            except DataError:
                records = self._read_each(stored, numbers, places, lost)
            for place, record in zip(places, records, strict=True):
                found[place] = record
        content = np.frombuffer(b"".join(found) + bytes(PADDING), np.uint8)
        return Records(content, None, offsets_of([len(one) for one in found]), lost)

    def _read_each(
        self,
        stored: ArrayRecords,
        numbers: NDArray[np.int64],
        places: Sequence[int],
        lost: dict[int, DataError],
    ) -> list[bytes]:
        """Read records singly, and find those that cannot be read."""
        records = []
        for place in places:
            try:
                records += stored.read([int(numbers[place])])
            except DataError as error:
                lost[place] = error
                records.append(b"")
        return records
