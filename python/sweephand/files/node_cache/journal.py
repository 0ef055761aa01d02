"""Journal of a node's cache: the entries that its processes keep and remove.

A file of records (`run/records.py`), appended under the lock of the folder. A block is what was
appended at once; its payload has 64 bytes of each record, little-endian:

    kept 1 | zeros 7 | key 16 | corpus 8 | timeline 8 | chunk 8 | bytes 8 | needed next 8
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sweephand.files.node_cache.entries import Key
from sweephand.run.locks import Descriptor
from sweephand.run.records import RecordKind, pack_block, whole_blocks

JOURNAL = RecordKind(b"SWEEPJRN", 1, "journal of a node cache", "delete the folder")
_RECORD = struct.Struct("<B7x16sQQQQQ")


class JournalRecord(NamedTuple):
    """JournalRecord of an entry."""

    is_kept: bool  # false: it is gone, and the rest says nothing but its key
    key: Key
    # digests: in which chunks mean the same, and in which times do
    corpus: int = 0
    timeline: int = 0
    chunk: int = 0  # the chunk that was being loaded
    num_bytes: int = 0  # of the file
    time: int = 0  # when it is needed next, in nominal time


class Journal(Descriptor):
    """Records that were appended by any process, read as far as they go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_CREAT | os.O_APPEND)
        self._read = 0  # by `news`
        self._end = 0  # of the last whole block that was seen

    def append(self, records: Iterable[JournalRecord]) -> None:
        """Add records: the other processes see all of them or none."""
        self._read_blocks(self._end)
        begin = self._end
        block = pack_block(b"", b"".join(_RECORD.pack(*record) for record in records))
        data = block if begin else JOURNAL.head + block
        os.ftruncate(self._fd, begin)  # the torn end: the disk was full
        if os.pwrite(self._fd, data, begin) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def news(self) -> Iterator[JournalRecord]:
        """Iterate over the records that were not read yet, own ones too."""
        for payload in self._read_blocks(self._read):
            for kept, *rest in _RECORD.iter_unpack(payload):
                yield JournalRecord(bool(kept), *rest)
        self._read = self._end

    def rewrite(self, records: Iterable[JournalRecord]) -> None:
        """Replace the journal by these records; the caller must be its only user."""
        os.ftruncate(self._fd, 0)
        self._read = self._end = 0
        self.append(records)

    def _read_blocks(self, begin: int) -> list[memoryview]:
        """Return the payloads of the whole blocks from a place on, and note where they end.

        Where something else is, the file is read anew: others have dropped what was damaged.
        """
        size = os.fstat(self._fd).st_size
        content = memoryview(os.pread(self._fd, max(size - begin, 0), begin))
        if not begin and not JOURNAL.begins(content):
            self._end = 0
            return []
        blocks = list(whole_blocks(content, 0 if begin else len(JOURNAL.head)))
        self._end = begin + (blocks[-1].end if blocks else 0 if begin else len(JOURNAL.head))
        if self._end != size and begin:
            return self._read_blocks(0)
        return [block.payload(content) for block in blocks]
