"""The blocks of a ledger's file: each is whole, by its checksums, or is not there.

::

    file     | block | block | ...                       the last one may be torn
    block    | header | checksum of it: u32 | payload |
    header   | "SWLB" | u8 kind | u8 bytes of a number | u16 version | u32 steps | u32 rows
             | u32 payload bytes | u32 checksum of them | u64 first step | u64 last step |

    VISITS   | u64 step | ... | u64 nominal time | ... | u32 rows | ...      one for each step
             | number | ... | u32 samples | ... | f32 loss | ...             one for each row
    NAMES    JSON: lists "numbers", "names" and "corpora" of sequences
    SHARDS   JSON: lists "shards" and "starts" of a corpus whose ids are numbers in its shards
    REWIND   no payload: rows of this file before it, behind its last step, are dropped

All is little endian, checksums are CRC32C. A number is that of a sequence in its corpus, in 4
bytes or, where one of a block is too large for them, in 8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from sweephand import _core
from sweephand.errors import DataError

_MAGIC = b"SWLB"
_VERSION = 1
_HEADER = struct.Struct("<4sBBHIIIIQQ")
_CHECKSUM = struct.Struct("<I")
_PREFIX = _HEADER.size + _CHECKSUM.size
_WINDOW = 1 << 20  # bytes that are searched at a time


class Kind(IntEnum):
    """What a block holds."""

    VISITS = 1
    NAMES = 2
    SHARDS = 3
    REWIND = 4


_KINDS = frozenset(map(int, Kind))


@dataclass(frozen=True)
class Block:
    """A block of a file.

    Attributes
    ----------
    kind : Kind
    first_step, last_step : int
        Of its rows; of other kinds both are the last step before it.
    number_bytes, num_steps, num_rows : int
        Of visits; else 0.
    begin, end : int
        Where the block lies in its file.
    checksum : int
        Of the payload, which ends where the block does.
    """

    kind: Kind
    first_step: int
    last_step: int
    number_bytes: int = 0
    num_steps: int = 0
    num_rows: int = 0
    begin: int = 0
    end: int = 0
    checksum: int = 0

    def packed(self, payload: bytes = b"") -> bytes:
        """Return the bytes of a block with this payload."""
        header = _HEADER.pack(
            _MAGIC, self.kind, self.number_bytes, _VERSION, self.num_steps, self.num_rows,
            len(payload), _core.formats.crc32c(payload), self.first_step, self.last_step,
        )  # fmt: skip
        return header + _CHECKSUM.pack(_core.formats.crc32c(header)) + payload

    def payload(self, content: memoryview) -> memoryview:
        """Return the payload in the bytes of the file, whatever its checksum."""
        return content[self.begin + _PREFIX : self.end]

    def is_whole(self, content: memoryview) -> bool:
        """Whether the payload has its checksum."""
        return _core.formats.crc32c(self.payload(content)) == self.checksum


def blocks_of(content: memoryview, path: str) -> list[Block]:
    """Return the blocks of a file, but for a last one that is torn.

    Payloads are not looked at, but for that of the last block.

    Raises
    ------
    DataError
        If what is damaged has whole blocks behind it, or a later version has written them.
    """
    blocks = list(_walk(content, path))
    end = blocks[-1].end if blocks else 0
    if _has_block(content, end, path):
        raise DataError("this block of the ledger is damaged", path, end)
    if blocks and not blocks[-1].is_whole(content):
        blocks.pop()
    return blocks


def _walk(content: memoryview, path: str) -> Iterator[Block]:
    begin = 0
    while (block := _block_at(content, begin, path)) is not None:
        yield block
        begin = block.end


def _block_at(content: memoryview, begin: int, path: str) -> Block | None:
    """Return the block that begins here, or None if it is not there or torn."""
    if begin + _PREFIX > len(content):
        return None
    header = content[begin : begin + _HEADER.size]
    [checksum] = _CHECKSUM.unpack_from(content, begin + _HEADER.size)
    if header[:4] != _MAGIC or _core.formats.crc32c(header) != checksum:
        return None
    _, kind, width, version, steps, rows, size, payload, first, last = _HEADER.unpack(header)
    if version != _VERSION or kind not in _KINDS:
        raise DataError(
            f"this block of a ledger has version {version} and kind {kind}, which this version "
            "of sweephand does not know",
            path,
            begin,
        )
    end = begin + _PREFIX + size
    if end > len(content):
        return None
    return Block(Kind(kind), first, last, width, steps, rows, begin, end, payload)


def _has_block(content: memoryview, begin: int, path: str) -> bool:
    """Whether a whole block lies somewhere behind a place."""
    for window in range(begin, len(content), _WINDOW):
        data = bytes(content[window : window + _WINDOW + len(_MAGIC) - 1])
        at = data.find(_MAGIC)
        while at >= 0:
            block = _block_at(content, window + at, path)
            if block is not None and block.is_whole(content):
                return True
            at = data.find(_MAGIC, at + 1)
    return False
