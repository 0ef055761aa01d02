"""The ledger of losses that a training run keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweephand import Minibatch
from sweephand.ext.follow.ledger.ledger_file import LedgerFile
from sweephand.ext.follow.ledger.loss_rows import StepRows
from sweephand.ext.follow.ledger.read_ledger import SUFFIX, read_ledger, to_table
from sweephand.ext.follow.ledger.sequence_losses import sequence_losses
from sweephand.ext.follow.ledger.step_log import StepLog
from sweephand.extend import OptionalModule, Step, TakenStep, check_path

if TYPE_CHECKING:
    import pyarrow as pa

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
