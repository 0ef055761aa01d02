"""The audit of receipts: each is derived again, and the first difference is reported."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweephand import MinibatchSource
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    TO_SWEEP_END,
    Receipt,
    hash_ids,
    head_of,
    links_in,
    order_of,
    read_receipts,
)
from sweephand.extend import Position, WholePlans, some_of, sum_of_digests


@dataclass(frozen=True)
class ReceiptMismatch:
    """First mismatch of an audit.

    Attributes
    ----------
    step : int or None
        The first bad step; None for the header and the head.
    part : str
        Its first part that differs: "header", "chain", "step", "begin", "request", "ids",
        "content" or "head".
    expected, found : str
        The derived value, and that of the receipt.

    Examples
    --------
    >>> import sweephand as sh
    >>> str(sh.train.ReceiptMismatch(7, "ids", "0a", "0b"))
    'step 7: ids should be 0a, found 0b'
    """

    step: int | None
    part: str
    expected: str
    found: str

    def __str__(self) -> str:
        where = "" if self.step is None else f"step {self.step}: "
        return f"{where}{self.part} should be {self.expected}, found {self.found}"


@dataclass(frozen=True)
class ReceiptAudit:
    """Findings of an audit.

    Attributes
    ----------
    mismatch : ReceiptMismatch or None
        The first mismatch; later steps were not checked.
    num_steps, num_samples : int
        Number of derived and matching ones.
    head : str
        The last link of the chain.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.train.ReceiptAudit(None, 3, 12, "00").ok
    True
    """

    mismatch: ReceiptMismatch | None
    num_steps: int
    num_samples: int
    head: str

    @property
    def ok(self) -> bool:
        """True if all is well."""
        return self.mismatch is None


_IDS_SHOWN = 5
_MOST_SAMPLES = 1 << 27  # of a minibatch, unless it is a sweep


def audit(
    folder: Path, source: MinibatchSource, *, content: bool = False, head: str | None = None
) -> ReceiptAudit:
    """Derive receipts again; see `Receipts.audit`."""
    auditor = _Auditor(folder, source, content)
    mismatch, found = auditor.look(), head_of(auditor.content, auditor.begin)
    if mismatch is None and head not in (None, found):
        mismatch = _wrong(None, "head", head, found)
    return ReceiptAudit(mismatch, auditor.num_steps, auditor.num_samples, found)


class _Auditor:
    """Goes through receipts, and stops where something is wrong."""

    def __init__(self, folder: Path, source: MinibatchSource, content: bool) -> None:
        self._header, self.content, self.begin = read_receipts(folder)
        self._plan = source.timeline
        self._plans = WholePlans(self._plan)
        self._source = copy.copy(source) if content else None  # at a place of its own
        self.num_steps = self.num_samples = 0
        if content and self._header.streams is None:
            raise ValueError("these receipts were not written with content=True")

    def look(self) -> ReceiptMismatch | None:
        """Return the first mismatch."""
        if differing := self._header.difference(order_of(self._plan)):
            return _wrong(None, "header", "of this corpus and order", differing)
        start = self._header.start
        position, step = Position(start.time, tuple(start.progress)), start.step
        for receipt, found, wanted in links_in(self.content, self.begin):
            if found != wanted:
                return _wrong(step, "chain", wanted, found)
            if receipt.step != step:
                return _wrong(step, "step", step, receipt.step)
            try:
                plan, content = self._derive(receipt, position)
            except (ValueError, OverflowError) as error:
                return _wrong(step, "request", "one that can be served", error)
            if mismatch := self._compare(receipt, plan, content):
                return mismatch
            step, position = step + 1, Position.of(plan.next)
            self.num_steps += 1
            self.num_samples += plan.num_samples
        if torn := (len(self.content) - self.begin) % BYTES:
            return _wrong(step, "chain", f"in {BYTES} bytes, or not there", f"{torn} bytes")
        return None

    def _derive(self, receipt: Receipt, position: Position) -> tuple[Any, int]:
        """Return the plan and the content of a receipt; ValueError of an invalid request."""
        samples, crosses_sweeps = receipt.asked
        is_of_one_sweep = samples == TO_SWEEP_END or not crosses_sweeps
        if not is_of_one_sweep or self._plan.repeats_mixture:
            at_most = min(samples, self._plan.limit - receipt.begin)
            if at_most > _MOST_SAMPLES:
                raise ValueError(f"{at_most} samples, whose plan would take for ever")
        if self._source is None:
            self._plans.go_to(position)
            plan = self._plans.next(samples, crosses_sweeps=crosses_sweeps)
            return plan, receipt.content if self._header.streams else 0
        if self._source.position != position:
            self._source.position = position
        request = self._plan.whole_request(samples, crosses_sweeps=crosses_sweeps)
        minibatch = self._source.cursor.next(request)
        content = sum_of_digests(minibatch, self._header.streams or []) if minibatch else 0
        return minibatch.planned, content

    def _compare(self, receipt: Receipt, plan: Any, content: int) -> ReceiptMismatch | None:
        if plan.end_of_data:
            wanted = "before the end of the data"
            return _wrong(receipt.step, "begin", wanted, receipt.begin)
        pairs: dict[str, tuple[Any, Any]] = {
            "begin": (plan.nominal_time, receipt.begin),
            "ids": (hash_ids(plan).hex(), receipt.ids.hex()),
            "content": (content, receipt.content),
        }
        for part, (wanted, found) in pairs.items():
            if wanted != found:
                ids = self._plan.corpus.ids.names(plan.sequences()[:_IDS_SHOWN])
                return _wrong(receipt.step, part, f"{wanted} of {some_of(ids)}", found)
        return None


def _wrong(step: int | None, part: str, expected: object, found: object) -> ReceiptMismatch:
    texts = [one.hex() if isinstance(one, bytes) else str(one) for one in (expected, found)]
    return ReceiptMismatch(step, part, *texts)
