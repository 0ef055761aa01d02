"""Files of records: each is whole, by its checksums, or is not there.

::

    file   | magic: 8 bytes | u32 version | u32 checksum of these 12 bytes | block | block | ...
    block  | "SWBK" | u32 label bytes | u64 payload bytes | u32 checksum of the payload
           | u32 checksum of the 20 bytes before and the label | label | payload |

All is little endian, checksums are CRC32C. A label is small, and is checked where blocks are
listed; a payload is checked when it is read. A block that a kill or a power
failure has torn is ignored; it is the last one of its file.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sweephand import _core
from sweephand.errors import DataError
from sweephand.run.locks import FileLock
from sweephand.run.writing import writing


class AppendedFile:
    """A file that the holder of its lock appends to.

    Parameters
    ----------
    lock : FileLock
        The open file. It is closed with this one.
    kept : str
        What stays of the file if a write fails, for errors.

    Attributes
    ----------
    end : int
        End of what counts, in bytes. What follows is written over.
    """

    def __init__(self, lock: FileLock, kept: str = "") -> None:
        self.end = 0
        self.lock = lock
        self._kept = kept

    def content(self) -> memoryview:
        """Map the file, which only this process shortens."""
        if not os.fstat(self.lock.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self.lock.fileno(), 0, access=mmap.ACCESS_READ))

    def append(self, data: bytes) -> None:
        """Write after the end that counts, and drop all bytes after that."""
        end, left = self.end, memoryview(data)
        with writing(self.lock.path, self._kept):
            while left:
                written = os.pwrite(self.lock.fileno(), left, end)
                end, left = end + written, left[written:]
            os.ftruncate(self.lock.fileno(), end)  # a torn piece may have been longer
        self.end = end

    def cut(self, end: int) -> None:
        """Drop all after a place."""
        with writing(self.lock.path, self._kept):
            os.ftruncate(self.lock.fileno(), end)
        self.end = end

    def sync(self) -> None:
        """Return when the disk has it."""
        with writing(self.lock.path, self._kept):
            os.fsync(self.lock.fileno())

    def close(self) -> None:
        """Close the file and release its lock."""
        self.lock.close()


_HEAD = struct.Struct("<8sII")
_BLOCK = struct.Struct("<4sIQII")
_MARK = b"SWBK"
_CHECKED = _BLOCK.size - 4  # of a block's head, by the checksum at its end

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class RecordKind:
    """A kind of files of records."""

    magic: bytes  # the first 8 bytes of its files
    version: int  # the only version that is read and written
    # for errors: "ledger of losses", and what to do with a file of another version
    name: str
    remedy: str

    @property
    def head(self) -> bytes:
        """The first 16 bytes of a file."""
        packed = self.magic + self.version.to_bytes(4, "little")
        return packed + _core.formats.crc32c(packed).to_bytes(4, "little")

    def begins(self, content: Bytes) -> bool:
        """Return True if a file of these first bytes is of this kind and version."""
        return bytes(content[: _HEAD.size]) == self.head

    def check(self, content: Bytes, path: str) -> int:
        """Return where the blocks of a file begin: 0 if nothing is written yet."""
        found = bytes(content[: _HEAD.size])
        if found == self.head:
            return _HEAD.size
        is_torn = self.head.startswith(found) or not any(found)
        if is_torn and not has_block(content, 0):
            return 0
        reason = f"this is no {self.name} of version {self.version}, or it is damaged"
        raise DataError(f"{reason}; {self.remedy}", path, 0)


@dataclass(frozen=True)
class Block:
    """A block of a file."""

    label: bytes
    # its place in the file, in bytes
    begin: int
    payload_begin: int
    end: int
    checksum: int  # of the payload, which ends where the block does

    def payload(self, content: memoryview) -> memoryview:
        """Return the payload in the bytes of the file, not checked."""
        return content[self.payload_begin : self.end]

    def is_whole(self, content: memoryview) -> bool:
        """Return True if the payload has its checksum."""
        return _core.formats.crc32c(self.payload(content)) == self.checksum


def block_head(label: bytes, payload: Bytes) -> bytes:
    """Return the bytes of a block before its payload."""
    size = memoryview(payload).nbytes
    checked = _BLOCK.pack(_MARK, len(label), size, _core.formats.crc32c(payload), 0)[:_CHECKED]
    return checked + _core.formats.crc32c(checked + label).to_bytes(4, "little") + label


def pack_block(label: bytes, payload: Bytes) -> bytes:
    """Return the bytes of a block."""
    return block_head(label, payload) + payload


def blocks_in(content: Bytes, begin: int) -> Iterator[Block]:
    """Yield the blocks from a place on; the payloads are not looked at."""
    while (block := _block_at(content, begin)) is not None:
        yield block
        begin = block.end


def blocks_of(content: memoryview, kind: RecordKind, path: str) -> list[Block]:
    """Return the blocks of a file that must not be lost, except a torn last block.

    Payloads are not looked at, except that of the last block.
    """
    begin = kind.check(content, path)
    blocks = list(blocks_in(content, begin)) if begin else []
    end = blocks[-1].end if blocks else begin
    if has_block(content, end):
        raise DataError(f"this block of the {kind.name} is damaged", path, end)
    if blocks and not blocks[-1].is_whole(content):
        blocks.pop()
    return blocks


def read_block(file: BinaryIO) -> tuple[bytes, memoryview]:
    """Read label and payload of the next block; a damaged size takes no memory."""
    begin = file.tell()
    head = file.read(_BLOCK.size)
    left = os.fstat(file.fileno()).st_size - begin - len(head)
    if len(head) == _BLOCK.size and head[:4] == _MARK:
        _, label_bytes, payload_bytes, checksum, head_checksum = _BLOCK.unpack(head)
        if label_bytes + payload_bytes <= left:
            label = file.read(label_bytes)
            if _core.formats.crc32c(head[:_CHECKED] + label) == head_checksum:
                payload = _core.read.empty_bytes(payload_bytes).data
                is_whole = file.readinto(payload) == payload_bytes  # type: ignore[attr-defined]
                if is_whole and _core.formats.crc32c(payload) == checksum:
                    return label, payload
    raise ValueError(f"the block at byte {begin} is damaged or torn")


def has_block(content: Bytes, begin: int) -> bool:
    """Return True if a whole block exists after a place."""
    view = memoryview(content)
    marks = re.finditer(_MARK, view[begin:])
    blocks = (_block_at(view, begin + mark.start()) for mark in marks)
    return any(block is not None and block.is_whole(view) for block in blocks)


def _block_at(content: Bytes, begin: int) -> Block | None:
    """Return the block that begins here, or None if there is none or it is torn."""
    if begin + _BLOCK.size > len(content) or content[begin : begin + 4] != _MARK:
        return None
    _, label_bytes, payload_bytes, checksum, head_checksum = _BLOCK.unpack_from(content, begin)
    label_begin = begin + _BLOCK.size
    payload_begin = label_begin + label_bytes
    end = payload_begin + payload_bytes
    if end > len(content):
        return None
    label = bytes(content[label_begin:payload_begin])
    checked = bytes(content[begin : begin + _CHECKED]) + label
    if _core.formats.crc32c(checked) != head_checksum:
        return None
    return Block(label, begin, payload_begin, end, checksum)
