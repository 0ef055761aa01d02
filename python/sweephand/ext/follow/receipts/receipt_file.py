"""The file of receipts that one worker writes."""

from __future__ import annotations

from pathlib import Path

from sweephand import DataError
from sweephand.ext.follow.ledger.step_file import StepFile
from sweephand.ext.follow.receipts.header import Header
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    Receipt,
    first_chain,
    next_chain,
    receipts_in,
)

_MOST_WAITING = 64 * BYTES


class ReceiptFile(StepFile):
    """A file of receipts that is open to be written to.

    Attributes
    ----------
    header : Header or None
        None while it is empty.
    chain : bytes
        Of the last receipt.
    position : int or None
        Nominal time after the last minibatch; None if that is not known.
    """

    header: Header | None
    position: int | None
    _damaged: int | None  # where the chain breaks

    def __init__(self, path: Path) -> None:
        self._waiting = b""
        super().__init__(path, "Receipts", "file of receipts")

    def _find_end(self, step: int | None) -> None:
        """Read the end of the file, as far as its chain goes, or up to a step."""
        content = self._file.content()
        found = Header.read(content, str(self.path))
        self.header, self._file.end = found or (None, 0)
        self.last_step = self._num_receipts = 0
        self.chain = first_chain(content[: self._file.end])
        self.position = self.header.start["time"] if self.header else None
        # It is sealed, or there is nothing to seal.
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
        data = receipt.packed()
        self.chain = next_chain(self.chain, data)
        self._waiting += self.chain + data
        self.last_step, self.position = receipt.step, end
        self._num_receipts += 1
        self._flush_if_due(is_full=len(self._waiting) >= _MOST_WAITING)

    def _write_waiting(self) -> None:
        if self._waiting:
            self._is_sealed = False
            self._file.append(self._waiting)
            self._waiting = b""

    def _mark_end(self, *, is_closed: bool) -> None:
        """Leave where the next minibatch begins, for a run that goes on and has no more.

        It is a seal if the file is closed. Else the next receipt is written over it, 64 bytes
        in one page: there is the one or the other.
        """
        if self._is_sealed or self.position is None:
            return
        end = Receipt.end(self.position, self._num_receipts, is_mark=not is_closed)
        data = end.packed()
        write = self._file.append if is_closed else self._file.append_over
        write(next_chain(self.chain, data) + data)

    def rewind(self, step: int) -> None:
        """Drop all receipts after a step; after step 0 all receipts."""
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
