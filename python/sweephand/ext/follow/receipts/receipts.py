"""The receipts that a training run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweephand import DataError, Minibatch, MinibatchSource, StateError
from sweephand.ext.follow.ledger.step_log import StepFile, StepLog, file_of_worker
from sweephand.ext.follow.receipts.audit import ReceiptAudit, audit
from sweephand.ext.follow.receipts.receipt import (
    BYTES,
    NO_CONTENT,
    NO_PARAMETERS,
    SUFFIX,
    Header,
    Receipt,
    first_chain,
    hash_content,
    hash_control,
    hash_events,
    hash_ids,
    hash_parameters,
    next_chain,
    order_of,
    read_file,
    receipts_in,
    request_of,
)
from sweephand.extend import (
    Plan,
    TakenStep,
    WholePlans,
    check_flag,
    check_int,
    check_kind,
    file_of_tensors,
    read_count,
    reading,
    shown,
)

if TYPE_CHECKING:
    from sweephand.extend import Workers


_MOST_WAITING = 64 * BYTES


class ReceiptFile(StepFile):
    """A file of receipts that is open to be written to."""

    header: Header | None  # None while it is empty
    chain: bytes  # of the last receipt
    position: int | None  # nominal time after the last minibatch, if that is known
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
        """Write the begin of the next minibatch, for a resumed run that has no further step.

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


class Receipts(StepLog[ReceiptFile]):
    """Receipts of every step: 64 bytes that anyone can check with corpus and seed.

    A receipt has the beginning of a step's minibatch and hashes of the plan for all workers,
    the events in force, the decisions of control and, on request, the content of the minibatch
    and the parameters after it. Each is chained to all before it. `audit`, and ``sweephand
    audit``, derive them again from the corpus; ``docs/receipts.md`` shows how to do so without
    this library.

    A `Trainer` calls it after every step, as a progress writer. Other loops call `record`.
    A run that is restored, or goes back, drops the receipts after that step. The first worker
    writes; with `content` each writes the content of its own share, to a file of its own.

    Parameters
    ----------
    path : path
        The folder of the receipts. It is made with the first step.
    source : MinibatchSource, optional
        The source of the minibatches, if they come from the processes of a loader.
    content : bool
        Also hash the content of minibatches, at about 0.5 GB/s.
    parameters_every : int
        Also hash the parameters of the model, once in this number of steps; 0: never. A
        `Trainer` does it; in other loops `record` hashes the parameters that it is given.
    overwrite : bool
        Drop existing receipts at a start with step 1, instead of refusing it. A restored run
        continues with them in any case.
    num_data_partitions, partition_index : int
        Number of workers, and the index of this one. A `Trainer` sets its own.

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

    suffix = SUFFIX
    what = "receipts"
    kept = "there are receipts"

    def __init__(
        self,
        path: str | Path,
        *,
        source: MinibatchSource | None = None,
        content: bool = False,
        parameters_every: int = 0,
        overwrite: bool = False,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> None:
        check_kind("source", source, MinibatchSource, optional=True)
        self._source = source
        self._content = check_flag("content", content)
        self._parameters_every = check_int("parameters_every", parameters_every, 0)
        self._plans: tuple[Plan, WholePlans] | None = None
        self._checked: tuple[ReceiptFile, Plan] | None = None  # that belong together
        super().__init__(
            path,
            overwrite=overwrite,
            num_data_partitions=num_data_partitions,
            partition_index=partition_index,
        )

        self._is_copy = False  # of another worker with the same data

    def join(self, workers: Workers) -> bool:
        """Follow every worker: all gather the parameters, and those that write hash them."""
        self._is_copy = not super().join(workers)
        return True

    @property
    def _writes(self) -> bool:
        return not self._is_copy and (self._content or self._partition_index == 0)

    def wants_parameters(self, step: int) -> bool:
        """Return True if the parameters after a step are to be hashed."""
        return self._parameters_every > 0 and step % self._parameters_every == 0

    def record(
        self,
        minibatch: Minibatch,
        *,
        control: Mapping[str, bool | float | str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Add the receipt of a step that took a minibatch, or this worker's share of it.

        Parameters
        ----------
        minibatch : Minibatch
        control : mapping from name to bool, number or str, optional
            Decisions of the step: if it changed the parameters, its learning rate, the loss
            scale.
        parameters : mapping from name to array or tensor, optional
            The parameters after the step, hashed as their file ``model.safetensors`` would be.
        step : int, optional
            From 1, and above that of the last call; by default the next one.

        Raises
        ------
        FileExistsError
            If there are receipts of this step or later, without a step back by `rewind`,
            `load_state_dict` or a restored trainer that would allow overwriting them.
        StateError
            If the receipts that are there are of another corpus or order.
        OSError
            If they cannot be written, or something else writes there.
        DataError
            If they are damaged.
        ValueError
            If the minibatch came from another process, and there is no `source`.
        TypeError
            If the minibatch is not one of a source, or JSON cannot hold `control`.
        """
        found = NO_PARAMETERS
        if parameters is not None:
            found = hash_parameters(file_of_tensors(parameters))
        self.add(minibatch, hash_control(control), found, step)

    def stepped(self, taken: TakenStep) -> None:
        """Give a step its receipt."""
        parameters = NO_PARAMETERS
        if self.wants_parameters(taken.step):
            parameters = hash_parameters(taken.parameters())
        if self._writes:
            self.add(taken.minibatch, hash_control(taken.values), parameters, taken.step)

    def add(
        self, minibatch: object, control: bytes, parameters: bytes, step: int | None = None
    ) -> None:
        """Add a receipt whose control and parameters are hashed already."""
        step = self._next_step(minibatch, step)
        if step == self._step:
            raise ValueError(f"step must be at least {step + 1}, got {step}: it has a receipt")
        assert isinstance(minibatch, Minibatch)
        if not minibatch:
            raise ValueError("the end of the data has no receipt")
        if self._writes:
            file = self._ready(step - 1)
            plan = self._plan_of(minibatch)
            header = self._header(file, plan, minibatch, step)
            planned = minibatch.planned
            asked = planned.request
            whole = planned if asked.num_workers == 1 else self._whole(minibatch, plan)
            streams = header.streams
            receipt = Receipt(
                step,
                planned.nominal_time,
                request_of(asked.num_samples, crosses_sweeps=asked.crosses_sweeps),
                hash_ids(whole),
                NO_CONTENT if streams is None else hash_content(minibatch, streams),
                hash_events(plan, planned.nominal_time),
                control,
                parameters,
            )
            file.add(receipt, minibatch.next_position.time)
        self._step = step

    def _whole(self, minibatch: Minibatch, plan: Plan) -> Any:
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

    def _header(self, file: ReceiptFile, plan: Plan, minibatch: Minibatch, step: int) -> Header:
        """Return the header of a file, which is written if there is none."""
        header, checked = file.header, self._checked
        if checked is not None and checked[0] is file and checked[1] is plan:
            assert header is not None
            return header
        if header is None:
            start = minibatch.position
            streams = sorted(minibatch[key].info.name for key in minibatch)
            header = Header(
                self._partition_index,
                {"step": step, "time": start.time, "progress": list(start.progress)},
                streams if self._content else None,
                order_of(plan),
                plan.options.to_json(),
            )
            file.begin(header)
        elif differing := header.difference(order_of(plan)):
            raise StateError(f"{file.path} is of another corpus or order: {differing}")
        elif self._content != (header.streams is not None):
            there = "not " if self._content else ""
            raise StateError(f"{file.path} was begun {there}with content=True")
        self._checked = file, plan
        return header

    @property
    def head(self) -> str:
        """Last link of the chain, which authenticates all receipts: 32 hexadecimal digits.

        With it, a shortened or different file is recognised.

        Raises
        ------
        FileNotFoundError
            If there are no receipts.
        """
        if self._file is not None and self._file.header is not None:
            return self._file.chain.hex()
        return read_file(file_of_worker(self._folder, self._partition_index, SUFFIX)).head.hex()

    def state_dict(self) -> dict[str, Any]:
        """Return the last step, for loops without a trainer; all receipts are on disk."""
        state = super().state_dict()
        if self._file is None or self._file.header is None:
            return state
        return state | {"head": self.head, "worker": self._partition_index}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to the state of this, or of another worker of the run: `rewind`.

        Raises
        ------
        StateError
            If other receipts lead there; each worker looks at those that the state is of, if
            its folder has them.
        """
        super().load_state_dict(state)
        wanted = state.get("head")
        if wanted is None or not self._writes:
            return
        with reading(self.what):
            worker = read_count("worker", state.get("worker", self._partition_index))
        found = (
            self.head if worker == self._partition_index else self._head_of(worker, self._step)
        )
        if found not in (None, wanted):
            raise StateError(
                f"the receipts up to step {self._step} end with {found}, those of the "
                f"state with {shown(wanted)}: they are of another run"
            )

    def _head_of(self, worker: int, step: int) -> str | None:
        """Return the chain up to a step in the file of another worker; None if it has none."""
        path = file_of_worker(self._folder, worker, SUFFIX)
        if not path.exists():
            return None
        links = read_file(path).links()
        return next((link.chain.hex() for link in links if link.receipt.step == step), None)

    def audit(
        self,
        source: MinibatchSource,
        *,
        content: bool = False,
        step: int | None = None,
        head: str | None = None,
        against: str | Path | None = None,
        allow_unsealed: bool = False,
        allow_jumps: bool = False,
    ) -> ReceiptAudit:
        """Derive all receipts again, and compare; nothing is trained.

        Parameters
        ----------
        source : MinibatchSource
            Of the same corpus and settings; it stays where it is.
        content : bool
            Also read the data.
        step : int, optional
            The only step whose minibatch is derived again; the chain is followed anyway.
        head : str, optional
            An earlier `head`: the audit finds receipts added after it or changed before it.
        against : path, optional
            Receipts of a run that did the same: control and parameters are compared too.
        allow_unsealed : bool
            Accept a file that was not closed: its run was killed, or goes on.
        allow_jumps : bool
            Accept minibatches that do not begin where the one before ended, as when
            ``source.current_position`` was set, and steps that are missing.

        Returns
        -------
        ReceiptAudit

        Raises
        ------
        FileNotFoundError
            If there are no receipts.
        DataError
            If data cannot be read.
        ValueError
            If `content` was not taken, or the step is not there.
        """
        self.flush()
        return audit(
            self._folder,
            source,
            content=content,
            step=step,
            head=head,
            against=None if against is None else Path(against).expanduser(),
            allow_unsealed=allow_unsealed or self._file is not None,
            allow_jumps=allow_jumps,
        )

    def _open_file(self, path: Path) -> ReceiptFile:
        return ReceiptFile(path)
