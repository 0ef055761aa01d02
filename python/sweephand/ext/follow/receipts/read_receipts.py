"""Files of receipts as they are read, whole or damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from sweephand import DataError
from sweephand.ext.follow.ledger.step_log import worker_files
from sweephand.ext.follow.receipts.header import Header
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    CHAIN_BYTES,
    Receipt,
    first_chain,
    next_chain,
    receipts_in,
)
from sweephand.extend import open_regular

SUFFIX = ".receipts"


class Link(NamedTuple):
    """A receipt as a file has it."""

    number: int  # how many are before it
    receipt: Receipt
    # its chain, and what it must be: the chain is broken where they differ
    chain: bytes
    wanted: bytes


@dataclass(frozen=True)
class ReceiptsOfWorker:
    """The receipts that one worker has written."""

    path: Path
    header: Header
    content: memoryview
    begin: int  # of the first receipt

    def links(self) -> Iterator[Link]:
        """Yield all receipts and the seal or mark, each chained to the bytes before it."""
        chain = first_chain(self.content[: self.begin])
        for number, (found, data) in enumerate(receipts_in(self.content, self.begin)):
            yield Link(number, Receipt.unpacked(data), found, next_chain(chain, data))
            chain = found

    @property
    def head(self) -> bytes:
        """The chain of the last receipt before the seal or mark."""
        for at in range(self.begin + self._num_whole * BYTES, self.begin, -BYTES):
            data = self.content[at - BYTES : at]
            if not Receipt.unpacked(data[CHAIN_BYTES:]).is_end:
                return bytes(data[:CHAIN_BYTES])
        return first_chain(self.content[: self.begin])

    @property
    def _num_whole(self) -> int:
        return (len(self.content) - self.begin) // BYTES

    @cached_property
    def by_step(self) -> dict[int, Receipt]:
        """Receipts by their steps."""
        return {link.receipt.step: link.receipt for link in self.links()}


def read_file(path: Path) -> ReceiptsOfWorker:
    """Return the receipts in a file."""
    with open_regular(path) as file:
        content = memoryview(file.read())
    found = Header.read(content, str(path))
    if found is None:
        if len(content):
            raise DataError("the header of this file of receipts is torn", str(path), 0)
        raise FileNotFoundError(errno.ENOENT, "there are no receipts yet", str(path))
    return ReceiptsOfWorker(path, found[0], content, found[1])


def read_receipts(folder: Path) -> list[ReceiptsOfWorker]:
    """Return the receipts of all workers, the first one's first."""
    files = worker_files(folder, SUFFIX)
    if 0 not in files:
        reason = f"there are no receipts: no file 0{SUFFIX} in this folder"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    return [read_file(path) for path in files.values()]
