"""The records of TFRecord files, found piece by piece.

bytes of the data 8 | checksum of that 4 | data | its checksum 4
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.deserializers.units.tf_examples import PADDING
from sweephand.errors import DataError
from sweephand.files.contents import read_some, taken_from
from sweephand.files.index_file import Advance
from sweephand.files.source_file import SourceFile

UNIT_BYTES = 1 << 20
HEAD, TAIL = 12, 4  # bytes before and after the data of a record
MOST_RECORD_BYTES = 1 << 30  # a whole record is in memory at a time


class Run(NamedTuple):
    """Whole records: their bytes and padding, their places, and the number of the first."""

    records: NDArray[np.uint8]
    begin: int
    end: int
    first: int


def find_runs(
    content: io.BufferedReader, file: SourceFile, size: int | None, advance: Advance
) -> Iterator[Run]:
    """Yield runs of whole records of a file, until something is wrong with a frame."""
    finder = _core.formats.FrameFinder(file.path)
    pieces: list[bytes] = []  # from `begin` on
    begin = num_records = at = reported = 0
    while piece := read_some(content, UNIT_BYTES):
        fault: DataError | None = None  # of a record's head, after whole records
        try:
            finder.feed(at, np.frombuffer(piece, np.uint8))
        except DataError as error:
            fault = error
        at += len(piece)
        pieces.append(piece)
        num_whole = finder.num_whole(at)
        if num_whole > num_records:
            joined = b"".join(pieces)
            end = finder.offset_of(num_whole)
            padded = np.frombuffer(joined[: end - begin] + bytes(PADDING), np.uint8)
            yield Run(padded, begin, end, num_records)
            pieces, begin, num_records = [joined[end - begin :]], end, num_whole
        if fault is not None:
            raise fault
        if finder.num_records:
            _check_length(finder, file, size)
        advance(taken_from(content) - reported)
        reported = taken_from(content)
    finder.finish(at)


def is_record_head(head: bytes) -> bool:
    """Return True if bytes are the header of a record."""
    checksum = int.from_bytes(head[8:], "little")
    own = _core.formats.mask_crc(_core.formats.crc32c(head[:8]))
    return len(head) == HEAD and own == checksum


def messages_in(content: bytes) -> Iterator[bytes]:
    """Yield the data of the whole records at the start of a buffer."""
    at = 0
    while at + HEAD <= len(content):
        begin = at + HEAD
        end = begin + int.from_bytes(content[at : at + 8], "little")
        if end > len(content):
            return
        yield content[begin:end]
        at = end + TAIL


def _check_length(
    finder: _core.formats.FrameFinder, file: SourceFile, size: int | None
) -> None:
    """Refuse a record that is too long before its bytes are read."""
    number = finder.num_records - 1
    begin, end = finder.offset_of(number), finder.offset_of(number + 1)
    if size is not None and end > size:
        finder.finish(size)  # raises
    if end - begin > MOST_RECORD_BYTES:
        raise DataError(
            f"the record has {end - begin - HEAD - TAIL} bytes; at most {MOST_RECORD_BYTES} "
            "are read at once",
            file.path,
            begin,
            sequence=number,
        )
