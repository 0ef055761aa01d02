"""One receipt: 64 bytes for a step, each of which binds all before it.

::

    file   | header | receipt | receipt | ...
    header one line of JSON, filled up with spaces to a multiple of 64 bytes, newline included

    at  bytes
     0  16     chain    BLAKE2b-128 of the chain before, and of the 48 bytes that follow here
    16   8     step     from 1
    24   8     begin    nominal time at which the global minibatch begins
    32   8     request  samples that were asked for; bit 63: no further than the sweep
    40  16     ids      BLAKE2b-128 of what was planned, over all workers
    56   8     content  sum of BLAKE2b-64 of the sequences, or 0

All is little endian. The chain before the first receipt is BLAKE2b-128 of the header.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from sweephand import DataError, Minibatch, MinibatchSource, StateError
from sweephand.ext.follow.step_log import StepFile, StepLog
from sweephand.extend import (
    Plan,
    Position,
    TakenStep,
    WholePlans,
    Workers,
    check_flag,
    check_kind,
    decode,
    open_regular,
    some_of,
    sum_of_digests,
    to_json,
)

FILE = "0.receipts"  # of a folder: the first worker's
BYTES = 64
TO_SWEEP_END = 2**64 - 1  # samples of a request, as the core has them

_LAYOUT = struct.Struct("<QQQ16sQ")  # after the chain
_ENDS_WITH_SWEEP = 1 << 63
_MOST_SAMPLES = _ENDS_WITH_SWEEP - 1  # means all that is left of the sweep


class Receipt(NamedTuple):
    """Receipt of one step."""

    step: int  # from 1
    begin: int  # nominal time at which its minibatch begins
    request: int  # what was asked for, as the file has it
    ids: bytes
    content: int

    @property
    def asked(self) -> tuple[int, bool]:
        """Requested samples, and True if a minibatch may cross the end of a sweep."""
        samples = self.request & _MOST_SAMPLES
        crosses_sweeps = not self.request & _ENDS_WITH_SWEEP
        return TO_SWEEP_END if samples == _MOST_SAMPLES else samples, crosses_sweeps

    def packed(self) -> bytes:
        """Return its bytes after the chain."""
        return _LAYOUT.pack(*self)


def request_of(num_samples: int, *, crosses_sweeps: bool) -> int:
    """Return the request as a receipt holds it."""
    return min(num_samples, _MOST_SAMPLES) | (0 if crosses_sweeps else _ENDS_WITH_SWEEP)


def chain_of(data: bytes | memoryview, before: bytes = b"") -> bytes:
    """Return the chain of a receipt by that of its predecessor, or that of a header."""
    return hashlib.blake2b(before + data, digest_size=16).digest()


def hash_ids(plan: Any) -> bytes:
    """Return the hash of a plan for all workers."""
    found = hashlib.blake2b(plan.share_size.to_bytes(8, "little"), digest_size=16)
    found.update(plan.sequences().astype("<u8", copy=False).data)
    found.update(plan.sizes().astype("<u4", copy=False).data)
    if plan.num_rows:
        found.update(plan.cells().astype("<u4", copy=False).data)
    return found.digest()


FORMAT = "sweephand receipts"
VERSION = 1
_LARGEST = 1 << 24


@dataclass(frozen=True)
class Start:
    """Where the first minibatch begins."""

    step: int
    time: int  # nominal
    progress: list[int]


@dataclass(frozen=True)
class Header:
    """The header of a file of receipts."""

    start: Start
    streams: list[str] | None  # whose content is taken; None if it is not
    # what decides which sequence comes when, but for events: `Plan.order_description`
    order: dict[str, Any]
    options: dict[str, Any]  # of the source: `SourceOptions.to_json`

    def packed(self) -> bytes:
        """Return the line of JSON."""
        fields = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = to_json(fields, default=_plain).encode()
        return text + b" " * (-(len(text) + 1) % BYTES) + b"\n"

    @classmethod
    def read(cls, content: memoryview, path: str) -> tuple[Self | None, int]:
        """Return the header of a file, and where it ends; None if it is torn, or not there."""
        line = bytes(content[:_LARGEST])
        end = line.find(b"\n") + 1
        if end == 0:
            return None, 0
        try:
            fields = json.loads(line[:end])
            if (fields["format"], fields["version"]) != (FORMAT, VERSION) or end % BYTES:
                raise ValueError(f"this version of sweephand reads {FORMAT} {VERSION}")
            found: Self = decode(cls, fields)
        except (
            ValueError, KeyError, TypeError, AttributeError, RecursionError
        ) as error:  # fmt: skip
            raise DataError(f"this is no file of receipts: {error!r}", path, 0) from error
        return found, end

    def difference(self, order: dict[str, Any]) -> str:
        """Describe how the order here differs from that of the receipts; "" if it does not."""
        return "; ".join(
            f"{name} is {order.get(name, '')!r:.100} here and "
            f"{self.order.get(name, '')!r:.100} in the receipts"
            for name in sorted(order.keys() | self.order.keys())
            if order.get(name, "") != self.order.get(name, "")
        )


def order_of(plan: Plan) -> dict[str, Any]:
    """Return the order of a plan as a header has it: of JSON types."""
    order: dict[str, Any] = json.loads(to_json(plan.order_description, default=_plain))
    return order


def _plain(value: object) -> object:
    """Return the JSON of a value of another type."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset) else str(value)


def read_receipts(folder: Path) -> tuple[Header, memoryview, int]:
    """Return the header of a folder's file, its content, and where the first receipt begins."""
    path = folder / FILE
    with open_regular(path) as file:
        content = memoryview(file.read())
    header, begin = Header.read(content, str(path))
    if header is None:
        raise DataError("there is no whole header of receipts", str(path), 0)
    return header, content, begin


def links_in(content: memoryview, begin: int) -> Iterator[tuple[Receipt, bytes, bytes]]:
    """Yield all whole receipts of a file, each with its chain, and what that must be."""
    chain = chain_of(content[:begin])
    for at in range(begin, len(content) - BYTES + 1, BYTES):
        found, data = bytes(content[at : at + 16]), content[at + 16 : at + BYTES]
        yield Receipt(*_LAYOUT.unpack(data)), found, chain_of(data, chain)
        chain = found


def head_of(content: memoryview, begin: int) -> str:
    """Return the last link of a chain, in hexadecimal digits."""
    end = len(content) - (len(content) - begin) % BYTES
    return (content[end - BYTES :][:16] if end > begin else chain_of(content[:begin])).hex()


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
_MOST_DERIVED = 1 << 27  # of a minibatch, unless it is a sweep


def audit(
    folder: Path, source: MinibatchSource, *, content: bool = False, head: str | None = None
) -> ReceiptAudit:
    """Derive receipts again; see `Receipts.audit`."""
    header, data, begin = read_receipts(folder)
    if content and header.streams is None:
        raise ValueError("these receipts were not written with content=True")
    deriver = _Deriver(header, source, content)
    found, num_steps, num_samples = head_of(data, begin), 0, 0
    mismatch = None
    if differing := header.difference(order_of(source.timeline)):
        mismatch = _wrong(None, "header", "of this corpus and order", differing)
    step = header.start.step
    for receipt, chain, wanted in () if mismatch else links_in(data, begin):
        if chain != wanted:
            mismatch = _wrong(step, "chain", wanted, chain)
        elif receipt.step != step:
            mismatch = _wrong(step, "step", step, receipt.step)
        else:
            mismatch = deriver.compare(receipt)
        if mismatch:
            break
        step += 1
        num_steps += 1
        num_samples += deriver.num_samples
    torn = (len(data) - begin) % BYTES
    if mismatch is None and torn:
        mismatch = _wrong(step, "chain", f"in {BYTES} bytes, or not there", f"{torn} bytes")
    if mismatch is None and head not in (None, found):
        mismatch = _wrong(None, "head", head, found)
    return ReceiptAudit(mismatch, num_steps, num_samples, found)


class _Deriver:
    """Derives receipts one after the other."""

    def __init__(self, header: Header, source: MinibatchSource, content: bool) -> None:
        self._header = header
        self._plan = source.timeline
        self._plans = WholePlans(self._plan)
        self._source = copy.copy(source) if content else None  # at a place of its own
        self._position = Position(header.start.time, tuple(header.start.progress))
        self.num_samples = 0  # of the last one

    def compare(self, receipt: Receipt) -> ReceiptMismatch | None:
        """Return how the next receipt differs."""
        try:
            plan, content = self._derive(receipt)
        except (ValueError, OverflowError) as error:
            return _wrong(receipt.step, "request", "one that can be served", error)
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
        self._position, self.num_samples = Position.of(plan.next), plan.num_samples
        return None

    def _derive(self, receipt: Receipt) -> tuple[Any, int]:
        """Return the plan and the content of a receipt; ValueError of an invalid request."""
        samples, crosses_sweeps = receipt.asked
        is_of_one_sweep = samples == TO_SWEEP_END or not crosses_sweeps
        if not is_of_one_sweep or self._plan.corpus.at_end == "repeat":
            at_most = min(samples, self._plan.limit - receipt.begin)
            if at_most > _MOST_DERIVED:
                raise ValueError(f"{at_most} samples, whose plan would take for ever")
        if self._source is None:
            self._plans.go_to(self._position)
            plan = self._plans.next(samples, crosses_sweeps=crosses_sweeps)
            return plan, receipt.content if self._header.streams else 0
        if self._source.position != self._position:
            self._source.position = self._position
        request = self._plan.whole_request(samples, crosses_sweeps=crosses_sweeps)
        minibatch = self._source.cursor.next(request)
        content = sum_of_digests(minibatch, self._header.streams or []) if minibatch else 0
        return minibatch.planned, content


def _wrong(step: int | None, part: str, expected: object, found: object) -> ReceiptMismatch:
    texts = [one.hex() if isinstance(one, bytes) else str(one) for one in (expected, found)]
    return ReceiptMismatch(step, part, *texts)


_MOST_WAITING = 64 * BYTES


class WrittenReceipts(StepFile):
    """A file of receipts that is open to be written to."""

    header: Header | None  # None while it is empty
    chain: bytes  # of the last receipt

    def __init__(self, path: Path) -> None:
        self._waiting = b""
        super().__init__(path, "Receipts", "file of receipts")

    def _find_end(self, step: int | None) -> None:
        """Read the end of the file, as far as its chain goes, or up to a step."""
        content = self._file.content()
        self.header, begin = Header.read(content, str(self.path))
        self.last_step, self.chain, self._file.end = 0, chain_of(content[:begin]), begin
        for receipt, chain, wanted in links_in(content, begin):
            if step is not None and receipt.step > step:
                return
            if chain != wanted and step is None:
                return
            if chain != wanted:
                raise DataError("the chain breaks here", str(self.path), self._file.end)
            self.chain, self.last_step = chain, receipt.step
            self._file.end += BYTES

    def begin(self, header: Header) -> None:
        """Write the header of a file that has none."""
        packed = header.packed()
        self._file.append(packed)
        self.header, self.chain = header, chain_of(packed)

    def add(self, receipt: Receipt) -> None:
        """Add a receipt; it is written soon."""
        data = receipt.packed()
        self.chain = chain_of(data, self.chain)
        self._waiting += self.chain + data
        self.last_step = receipt.step
        self._flush_if_due(is_full=len(self._waiting) >= _MOST_WAITING)

    def _write_waiting(self) -> None:
        if self._waiting:
            self._file.append(self._waiting)
            self._waiting = b""

    def rewind(self, step: int) -> None:
        """Drop all receipts after a step; after step 0 all receipts."""
        self.flush()
        if step == 0:
            self._file.cut(0)
        self._find_end(step)
        self._file.cut(self._file.end)
        self.flush(to_disk=True)


class Receipts(StepLog[WrittenReceipts]):
    """Receipts of every step: 64 bytes that anyone can check with corpus and seed.

    A receipt has the beginning of a step's minibatch and hashes of the plan for all workers
    and, on request, of the content. Each is chained to all before it. `audit`, and ``sweephand
    audit``, derive them again from the corpus; ``docs/receipts.md`` shows how to do so without
    this library.

    A `Trainer` calls it after every step, as a progress writer. Other loops call `record`.
    A run that is restored, or goes back, drops the receipts after that step. The first worker
    writes.

    Parameters
    ----------
    path : path
        The folder of the receipts. It is made with the first step.
    source : MinibatchSource, optional
        The source of the minibatches, if they come from the processes of a loader.
    content : bool
        Also hash the content of minibatches, at about 0.5 GB/s. Of several workers a `Trainer`
        gathers it.
    overwrite, num_data_partitions, partition_index
        As for `LossLedger`.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> source = sh.MinibatchSource(sh.ArrayDeserializer({"x": np.arange(10.0)}))
    >>> with sh.train.Receipts("receipts") as receipts:
    ...     for _ in range(3):
    ...         receipts.record(source.next_minibatch(4))
    >>> audit = receipts.audit(source)
    >>> audit.ok, audit.num_steps
    (True, 3)
    """

    suffix = ".receipts"
    what = "receipts"
    kept = "there are receipts"

    def __init__(
        self,
        path: str | Path,
        *,
        source: MinibatchSource | None = None,
        content: bool = False,
        overwrite: bool = False,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> None:
        check_kind("source", source, MinibatchSource, optional=True)
        self._source = source
        self._content = check_flag("content", content)
        self._plans: tuple[Plan, WholePlans] | None = None
        self._checked: tuple[WrittenReceipts, Plan] | None = None  # that belong together
        self._workers = Workers()
        super().__init__(
            path,
            overwrite=overwrite,
            num_data_partitions=num_data_partitions,
            partition_index=partition_index,
        )

    def join(self, workers: Workers) -> bool:
        """Follow the first worker, and for content all."""
        self._workers = workers
        return (super().join(workers) and self._writes) or self._content

    @property
    def _writes(self) -> bool:
        return self._partition_index == 0 and self._workers.counts

    def record(self, minibatch: Minibatch, *, step: int | None = None) -> None:
        """Add the receipt of a step that took a minibatch, or this worker's share of it.

        Parameters
        ----------
        minibatch : Minibatch
        step : int, optional
            From 1, and above that of the last call; by default the next one.

        Raises
        ------
        FileExistsError, OSError, DataError, TypeError
            As `LossLedger.record`.
        StateError
            If the receipts that are there are of another corpus or order.
        ValueError
            If the minibatch came from another process, and there is no `source`; or if it is
            the share of one of several workers, and content is to be hashed.
        """
        step = self._next_step(minibatch, step)
        if step == self._step:
            raise ValueError(f"step must be at least {step + 1}, got {step}: it has a receipt")
        if not minibatch:
            raise ValueError("the end of the data has no receipt")
        streams, content = None, 0
        if self._content:
            streams = sorted(minibatch[key].info.name for key in minibatch)
            content = self._content_of(minibatch, streams)
        if self._writes:
            file = self._ready(step - 1)
            plan = minibatch.origin or (self._source and self._source.timeline)
            if not isinstance(plan, Plan):
                raise ValueError(
                    "this minibatch came from another process and does not know its order: "
                    "give Receipts(path, source=source)"
                )
            self._check(file, plan, minibatch, step, streams)
            planned = minibatch.planned
            time, asked = planned.nominal_time, planned.request
            request = request_of(asked.num_samples, crosses_sweeps=asked.crosses_sweeps)
            whole = planned if asked.num_workers == 1 else self._whole(minibatch, plan)
            file.add(Receipt(step, time, request, hash_ids(whole), content))
        self._step = step

    def stepped(self, taken: TakenStep) -> None:
        """Give a step its receipt."""
        self.record(taken.minibatch, step=taken.step)  # type: ignore[arg-type]

    def _content_of(self, minibatch: Minibatch, streams: list[str]) -> int:
        """Return the sum of the digests of all sequences, over all workers."""
        if minibatch.planned.request.num_workers > self._workers.num_partitions:
            raise ValueError("the content of several workers' shares takes a Trainer")
        mine = sum_of_digests(minibatch, streams) if self._workers.counts else 0
        return int(sum(self._workers.gather(mine)) % 2**64)

    def _whole(self, minibatch: Minibatch, plan: Plan) -> object:
        """Return the plan for all workers of a minibatch that is this one's share."""
        if self._plans is None or self._plans[0] is not plan:
            self._plans = plan, WholePlans(plan)
        plans, asked = self._plans[1], minibatch.planned.request
        plans.go_to(minibatch.position)
        return plans.next(asked.num_samples, crosses_sweeps=asked.crosses_sweeps)

    def _check(
        self,
        file: WrittenReceipts,
        plan: Plan,
        minibatch: Minibatch,
        step: int,
        streams: list[str] | None,
    ) -> None:
        """Check that a file is of this order and content; begin it if it is empty."""
        if self._checked == (file, plan):
            return
        header = file.header
        if header is None:
            place = minibatch.position
            start = Start(step, place.time, list(place.progress))
            file.begin(Header(start, streams, order_of(plan), plan.options.to_json()))
        elif differing := header.difference(order_of(plan)):
            raise StateError(f"{file.path} is of another corpus or order: {differing}")
        elif header.streams != streams:
            raise StateError(f"{file.path} has the content of {header.streams}, not {streams}")
        self._checked = file, plan

    @property
    def head(self) -> str:
        """Last link of the chain, in hexadecimal digits: another file has another."""
        if self._file is not None and self._file.header is not None:
            return self._file.chain.hex()
        return head_of(*read_receipts(self._folder)[1:])

    def audit(
        self, source: MinibatchSource, *, content: bool = False, head: str | None = None
    ) -> ReceiptAudit:
        """Derive all receipts again, and compare; nothing is trained.

        Parameters
        ----------
        source : MinibatchSource
            Of the same corpus and settings; it stays where it is.
        content : bool
            Also read the data.
        head : str, optional
            An earlier `head`: the audit finds a file that is longer, shorter or another.

        Raises
        ------
        FileNotFoundError, DataError, ValueError
            If there are no receipts, data cannot be read, or `content` was not taken.
        """
        self.flush()
        return audit(self._folder, source, content=content, head=head)

    def _open_file(self, path: Path) -> WrittenReceipts:
        return WrittenReceipts(path)
