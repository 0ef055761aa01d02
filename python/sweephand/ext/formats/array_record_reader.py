"""Records of ArrayRecord files by their numbers, read by its own package.

Its readers are kept, one for each file and thread: opening one reads where all records lie.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from sweephand import DataError
from sweephand.extend import LocalFile, OptionalModule, SourceFile

array_record = OptionalModule("array_record.python.array_record_module", extra="arrayrecord")

_RANDOM_ACCESS = "readahead_buffer_size:0,max_parallelism:0"
_READERS = 8  # that a thread keeps


class _Kept(threading.local):
    def __init__(self) -> None:
        self.readers: OrderedDict[tuple[int, SourceFile], Any] = OrderedDict()


_kept = _Kept()


class ArrayRecords:
    """Records of an ArrayRecord file, any of them at any time.

    Nothing is read until it is asked for, and nothing is kept here: an object is a name of a
    file. DataError if the file is cut or no ArrayRecord file, or if bytes are damaged.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def __len__(self) -> int:
        return int(_reader(self.file).num_records())

    @property
    def per_group(self) -> int:
        """How many records are compressed together."""
        found = re.search(r"group_size:(\d+)", _reader(self.file).writer_options_string())
        return max(1, int(found[1])) if found else 1

    def read(self, numbers: range | Sequence[int]) -> list[bytes]:
        """Return records by their numbers."""
        if not len(numbers):
            return []
        is_run = isinstance(numbers, range)
        which = (numbers[0], numbers[-1] + 1) if is_run else (list(numbers),)
        try:
            found: list[bytes] = _reader(self.file).read(*which)
        except (RuntimeError, IndexError, ValueError) as error:
            _kept.readers.pop((os.getpid(), self.file), None)  # it has failed for good
            raise DataError(_message_of(error), self.file.path) from error
        return found


def _reader(file: SourceFile) -> Any:
    """Return the reader of a file in this thread."""
    key = (os.getpid(), file)  # a forked process has its own
    reader = _kept.readers.get(key)
    if reader is not None:
        _kept.readers.move_to_end(key)
        return reader
    if not isinstance(file, LocalFile):
        raise ValueError(
            f"{file.path!r}: ArrayRecord files of a store are not read; copy them to a disk"
        )
    file.check_unchanged()
    try:
        reader = array_record.ArrayRecordReader(file.path, _RANDOM_ACCESS)
    except RuntimeError as error:
        raise DataError(_message_of(error), file.path) from error
    if not reader.ok():
        raise DataError(
            "no ArrayRecord file, or cut short: the table of its records cannot be read",
            file.path,
        )
    _kept.readers[key] = reader
    while len(_kept.readers) > _READERS:
        _kept.readers.popitem(last=False)
    return reader


def _message_of(error: Exception) -> str:
    """Return the message of its reader, in one line and without the file."""
    text = " ".join(str(error).split())
    return re.sub(r" \(?reading file://.*| at `?/.*", "", text)[:300]
