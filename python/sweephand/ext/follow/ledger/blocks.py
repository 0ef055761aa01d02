"""The blocks of a ledger's file, which is a file of records (`run/records.py`).

::

    label    u8 kind | u8 bytes of a number | u16 0 | u32 steps | u32 rows | u64 first step
             | u64 last step
    payload by kind:
    VISITS   u64 step | ... | u64 nominal time | ... | u32 rows | ...      one for each step
             number | ... | u32 samples | ... | f32 loss | ...             one for each row
    NAMES    JSON: lists "numbers", "names" and "corpora" of sequences
    SHARDS   JSON: lists "shards" and "starts" of a corpus whose ids are numbers in its shards
    REWIND   nothing: rows of this file before it, after its last step, are dropped

All is little endian. A number is that of a sequence in its corpus, in 4 bytes or, where one of
a block is too large for them, in 8.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from sweephand import DataError
from sweephand.extend import Block, RecordKind, records

LEDGER = RecordKind(
    b"SWEEPLSS",
    2,
    "ledger of losses",
    "read it with the version of sweephand that wrote it, or name another folder",
)
_LABEL = struct.Struct("<BBHIIQQ")


class Kind(IntEnum):
    """Contents of a block."""

    VISITS = 1
    NAMES = 2
    SHARDS = 3
    REWIND = 4


_KINDS = frozenset(map(int, Kind))


@dataclass(frozen=True)
class LedgerBlock:
    """A block of a ledger's file."""

    kind: Kind
    # of its rows; of other kinds both are the last step before it
    first_step: int
    last_step: int
    # of visits; else 0
    number_bytes: int
    num_steps: int
    num_rows: int
    frame: Block  # its place in its file


def pack_block(
    kind: Kind,
    first_step: int,
    last_step: int,
    payload: bytes = b"",
    *,
    number_bytes: int = 0,
    num_steps: int = 0,
    num_rows: int = 0,
) -> bytes:
    """Return the bytes of a block, as `LedgerBlock` describes it."""
    label = _LABEL.pack(kind, number_bytes, 0, num_steps, num_rows, first_step, last_step)
    return records.pack_block(label, payload)


def blocks_of(content: memoryview, path: str) -> list[LedgerBlock]:
    """Return the blocks of a file, except a torn last block.

    Payloads are not looked at, except that of the last block.
    """
    return [_parse(block, path) for block in records.blocks_of(content, LEDGER, path)]


def _parse(block: Block, path: str) -> LedgerBlock:
    if len(block.label) != _LABEL.size or block.label[0] not in _KINDS:
        raise DataError("this is no block of a ledger of losses", path, block.begin)
    kind, width, _, steps, rows, first, last = _LABEL.unpack(block.label)
    return LedgerBlock(Kind(kind), first, last, width, steps, rows, block)
