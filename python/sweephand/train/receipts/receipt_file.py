"""The file of receipts that one worker writes."""

from __future__ import annotations

import time
from pathlib import Path

from sweephand.errors import DataError
from sweephand.train.ledger.step_file import open_alone
from sweephand.train.receipts.header import Header
from sweephand.train.receipts.receipt import (
    BYTES,
    Receipt,
    first_chain,
    next_chain,
    receipts_in,
)

_MOST_WAITING = 64 * BYTES
_MOST_SECONDS = 5.0


class ReceiptFile:
    """A file of receipts that is open to be written to, by one process.

    Attributes
    ----------
    header : Header or None
        None while it is empty.
    last_step : int
        The last step that it has, those that wait to be written included; 0 if none.
    chain : bytes
        Of the last receipt.
    position : int or None
        Nominal time behind the last minibatch; None if that is not known.

    Raises
    ------
    OSError
        If it cannot be written to, or another process does so.
    DataError
        If it is no file of receipts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Header | None = None
        self.last_step = 0
        self.chain = b""
        self.position: int | None = None
        self._num_receipts = 0
        self._waiting = b""
        self._since = 0.0  # when the first of them came
        self._is_sealed = True  # or there is nothing to seal
        self._damaged: int | None = None  # where the chain breaks
        self._file = open_alone(path, "Receipts", "file of receipts")
        try:
            self._find_end(None)
        except BaseException:
            self._file.close()
            raise

    def _find_end(self, step: int | None) -> None:
        """Read the end of the file, as far as its chain goes, or up to a step.

        What lies behind is written over.
        """
        content = self._file.content()
        found = Header.read(content, str(self.path))
        self.header, self._file.end = found or (None, 0)
        self.last_step = self._num_receipts = 0
        self.chain = first_chain(content[: self._file.end])
        self.position = self.header.start["time"] if self.header else None
        self._is_sealed, self._damaged = found is None, None
        for chain, data in receipts_in(content, self._file.end):
            receipt = Receipt.unpacked(data)
            if chain != next_chain(self.chain, data):
                self._damaged = self._file.end
            elif receipt.is_end:
                self._is_sealed, self.position = receipt.is_seal, receipt.begin
            elif step is None or receipt.step <= step:
                self.chain, self.last_step = chain, receipt.step
                self._file.end += BYTES
                self._num_receipts += 1
                self.position = None
                continue
            else:
                self.position = receipt.begin
            return

    def begin(self, header: Header) -> None:
        """Write the header of a file that has none."""
        packed = header.packed()
        self._file.append(packed)
        self.header, self.chain, self._is_sealed = header, first_chain(packed), False

    def add(self, receipt: Receipt, end: int) -> None:
        """Add a receipt, whose minibatch ends at a nominal time; it is written soon."""
        now = time.monotonic()
        if not self._waiting:
            self._since = now
        data = receipt.packed()
        self.chain = next_chain(self.chain, data)
        self._waiting += self.chain + data
        self.last_step, self.position = receipt.step, end
        self._num_receipts += 1
        if len(self._waiting) >= _MOST_WAITING or now - self._since >= _MOST_SECONDS:
            self.flush()

    def flush(self, *, to_disk: bool = False) -> None:
        """Write waiting receipts, to the disk on request; receipts that fail wait on."""
        if not self._file.is_mine:  # a fork, whose parent will write the same
            return
        if self._waiting:
            self._is_sealed = False
            self._file.append(self._waiting)
            self._waiting = b""
        if to_disk:
            self._mark()
            self._file.sync()

    def _mark(self) -> None:
        """Leave where the next minibatch begins, for a run that goes on and has no more.

        What comes next is written over it, 64 bytes in one page: there is the one or the other.
        """
        if not self._is_sealed and self.position is not None:
            self._file.append_over(self._end(is_mark=True))

    def _end(self, *, is_mark: bool) -> bytes:
        assert self.position is not None
        data = Receipt.end(self.position, self._num_receipts, is_mark=is_mark).packed()
        return next_chain(self.chain, data) + data

    def rewind(self, step: int) -> None:
        """Drop all receipts after a step; after step 0 all receipts.

        Raises
        ------
        DataError
            If the file is damaged before it.
        """
        self.flush()
        if self._damaged is not None and self.last_step < step:
            raise DataError("the chain of receipts breaks here", str(self.path), self._damaged)
        if step == 0:
            self._file.cut(0)
        self._find_end(step)
        self._is_sealed = self.header is None
        if self._is_sealed or self.position is None:
            self._file.cut(self._file.end)
        self.flush(to_disk=True)

    def close(self) -> None:
        """Write waiting receipts and the seal, and close the file."""
        if not self._file.is_open:
            return
        try:
            self.flush()
            if not self._is_sealed and self.position is not None and self._file.is_mine:
                self._file.append(self._end(is_mark=False))
        finally:
            self._file.close()
