"""The audit of receipts: each is derived again, and the first difference is reported."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from sweephand import MinibatchSource
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    NO_CONTENT,
    TO_SWEEP_END,
    Link,
    Receipt,
    ReceiptsOfWorker,
    hash_content,
    hash_events,
    hash_ids,
    order_of,
    read_receipts,
    sum_contents,
)
from sweephand.extend import Plan, Position, WholePlans, _core


@dataclass(frozen=True)
class ReceiptMismatch:
    """First mismatch of an audit.

    Attributes
    ----------
    step : int or None
        The first bad step; None for the header, the seal and the head.
    part : str
        Its part: "header", "chain", "step", "begin", "request", "ids", "content", "events",
        "control", "parameters", "seal" or "head"; the first of them that differs.
    expected, found : str
        The derived value, and that of the receipt.
    parts : tuple of str
        All differing parts of this step.
    ids : list of str
        The first sequences that the step should have, if known.
    worker : int
        The worker of the file.

    Examples
    --------
    >>> import sweephand as sh
    >>> str(sh.train.ReceiptMismatch(7, "ids", "0a", "0b"))
    'step 7: ids should be 0a, and are 0b in the receipt'
    """

    step: int | None
    part: str
    expected: str
    found: str
    parts: tuple[str, ...] = ()
    ids: list[str] = field(default_factory=list)
    worker: int = 0

    def __str__(self) -> str:
        if self.part == "header":
            return f"{self.expected}: {self.found}"
        where = "" if self.step is None else f"step {self.step}: "
        whose = f" of worker {self.worker}" if self.worker else ""
        verb = "are" if self.part in ("ids", "events", "parameters") else "is"
        return (
            f"{where}{self.part} should be {self.expected}, and {verb} {self.found} in the "
            f"receipt{whose}"
        )


@dataclass(frozen=True)
class ReceiptAudit:
    """Findings of an audit.

    Attributes
    ----------
    mismatch : ReceiptMismatch or None
        The first mismatch; later steps were not checked.
    num_steps, num_sequences, num_samples : int
        Number of derived and matching ones.
    first_step, last_step : int or None
        Of them.
    jumps : list of (int, int, int)
        Steps whose minibatch does not begin where the one before ended: the step, where it
        should begin, and where it does. Only if they are allowed.
    head : str
        The last link of the chain.
    is_sealed : bool
        True if the file was closed.

    Examples
    --------
    >>> import sweephand as sh
    >>> sh.train.ReceiptAudit(None, 3, 12, 12, 1, 3, [], "00", True).ok
    True
    """

    mismatch: ReceiptMismatch | None
    num_steps: int
    num_sequences: int
    num_samples: int
    first_step: int | None
    last_step: int | None
    jumps: list[tuple[int, int, int]]
    head: str
    is_sealed: bool

    @property
    def ok(self) -> bool:
        """True if all is well."""
        return self.mismatch is None


def wrong(
    step: int | None,
    part: str,
    expected: Any,
    found: Any,
    parts: tuple[str, ...] = (),
    ids: list[str] | None = None,
    worker: int = 0,
) -> ReceiptMismatch:
    """Return a mismatch of numbers or bytes."""
    expected, found = (
        one.hex() if isinstance(one, bytes) else str(one) for one in (expected, found)
    )
    return ReceiptMismatch(step, part, expected, found, parts or (part,), ids or [], worker)


_IDS_SHOWN = 5
# Requests above these limits, absolute and relative to the result, are refused.
_MANY_SAMPLES = 1 << 24
_MOST_PER_SAMPLE = 64


def audit(
    folder: Path,
    source: MinibatchSource,
    *,
    content: bool = False,
    step: int | None = None,
    head: str | None = None,
    against: Path | None = None,
    allow_unsealed: bool = False,
    allow_jumps: bool = False,
) -> ReceiptAudit:
    """Derive receipts again; see `Receipts.audit`."""
    first, *others = read_receipts(folder)
    if content and first.header.streams is None:
        raise ValueError(
            "these receipts have no content: they were not written with content=True"
        )
    auditor = _Auditor(
        first,
        others,
        source,
        first.header.streams if content else None,
        step,
        None if against is None else read_receipts(against)[0],
        allow_unsealed,
        allow_jumps,
    )
    mismatch = auditor.look()
    if mismatch is None and head is not None and head != first.head.hex():
        mismatch = wrong(None, "head", head, first.head)
    if mismatch is None and step is not None and not auditor.num_steps:
        raise ValueError(f"there is no receipt of step {step}")
    return ReceiptAudit(
        mismatch,
        auditor.num_steps,
        auditor.num_sequences,
        auditor.num_samples,
        auditor.first_step,
        auditor.last_step,
        auditor.jumps,
        first.head.hex(),
        auditor.is_sealed,
    )


@dataclass
class _Auditor:
    """Goes through receipts, and stops where something is wrong."""

    _file: ReceiptsOfWorker
    _others: list[ReceiptsOfWorker]
    _source: MinibatchSource
    _streams: list[str] | None  # whose content is read
    _only: int | None  # the step that is derived again
    _replayed: ReceiptsOfWorker | None
    _allow_unsealed: bool
    _allow_jumps: bool
    first_step: int | None = None
    last_step: int | None = None
    num_steps: int = 0
    num_sequences: int = 0
    num_samples: int = 0
    is_sealed: bool = False

    def __post_init__(self) -> None:
        self._plan: Plan = self._source.timeline
        self._plans = WholePlans(self._plan)
        # A step may depend on those before it, and not on its place alone.
        self._walks = self._source.layout.depends_on_size
        if self._streams is not None:
            self._source = copy.copy(self._source)  # at a place of its own
        self.jumps: list[tuple[int, int, int]] = []

    def look(self) -> ReceiptMismatch | None:
        """Return the first mismatch."""
        if differing := self._file.header.difference(order_of(self._plan)):
            return wrong(
                None, "header", "the receipts are of another corpus or order", differing
            )
        mismatch = self._look_at_steps() or self._look_at_end(self._file, self.is_sealed)
        for other in self._others:
            mismatch = mismatch or self._look_at_other(other)
        return mismatch

    def _look_at_steps(self) -> ReceiptMismatch | None:
        start = self._file.header.start
        position, step = Position(start["time"], tuple(start["progress"])), start["step"]
        has_ended = False
        for link, following in pairwise(chain(self._file.links(), [None])):
            assert link is not None
            if has_ended:
                return wrong(None, "seal", "the last of the file", "before a receipt")
            receipt = link.receipt
            end = None if following is None else following.receipt.begin
            mismatch = None
            if receipt.is_end:
                has_ended, self.is_sealed = True, receipt.is_seal
                mismatch = self._look_at_end_of(link, position)
            else:
                mismatch, position = self._look_at(receipt, step, position, end)
            if link.chain != link.wanted:
                return _with_chain(mismatch, link, step)
            if mismatch is not None:
                return mismatch
            step = receipt.step + 1
        return None

    def _look_at_end_of(self, link: Link, position: Position) -> ReceiptMismatch | None:
        time = position.time if self._only is None else link.receipt.begin
        wanted = Receipt.end(time, link.number, is_mark=not link.receipt.is_seal)
        if link.receipt != wanted:
            return wrong(None, "seal", str(wanted), str(link.receipt))
        return None

    def _look_at(
        self, receipt: Receipt, step: int, position: Position, end: int | None
    ) -> tuple[ReceiptMismatch | None, Position]:
        """Check a receipt; return its mismatch, and the place where the next one begins."""
        if receipt.step != step and not (self._allow_jumps and receipt.step > step):
            return wrong(step, "step", step, receipt.step), position
        is_wanted = self._only in (None, receipt.step)
        if not is_wanted and not self._walks:
            return None, position
        if not self._can_serve(receipt, end):
            asked = receipt.asked[0]
            return wrong(receipt.step, "request", "one that was served", asked), position
        there = Position(receipt.begin)
        try:
            walks = self._only is None or self._walks
            plan, content = self._derive(position if walks else there, receipt)
            if plan.nominal_time != receipt.begin and walks and self._allow_jumps:
                self.jumps.append((receipt.step, plan.nominal_time, receipt.begin))
                plan, content = self._derive(there, receipt)
        except (ValueError, OverflowError) as error:
            found = wrong(receipt.step, "request", "one that can be served", str(error))
            return found, position
        if plan.end_of_data:
            found = wrong(receipt.step, "begin", "before the end of the data", receipt.begin)
            return found, position
        mismatch = self._compare(receipt, plan, content) if is_wanted else None
        if is_wanted and mismatch is None:
            self.first_step = self.first_step or receipt.step
            self.last_step = receipt.step
            self.num_steps += 1
            self.num_sequences += plan.num_sequences
            self.num_samples += plan.num_samples
        return mismatch, Position.of(plan.next)

    def _derive(
        self, position: Position, receipt: Receipt
    ) -> tuple[_core.compose.Plan | _core.engine.Batch, bytes]:
        """Return the plan of the minibatch that begins at a place, and the hash of its content.

        ValueError is raised for an invalid request.
        """
        samples, crosses_sweeps = receipt.asked
        if self._streams is None:
            self._plans.go_to(position)
            return self._plans.next(samples, crosses_sweeps=crosses_sweeps), NO_CONTENT
        if self._source.position != position:
            self._source.position = position
        request = self._plan.whole_request(samples, crosses_sweeps=crosses_sweeps)
        minibatch = self._source.cursor.next(request)
        content = hash_content(minibatch, self._streams) if minibatch else NO_CONTENT
        return minibatch.planned, content

    def _can_serve(self, receipt: Receipt, end: int | None) -> bool:
        """Return False for a request far beyond its samples, whose plan would take for ever."""
        samples, crosses_sweeps = receipt.asked
        plan = self._plan
        is_of_one_sweep = samples == TO_SWEEP_END or not crosses_sweeps
        if is_of_one_sweep and not plan.repeats_mixture:
            return True
        least = 0 if end is None else end - receipt.begin
        at_most = min(samples, plan.limit - receipt.begin)  # the data may end before
        return at_most <= max(_MANY_SAMPLES, _MOST_PER_SAMPLE * least)

    def _compare(
        self, receipt: Receipt, plan: _core.compose.Plan | _core.engine.Batch, content: bytes
    ) -> ReceiptMismatch | None:
        pairs: dict[str, tuple[object, object]] = {
            "begin": (plan.nominal_time, receipt.begin),
            "events": (hash_events(self._plan, plan.nominal_time), receipt.events),
            "ids": (hash_ids(plan), receipt.ids),
        }
        if self._file.header.streams is None:
            pairs["content"] = NO_CONTENT, receipt.content
        elif self._streams is not None:
            pairs["content"] = content, self._content_of(receipt)
        if self._replayed is not None:
            other = self._replayed.by_step.get(receipt.step)
            for name in ("control", "parameters"):
                mine = getattr(receipt, name)
                theirs = getattr(other, name) if other else "of no step of the other run"
                pairs[name] = theirs, mine
        differing = [name for name, (wanted, found) in pairs.items() if wanted != found]
        if not differing:
            return None
        names = self._plan.corpus.ids.names(plan.sequences()[:_IDS_SHOWN])
        return wrong(receipt.step, differing[0], *pairs[differing[0]], tuple(differing), names)

    def _content_of(self, receipt: Receipt) -> bytes:
        """Return the content of a step over all workers."""
        found = receipt.content
        for other in self._others:
            theirs = other.by_step.get(receipt.step)
            found = found if theirs is None else sum_contents(found, theirs.content)
        return found

    def _look_at_end(self, file: ReceiptsOfWorker, is_sealed: bool) -> ReceiptMismatch | None:
        torn, worker = (len(file.content) - file.begin) % BYTES, file.header.worker
        if self._allow_unsealed or (is_sealed and not torn):
            return None
        found = f"behind or before {torn} bytes of a receipt" if torn else (
            "missing: the file was cut, or its run was killed or goes on")  # fmt: skip
        return wrong(None, "seal", "the last of the file", found, worker=worker)

    def _look_at_other(self, other: ReceiptsOfWorker) -> ReceiptMismatch | None:
        """Look at the file of another worker: its own are its chain and its content."""
        worker, mine = other.header.worker, self._file.by_step
        has_ended = is_sealed = False
        if differing := other.header.difference(self._file.header.order):
            return wrong(
                None, "header", f"worker {worker} was in another run", differing, worker=worker
            )
        for link in other.links():
            if has_ended:
                return wrong(
                    None, "seal", "the last of the file", "before a receipt", worker=worker
                )
            receipt = link.receipt
            has_ended, is_sealed = receipt.is_end, receipt.is_seal
            if link.chain != link.wanted:
                return wrong(receipt.step, "chain", link.wanted, link.chain, worker=worker)
            same = mine.get(receipt.step)
            for name in ("step", "begin", "request", "events", "ids"):
                theirs, wanted = getattr(receipt, name), getattr(same, name, "none")
                if theirs != wanted and not has_ended:
                    return wrong(receipt.step, name, wanted, theirs, worker=worker)
        return self._look_at_end(other, is_sealed)


def _with_chain(mismatch: ReceiptMismatch | None, link: Link, step: int) -> ReceiptMismatch:
    """Return the mismatch of a receipt, with its broken chain."""
    if mismatch is None:
        return wrong(step, "chain", link.wanted, link.chain)
    parts = ("chain", *mismatch.parts)
    return ReceiptMismatch(
        mismatch.step, mismatch.part, mismatch.expected, mismatch.found, parts, mismatch.ids
    )
