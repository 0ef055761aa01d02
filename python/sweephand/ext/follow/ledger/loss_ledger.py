"""The ledger of losses that a training run keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweephand import Minibatch, MinibatchData
from sweephand.ext.follow.ledger.read_ledger import (
    LEDGER,
    SUFFIX,
    Kind,
    LedgerBlock,
    MetNames,
    StepRows,
    blocks_of,
    pack_block,
    pack_rows,
    read_ledger,
    to_table,
)
from sweephand.ext.follow.ledger.step_log import StepFile, StepLog
from sweephand.extend import (
    OptionalModule,
    SequenceIds,
    TakenStep,
    _core,
    check_path,
    find_losses,
)
from sweephand.train import Step

if TYPE_CHECKING:
    import pyarrow as pa


_MOST_ROWS = 1 << 16  # that wait to be written


class LedgerFile(StepFile):
    """A file of blocks with the rows of steps."""

    def __init__(self, path: Path) -> None:
        self._waiting: list[StepRows] = []
        self._num_waiting = 0
        self._new_names = b""
        super().__init__(path, "LossLedger", "ledger")

    def _find_end(self, step: int | None) -> None:
        content = self._file.content()
        blocks = blocks_of(content, str(self.path))
        names = MetNames()
        for block in blocks:
            if block.kind in (Kind.NAMES, Kind.SHARDS):
                names.read(block, block.frame.payload(content), str(self.path))
        self._names = names
        self._file.end = blocks[-1].frame.end if blocks else 0
        self.last_step = last_step(blocks)

    def add(self, visits: StepRows, ids: SequenceIds) -> None:
        """Add the visits of a step, at least one sequence; they are written soon."""
        self._new_names += self._names.meet(ids, visits.numbers, self.last_step)
        self._waiting.append(visits)
        self._num_waiting += len(visits.numbers)
        self.last_step = visits.step
        self._flush_if_due(is_full=self._num_waiting >= _MOST_ROWS)

    def _write_waiting(self) -> None:
        if self._waiting or self._new_names:
            blocks = self._new_names if self._file.end else LEDGER.head + self._new_names
            if self._waiting:
                blocks += pack_rows(self._waiting)
            self._file.append(blocks)
            self._waiting, self._num_waiting, self._new_names = [], 0, b""

    def rewind(self, step: int) -> None:
        """Drop all rows after a step; after step 0 all rows."""
        self.flush()
        blocks = blocks_of(self._file.content(), str(self.path))
        kept = list(_until(blocks, step)) if step else []
        self._file.cut(kept[-1].frame.end if kept else 0)
        self._find_end(step)
        if self.last_step > step:  # the last block goes on after the step
            self._file.append(pack_block(Kind.REWIND, step, step))
            self.last_step = step
        self.flush(to_disk=True)


def last_step(blocks: list[LedgerBlock]) -> int:
    """Return the last step that blocks leave rows of; 0 if there is none."""
    last = 0
    for block in blocks:
        if block.kind == Kind.VISITS:
            last = block.last_step
        elif block.kind == Kind.REWIND:
            last = min(last, block.last_step)
    return last


def _until(blocks: list[LedgerBlock], step: int) -> Iterator[LedgerBlock]:
    """Yield the blocks before the first whose rows are all of later steps."""
    for block in blocks:
        if block.kind == Kind.VISITS and block.first_step > step:
            return
        yield block


_TOLERANCE = 1e-6  # of the sum of magnitudes, that may be in gaps


def sequence_losses(minibatch: Minibatch, losses: Any) -> NDArray[np.float32]:
    """Return the loss of each sequence of a minibatch, or of each piece in its rows.

    Losses are those of `LossLedger.record`. Streams are tried in turn, ``labels`` first; a
    single number is the loss of a share of one sequence. Sums are made in float64. ValueError
    is raised if losses have another shape, or those in the gaps of a dense array are not 0.
    """
    values = _as_array(losses)
    wanted = "a ledger needs a loss for each sequence of the minibatch"
    data, width = find_losses(minibatch, values.shape, wanted)
    if data is None:
        return values.reshape(-1)[: minibatch.num_sequences].copy()  # the caller's may change
    if width is None:
        return _sums(values, data.offsets[:-1], data.lengths).astype(np.float32)
    sums = _sums_of_cells(minibatch, data, values, width)
    _refuse_gaps(sums[:-1], float(sums[-1]))
    return sums[:-1].astype(np.float32)


def _as_array(losses: Any) -> NDArray[np.float32]:
    if hasattr(losses, "detach"):  # a tensor, which may be of a type that NumPy lacks
        losses = losses.detach().float().cpu().numpy()
    return np.ascontiguousarray(losses, np.float32)


def _sums_of_cells(
    minibatch: Minibatch, data: MinibatchData, values: NDArray[np.float32], width: int
) -> NDArray[np.float64]:
    """Return the sum of each sequence in rows of `width` columns, and of all cells."""
    plan = minibatch.planned
    if minibatch.layout.has_rows:
        cells, sizes = plan.cells(), plan.sizes()
    else:
        sizes = data.lengths.astype(np.uint32)
        cells = np.zeros((len(sizes), 4), np.uint32)
        cells[:, 0] = np.arange(len(sizes))
        if minibatch.layout.assemble_options.pad_left:
            cells[:, 1] = data.dense_shape[1] - sizes
    return _core.train.row_sums(values.reshape(-1), cells, sizes, width)


def _sums(
    values: NDArray[np.float32], begins: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    begins, sizes = np.ascontiguousarray(begins), np.ascontiguousarray(sizes)
    return _core.train.segment_sums(
        values.reshape(-1), begins.view(np.uint64), sizes.view(np.uint64)
    )


def _refuse_gaps(sums: NDArray[np.float64], total: float) -> None:
    """Raise if gaps have losses: the sums would not add up to that of the step."""
    missing = total - float(sums.sum())
    if not math.isfinite(missing) or abs(missing) <= _TOLERANCE * abs(total):
        return
    if abs(missing) > _TOLERANCE * float(np.abs(sums).sum()):
        raise ValueError(
            f"losses in gaps between sequences add up to {missing:.6g}: they must be 0 where "
            "minibatch[...].mask is 0"
        )


pq = OptionalModule("pyarrow.parquet", extra="parquet")


class LossLedger(StepLog[LedgerFile]):
    """Record of the loss of every sequence at every visit, with its id and time.

    As a progress writer of a `Trainer` it takes the losses that the criterion returns: instead
    of their sum a loss for each sequence, or for each token. In other loops `record` takes
    them. Rows are appended in blocks with checksums, every 65,536 rows or five seconds, and
    when training is saved; a block torn by a crash is dropped. A row takes 12 bytes, and a step
    20. Each worker writes a file of its own; they are read as one.

    When a trainer is restored, or goes back, it drops the rows after that step. So a run that
    was stopped leaves the same rows as one that was not.

    Parameters
    ----------
    path : path
        The folder of the ledger, with any name. It is made with the first step.
    overwrite : bool
        Drop existing rows at a start with step 1, instead of refusing it. A restored run
        continues with them in any case.
    num_data_partitions, partition_index : int
        Number of writing workers, and the index of this one. A `Trainer` sets its own.

    Examples
    --------
    >>> import numpy as np, sweephand as sh
    >>> corpus = sh.ArrayDeserializer({"labels": np.float32([1, 2, 3, 4])})
    >>> model = {"mean": np.zeros(1, np.float32)}
    >>> def squared_errors(model, minibatch):
    ...     errors = model["mean"] - minibatch["labels"].values
    ...     return errors**2, [2 * errors.sum(keepdims=True)]
    >>> ledger = sh.LossLedger("losses")
    >>> learner = sh.numpy.SGD(model, 0.5)
    >>> trainer = sh.Trainer(model, squared_errors, learner, progress_writers=ledger)
    >>> source = sh.MinibatchSource(corpus, randomize=False)
    >>> trainer.train_minibatch(source.next_minibatch(4))
    True
    >>> for row in ledger.table().slice(2).to_pylist():
    ...     print(row["id"], row["step"], row["nominal_time"], row["corpus"], row["loss"])
    array__2 1 0 array 9.0
    array__3 1 0 array 16.0
    """

    suffix = SUFFIX
    what = "a ledger of losses"
    kept = "this ledger has rows"

    def record(self, minibatch: Minibatch, losses: Any, step: int | None = None) -> None:
        """Add the losses of the sequences of a minibatch, or of this worker's share of it.

        Parameters
        ----------
        minibatch : Minibatch
        losses : array_like, or torch tensor
            One for each sequence, shape (sequences,), in layouts of rows for each piece; or for
            each sample of a stream, as in `MinibatchData.values`; or for each cell of its dense
            array, flat or not, the last column of which may be missing. Those of a sequence are
            added up in float64 and kept in float32.
        step : int, optional
            From 1, and not below that of the last call; by default the next one. Parts of
            a minibatch have the same.

        Raises
        ------
        FileExistsError
            If the ledger has this step or later ones, has not gone back (`rewind`,
            `load_state_dict`, a restored trainer), and is not to be overwritten.
        OSError
            If it cannot be written, or something else writes there.
        DataError
            If it is damaged, elsewhere than at its end.
        ValueError
            If losses have another shape, or those between sequences are not 0.
        TypeError
            If the minibatch is not one of a source.
        """
        step = self._next_step(minibatch, step)
        found = sequence_losses(minibatch, losses)
        file = self._ready(step - 1)
        self._step = step
        plan = minibatch.planned
        if len(found):
            visits = StepRows(step, plan.nominal_time, plan.sequences(), plan.sizes(), found)
            file.add(visits, minibatch._ids)

    def table(self) -> pa.Table:
        """Return all rows of all workers, in the order of steps.

        Returns
        -------
        pyarrow.Table
            Its columns are id, the name of the sequence (its number, where no id is known);
            step, int64, from 1; nominal_time, int64, when the global minibatch began; corpus,
            the file, array or corpus of a mixture that has the sequence, null if ids do not
            hold it; loss, float32; num_samples, uint32, of the size-defining stream. A
            sequence that was cut into pieces has a row for each.

        Raises
        ------
        FileNotFoundError
            If there is no ledger.
        DataError
            If it is damaged.
        ImportError
            Without pyarrow.
        """
        self.flush()
        return to_table(*read_ledger(self._folder))

    def to_parquet(self, path: str | Path) -> None:
        """Write `table` to a Parquet file."""
        check_path("path", path)
        pq.write_table(self.table(), Path(path).expanduser())

    @cached_property
    def _waiting(self) -> dict[int, Sequence[tuple[Any, Any]]]:
        """Minibatches and losses of steps whose figures are on their way."""
        return {}

    def stepped(self, taken: TakenStep) -> None:
        """Keep the losses of a step until it counts."""
        if taken.losses:
            self._waiting[taken.step] = taken.losses

    def measured(self, step: Step) -> None:
        """Record the losses of a step."""
        for number in [one for one in self._waiting if one <= step.step]:
            found = self._waiting.pop(number)
            for minibatch, losses in found if number == step.step else ():
                self.record(minibatch, losses, number)

    def rewind(self, step: int) -> None:
        """Drop the rows of the steps after `step`, also those of workers that left.

        A trainer calls it when it is restored. Every worker does.
        """
        self._waiting.clear()
        super().rewind(step)

    def _open_file(self, path: Path) -> LedgerFile:
        return LedgerFile(path)
