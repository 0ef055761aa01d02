"""The ledger of losses that a training run keeps."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sweephand.checks import check_flag, check_int
from sweephand.errors import ArgumentTypeError
from sweephand.minibatch.minibatch import Minibatch
from sweephand.train.arguments import check_path
from sweephand.train.checkpoint.read_state import check_keys, read_count, reading
from sweephand.train.ledger.ledger_file import LedgerFile
from sweephand.train.ledger.ledger_table import to_table, write_parquet
from sweephand.train.ledger.read_ledger import file_of_worker, read_ledger, worker_files
from sweephand.train.ledger.sequence_losses import sequence_losses
from sweephand.train.ledger.visits import StepVisits
from sweephand.train.progress.record import Record, Step

if TYPE_CHECKING:
    import pyarrow as pa


class LossLedger:
    """Keep the loss of every sequence at every visit, with its id and when it was.

    As a progress writer of a `Trainer` it takes the losses that the criterion returns: in place
    of their sum one for each sequence, or for each token. In other loops `record` takes them.
    Rows are appended in blocks with checksums, every 65,536 rows or five seconds, and when
    training is saved; a block that a crash has torn is dropped. A row takes 12 bytes, and a
    step 20. Each worker writes a file of its own; they are read as one.

    A trainer that is restored, or goes back, drops the rows behind that step, so that a run
    that was stopped leaves the same rows as one that was not.

    Parameters
    ----------
    path : path
        The folder of the ledger, whatever its name. It is made when the first step comes.
    overwrite : bool
        What a start at step 1 does with rows that are there: drop them, or be refused. A run
        that is restored goes on with them in any case.
    num_data_partitions, partition_index : int
        How many workers write, and which one this is. A `Trainer` tells it its own.

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

    every_worker = True
    is_silent = True  # it shows nobody what it is told

    def __init__(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        num_data_partitions: int = 1,
        partition_index: int = 0,
    ) -> None:
        check_path("path", path)
        self._folder = Path(path).expanduser()
        self._overwrite = check_flag("overwrite", overwrite)
        self._step = 0  # the last one that was recorded or gone back to
        self._file: LedgerFile | None = None  # once it is written to
        self._closing: weakref.finalize[[], LossLedger] | None = None
        self._num_workers, self._index = 1, 0
        self.share(num_data_partitions, partition_index)

    def __repr__(self) -> str:
        return f"LossLedger({str(self._folder)!r})"

    def share(self, num_data_partitions: int, partition_index: int) -> None:
        """Say how many workers write, and which one this is, before the first step."""
        count = check_int("num_data_partitions", num_data_partitions)
        index = check_int("partition_index", partition_index, 0, count)
        if self._file is not None and (count, index) != (self._num_workers, self._index):
            self.close()
        self._num_workers, self._index = count, index

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
            From 1, and not below that of the last call; by default the one behind it. Parts of
            a minibatch have the same.

        Raises
        ------
        FileExistsError
            If the ledger has this step or later ones, was not told to go back (`rewind`,
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
        if not isinstance(minibatch, Minibatch):
            raise ArgumentTypeError(
                f"minibatch must be one of a source, got a {type(minibatch).__name__}"
            )
        least = max(self._step, 1)
        step = self._step + 1 if step is None else check_int("step", step, least)
        found = sequence_losses(minibatch, losses)
        file = self.begin(step - 1)
        self._step = step
        plan = minibatch._plan
        if len(found):
            visits = StepVisits(step, plan.nominal_time, plan.sequences(), plan.sizes(), found)
            file.add(visits, minibatch._ids)

    def begin(self, step: int) -> LedgerFile:
        """Be ready for the steps behind one, or raise as `record` does."""
        if self._file is None:
            self._open(lambda file: self._prepare(file, step))
            self._step = step
        assert self._file is not None
        return self._file

    def rewind(self, step: int) -> None:
        """Drop the rows behind a step, those of workers that are no more included.

        A trainer calls it when it is restored. Every worker does.
        """
        check_int("step", step, 0)
        has_more = self._file is None or self._file.last_step > step or self._left_files()
        if has_more:
            self.close()
            self._open(lambda file: file.rewind(step))
        self._step = step

    def flush(self, *, to_disk: bool = False) -> None:
        """Write the rows that wait, and return when the disk has them if that is wanted."""
        if self._file is not None:
            self._file.flush(to_disk=to_disk)

    def close(self) -> None:
        """Write the rows that wait, and close the file; the next step opens it again.

        At the end of the program, or when nobody has the ledger any more, it happens by itself.
        """
        if self._closing is not None:
            self._closing()
        self._file = None

    def state_dict(self) -> dict[str, Any]:
        """Return where the ledger stands, for loops without a trainer; its rows are on disk."""
        self.flush(to_disk=True)
        return {"step": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where the ledger stood: `rewind`."""
        check_keys("a ledger", state, ["step"])
        with reading("a ledger"):
            step = read_count("step", state["step"])
        self.rewind(step)

    def table(self) -> pa.Table:
        """Return all rows of all workers, in the order of steps.

        Returns
        -------
        pyarrow.Table
            Its columns are id, the name of the sequence (its number, where no id is known);
            step, int64, from 1; nominal_time, int64, when the global minibatch began; corpus,
            the file, array or corpus of a mixture that the sequence is of, null where ids do
            not tell it; loss, float32; num_samples, uint32, of the size-defining stream. A
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
        write_parquet(self.table(), Path(path).expanduser())

    def update(self, step: Step) -> None:
        """Do nothing: a trainer calls `record`."""

    def write(self, record: Record) -> None:
        """Write the rows that wait when something else than a value is told."""
        if record.kind != "change":
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, prepare: Callable[[LedgerFile], None]) -> None:
        """Open this worker's file, and prepare it and those of workers that are no more."""
        if self._folder.exists() and not self._folder.is_dir():
            reason = "a ledger of losses is a folder, this is a file"
            raise NotADirectoryError(errno.ENOTDIR, reason, str(self._folder))
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._left_files():
            with closing(LedgerFile(path)) as left:
                prepare(left)
        file = LedgerFile(file_of_worker(self._folder, self._index))
        try:
            prepare(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._closing = weakref.finalize(self, file.close)

    def _left_files(self) -> list[Path]:
        """Return the files of workers that are no more, which the first one looks after."""
        found = worker_files(self._folder) if self._index == 0 else {}
        return [path for index, path in found.items() if index >= self._num_workers]

    def _prepare(self, file: LedgerFile, step: int) -> None:
        """Refuse, or drop, rows behind a step that nobody has gone back to."""
        if file.last_step <= step:
            return
        if not self._overwrite:
            reason = (
                f"this ledger has rows up to step {file.last_step}: restore the run that wrote "
                f"them (or call rewind({step})), name another folder, or say overwrite=True"
            )
            raise FileExistsError(errno.EEXIST, reason, str(self._folder))
        file.rewind(step)
