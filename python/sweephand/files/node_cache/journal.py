"""What the processes of a node tell each other of a cache: what is kept, and what is gone.

Records of one size, one behind the other, appended under the lock of the folder; all numbers
are little-endian:

    kept 1 | zeros 7 | key 16 | corpus 8 | timeline 8 | chunk 8 | bytes 8 | needed next 8
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sweephand.files.node_cache.entries import Key
from sweephand.run.descriptor import Descriptor

_RECORD = struct.Struct("<B7x16sQQQQQ")


class Record(NamedTuple):
    """What is told of an entry.

    Attributes
    ----------
    is_kept : bool
        False: it is gone, and the rest says nothing but its key.
    corpus, timeline : int
        Digests: in which chunks mean the same, and in which times do.
    chunk : int
        The chunk that was being loaded.
    num_bytes : int
        Of the file.
    time : int
        When it is needed next, in nominal time.
    """

    is_kept: bool
    key: Key
    corpus: int = 0
    timeline: int = 0
    chunk: int = 0
    num_bytes: int = 0
    time: int = 0


class Journal(Descriptor):
    """Records that were appended by any process, read as far as they go.

    Parameters
    ----------
    path : Path
        A file, made if need be.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_CREAT | os.O_APPEND)
        self._read = 0

    def append(self, records: Iterable[Record]) -> None:
        """Tell the others; they see all of the records, or those before some place."""
        told = b"".join(_RECORD.pack(*record) for record in records)
        torn = os.fstat(self._fd).st_size % _RECORD.size  # the disk was full
        if torn:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - torn)
        if os.write(self._fd, told) < len(told):
            raise OSError(28, os.strerror(28))

    def news(self) -> Iterator[Record]:
        """Iterate over the records that were not read yet, own ones too."""
        size = os.fstat(self._fd).st_size
        told = os.pread(self._fd, size - self._read, self._read)
        told = told[: len(told) - len(told) % _RECORD.size]
        self._read += len(told)
        for kept, *rest in _RECORD.iter_unpack(told):
            yield Record(bool(kept), *rest)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Begin anew with these. Only for one who is alone."""
        os.ftruncate(self._fd, 0)
        self._read = 0
        self.append(records)
