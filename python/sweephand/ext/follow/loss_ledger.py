"""The ledger of losses that a training run keeps, and its content as an Arrow table.

Each worker writes a file of records (`run/records.py`), of blocks:

::

    label    u8 kind | u64 first step | u64 last step
    payload by kind:
    VISITS   rows: u64 step | u64 nominal time | u64 number | u32 samples | f32 loss
    NAMES    JSON: lists "numbers", "names" and "corpora" of sequences
    SHARDS   JSON: lists "shards" and "starts" of a corpus whose ids are numbers in its shards
    REWIND   nothing: rows of this file before it, after its last step, are dropped

All is little endian. A number is that of a sequence in its corpus.
"""

from __future__ import annotations

import errno
import json
import math
import os
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError, Minibatch, MinibatchData
from sweephand.ext.follow.step_log import StepFile, StepLog, worker_files
from sweephand.extend import (
    OptionalModule,
    SequenceIds,
    ShardIds,
    TakenStep,
    _core,
    find_losses,
    open_regular,
    records,
)
from sweephand.train import Step

if TYPE_CHECKING:
    import pyarrow


LEDGER = records.RecordKind(
    b"SWEEPLSS",
    3,
    "ledger of losses",
    "read it with the version of sweephand that wrote it, or name another folder",
)
_LABEL = struct.Struct("<BQQ")

Rows = NDArray[np.void]  # of `ROW`
ROW = np.dtype(
    [
        # of a step the number, from 1, and the nominal time at which its minibatch begins
        ("step", "<i8"),
        ("time", "<i8"),
        ("number", "<u8"),  # of the sequence in its corpus
        ("samples", "<u4"),  # of it, or of the piece of it, in the size-defining stream
        ("loss", "<f4"),
    ]
)


class Kind(IntEnum):
    """Contents of a block."""

    VISITS = 1
    NAMES = 2
    SHARDS = 3
    REWIND = 4


_KINDS = frozenset(map(int, Kind))


class LedgerBlock(NamedTuple):
    """A block of a ledger's file."""

    kind: Kind
    # of its rows; of other kinds both are the last step before it
    first_step: int
    last_step: int
    frame: records.Block  # its place in its file


def pack_block(kind: Kind, first_step: int, last_step: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a block, as `LedgerBlock` describes it."""
    return records.pack_block(_LABEL.pack(kind, first_step, last_step), payload)


def blocks_of(content: memoryview, path: str) -> list[LedgerBlock]:
    """Return the blocks of a file, except a torn last block.

    Payloads are not looked at, except that of the last block.
    """
    found = []
    for block in records.blocks_of(content, LEDGER, path):
        if len(block.label) != _LABEL.size or block.label[0] not in _KINDS:
            raise DataError("this is no block of a ledger of losses", path, block.begin)
        kind, first, last = _LABEL.unpack(block.label)
        found.append(LedgerBlock(Kind(kind), first, last, block))
    return found


class MetNames:
    """Names that a file of a ledger already holds, for its writer.

    Ids that are numbers in shards are stored once, by the shards; all others when they are met
    for the first time.
    """

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._is_known = np.zeros(0, np.bool_)  # by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add the names in a block; DataError if it holds none."""
        names = _parse_names(block, payload, path)
        if isinstance(names, ShardIds):
            self._shards = names
        else:
            self._mark(np.array([*names], np.uint64))

    def meet(self, ids: SequenceIds, numbers: NDArray[np.uint64], step: int) -> bytes:
        """Return blocks with the names of a step's sequences that are not in the file yet."""
        if isinstance(ids, ShardIds):
            known, self._shards = self._shards, ids
            if known is ids:
                return b""
            starts = ids.starts.tolist()
            if known and (known.shards, known.starts.tolist()) == (ids.shards, starts):
                return b""
            return _pack(Kind.SHARDS, step, {"shards": ids.shards, "starts": starts})
        self._reserve(numbers)
        fresh = np.unique(numbers[~self._is_known[numbers]])
        if not fresh.size:
            return b""
        self._mark(fresh)
        fields = {
            "numbers": fresh.tolist(),
            "names": ids.names(fresh),
            "corpora": ids.corpora(fresh),
        }
        return _pack(Kind.NAMES, step, fields)

    def _mark(self, numbers: NDArray[np.uint64]) -> None:
        self._reserve(numbers)
        self._is_known[numbers] = True

    def _reserve(self, numbers: NDArray[np.uint64]) -> None:
        wanted = int(numbers.max(initial=0)) + 1
        if wanted > len(self._is_known):
            grown = np.zeros(max(wanted, 2 * len(self._is_known)), np.bool_)
            grown[: len(self._is_known)] = self._is_known
            self._is_known = grown


class SequenceNames:
    """Names of the sequences of a ledger, by their numbers."""

    def __init__(self) -> None:
        self._shards: ShardIds | None = None
        self._named: dict[int, tuple[str, str]] = {}  # name and corpus by number

    def read(self, block: LedgerBlock, payload: memoryview, path: str) -> None:
        """Add the names in a block; DataError if it holds none."""
        names = _parse_names(block, payload, path)
        if isinstance(names, ShardIds):
            self._shards = names
        else:
            self._named |= names

    def of(self, numbers: NDArray[np.uint64]) -> tuple[list[str], list[str]]:
        """Return names and corpora of sequences; an unknown sequence is named by its number."""
        pairs: dict[int, tuple[str, str]] = {}
        if (shards := self._shards) is not None:
            inside = numbers[numbers < shards.starts[-1]]
            named = zip(shards.names(inside), shards.corpora(inside), strict=True)
            pairs = dict(zip(inside.tolist(), named, strict=True))
        pairs |= self._named
        found = [pairs.get(number) or (str(number), "") for number in numbers.tolist()]
        return [name for name, _ in found], [corpus for _, corpus in found]


def _pack(kind: Kind, step: int, fields: dict[str, Any]) -> bytes:
    return pack_block(kind, step, step, json.dumps(fields, allow_nan=False).encode())


def _parse_names(
    block: LedgerBlock, payload: memoryview, path: str
) -> ShardIds | dict[int, tuple[str, str]]:
    """Return the shards, or the names and corpora by number, of a block."""
    try:
        fields: Any = json.loads(bytes(payload))
        if block.kind == Kind.SHARDS:
            return ShardIds(fields["shards"], fields["starts"])
        pairs = zip(fields["names"], fields["corpora"], strict=True)
        return dict(zip(fields["numbers"], pairs, strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"no names of sequences: {error}", path, block.frame.begin) from error


pa = OptionalModule("pyarrow", extra="parquet")

SUFFIX = ".losses"


def read_ledger(folder: Path) -> tuple[Rows, SequenceNames]:
    """Return all rows in the order of steps, and the names of their sequences."""
    files = worker_files(folder, SUFFIX)
    if not files:
        reason = "there is no ledger of losses: no file 0.losses in this folder"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    names, parts = SequenceNames(), [np.empty(0, ROW)]
    for path in files.values():
        parts += _read_file(path, names)
    rows = np.concatenate(parts)
    return rows[np.argsort(rows["step"], kind="stable")], names


def to_table(rows: Rows, names: SequenceNames) -> pyarrow.Table:
    """Return rows as a table; see `LossLedger.table`."""
    numbers, places = np.unique(rows["number"], return_inverse=True)
    ids, corpora = names.of(numbers)
    columns = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
    return pa.table(
        {
            "id": pa.DictionaryArray.from_arrays(places.astype(np.int32), _texts(ids)),
            "step": columns["step"],
            "nominal_time": columns["time"],
            "corpus": _corpora(corpora, places),
            "loss": columns["loss"],
            "num_samples": columns["samples"],
        }
    )


def _read_file(path: Path, names: SequenceNames) -> list[Rows]:
    parts: list[Rows] = []
    with open_regular(path) as file:
        content = memoryview(file.read())  # no map: its writer may shorten the file
    for block in blocks_of(content, str(path)):
        if not block.frame.is_whole(content):
            raise DataError("this block of the ledger is damaged", str(path), block.frame.begin)
        payload = block.frame.payload(content)
        if block.kind == Kind.REWIND:
            parts = [rows[rows["step"] <= block.last_step] for rows in parts]
        elif block.kind != Kind.VISITS:
            names.read(block, payload, str(path))
        elif len(payload) % ROW.itemsize:
            raise DataError(
                "this block of the ledger has other columns", str(path), block.frame.begin
            )
        else:
            parts.append(np.frombuffer(payload, ROW))
    return parts


def _corpora(corpora: Sequence[str], places: NDArray[np.intp]) -> pyarrow.DictionaryArray:
    """Return the corpus of each row; null where there is none."""
    names = sorted(set(corpora) - {""})
    number = {name: i for i, name in enumerate(names)} | {"": -1}
    found = np.array([number[name] for name in corpora], np.int32)[places]
    indices = pa.array(found, mask=found < 0)
    return pa.DictionaryArray.from_arrays(indices, _texts(names))


def _texts(texts: Sequence[str]) -> pyarrow.Array:
    """Return texts as Arrow has them: in UTF-8, which names of files need not be."""
    valid = [
        text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in texts
    ]
    return pa.array(valid, pa.string())


_MOST_ROWS = 1 << 16  # that wait to be written


class LedgerFile(StepFile):
    """A file of blocks with the rows of steps."""

    def __init__(self, path: Path) -> None:
        self._waiting: list[Rows] = []
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

    def add(self, rows: Rows, ids: SequenceIds) -> None:
        """Add the rows of a step, at least one; they are written soon."""
        self._new_names += self._names.meet(ids, rows["number"], self.last_step)
        self._waiting.append(rows)
        self._num_waiting += len(rows)
        self.last_step = int(rows["step"][-1])
        self._flush_if_due(is_full=self._num_waiting >= _MOST_ROWS)

    def _write_waiting(self) -> None:
        if self._waiting or self._new_names:
            blocks = self._new_names if self._file.end else LEDGER.head + self._new_names
            if self._waiting:
                rows = np.concatenate(self._waiting)
                first, last = rows["step"][[0, -1]].tolist()
                blocks += pack_block(Kind.VISITS, first, last, rows.tobytes())
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
    if hasattr(losses, "detach"):  # a tensor, which may be of a type that NumPy lacks
        losses = losses.detach().float().cpu().numpy()
    values = np.ascontiguousarray(losses, np.float32)
    wanted = "a ledger needs a loss for each sequence of the minibatch"
    data, width = find_losses(minibatch, values.shape, wanted)
    if data is None:
        return values.reshape(-1)[: minibatch.num_sequences].copy()  # the caller's may change
    if width is None:
        begins, sizes = (
            np.ascontiguousarray(one).view(np.uint64)
            for one in (data.offsets[:-1], data.lengths)
        )
        return _core.train.segment_sums(values.reshape(-1), begins, sizes).astype(np.float32)
    sums = _sums_of_cells(minibatch, data, values, width)
    _refuse_gaps(sums[:-1], float(sums[-1]))
    return sums[:-1].astype(np.float32)


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


class LossLedger(StepLog[LedgerFile]):
    """Record of the loss of every sequence at every visit, with its id and time.

    As a progress writer of a `Trainer` it takes the losses that the criterion returns: instead
    of their sum a loss for each sequence, or for each token. In other loops `record` takes
    them. Rows are appended in blocks with checksums, every 65,536 rows or five seconds, and
    when training is saved; a block torn by a crash is dropped.
    A row takes 32 bytes. Each worker writes a file of its own; they are read as one.

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
            If the ledger has this step or later ones, has not gone back (`rewind`, a
            restored trainer), and is not to be overwritten.
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
            rows = np.empty(len(found), ROW)
            rows["step"], rows["time"] = step, plan.nominal_time
            rows["number"], rows["samples"], rows["loss"] = (
                plan.sequences(),
                plan.sizes(),
                found,
            )
            file.add(rows, minibatch._ids)

    def table(self) -> pyarrow.Table:
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

    @cached_property
    def _waiting(self) -> dict[int, Sequence[tuple[Any, Any]]]:
        """Minibatches and losses of steps whose figures are on their way."""
        return {}

    def stepped(self, taken: TakenStep) -> None:
        """Keep the losses of a step until it counts."""
        if taken.losses:
            self._waiting[taken.step] = taken.losses

    def update(self, step: Step) -> None:
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
