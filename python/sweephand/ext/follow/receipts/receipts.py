"""The receipts that a training run keeps."""

from __future__ import annotations

from pathlib import Path

from sweephand import DataError, Minibatch, MinibatchSource, StateError
from sweephand.ext.follow.ledger.step_log import StepFile, StepLog
from sweephand.ext.follow.receipts.audit import ReceiptAudit, audit
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    Header,
    Receipt,
    Start,
    chain_of,
    hash_ids,
    head_of,
    links_in,
    order_of,
    read_receipts,
    request_of,
)
from sweephand.extend import (
    Plan,
    TakenStep,
    WholePlans,
    Workers,
    check_flag,
    check_kind,
    sum_of_digests,
)

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
            plan = self._plan_of(minibatch)
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

    def _plan_of(self, minibatch: Minibatch) -> Plan:
        found = minibatch.origin or (self._source and self._source.timeline)
        if not isinstance(found, Plan):
            raise ValueError(
                "this minibatch came from another process and does not know its order: give "
                "Receipts(path, source=source)"
            )
        return found

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
