"""Content of a ledger, of all its workers, and the same as an Arrow table.

It is a file of records (`run/records.py`), of blocks:

::

    label    u8 kind | u8 bytes of a number | u16 0 | u32 steps | u32 rows | u64 first step
             | u64 last step
    payload by kind:
    VISITS   u64 step | ... | u64 nominal time | ... | u32 rows | ...      one for each step
             number | ... | u32 samples | ... | f32 loss | ...             one for each row
    NAMES    JSON: lists "numbers", "names" and "corpora" of sequences
    SHARDS   JSON: lists "shards" and "starts" of a corpus whose ids are numbers in its shards
    REWIND   nothing: rows of this file before it, after its last step, are dropped

All is little endian. A number is that of a sequence in its corpus, in 4 bytes or, where one of
a block is too large for them, in 8.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.follow.ledger.step_log import worker_files
from sweephand.extend import OptionalModule, SequenceIds, ShardIds, open_regular, records

if TYPE_CHECKING:
    import pyarrow


LEDGER = records.RecordKind(
    b"SWEEPLSS",
    2,
    "ledger of losses",
    "read it with the version of sweephand that wrote it, or name another folder",
)
_LABEL = struct.Struct("<BBHIIQQ")


class Kind(IntEnum):
    """Contents of a block."""

    VISITS = 1
    NAMES = 2
    SHARDS = 3
    REWIND = 4


_KINDS = frozenset(map(int, Kind))


@dataclass(frozen=True)
class LedgerBlock:
    """A block of a ledger's file."""

    kind: Kind
    # of its rows; of other kinds both are the last step before it
    first_step: int
    last_step: int
    # of visits; else 0
    number_bytes: int
    num_steps: int
    num_rows: int
    frame: records.Block  # its place in its file


def pack_block(
    kind: Kind,
    first_step: int,
    last_step: int,
    payload: bytes = b"",
    *,
    number_bytes: int = 0,
    num_steps: int = 0,
    num_rows: int = 0,
) -> bytes:
    """Return the bytes of a block, as `LedgerBlock` describes it."""
    label = _LABEL.pack(kind, number_bytes, 0, num_steps, num_rows, first_step, last_step)
    return records.pack_block(label, payload)


def blocks_of(content: memoryview, path: str) -> list[LedgerBlock]:
    """Return the blocks of a file, except a torn last block.

    Payloads are not looked at, except that of the last block.
    """
    return [_parse(block, path) for block in records.blocks_of(content, LEDGER, path)]


def _parse(block: records.Block, path: str) -> LedgerBlock:
    if len(block.label) != _LABEL.size or block.label[0] not in _KINDS:
        raise DataError("this is no block of a ledger of losses", path, block.begin)
    kind, width, _, steps, rows, first, last = _LABEL.unpack(block.label)
    return LedgerBlock(Kind(kind), first, last, width, steps, rows, block)


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
            return self._meet_shards(ids, step)
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

    def _meet_shards(self, ids: ShardIds, step: int) -> bytes:
        known, self._shards = self._shards, ids
        if known is ids or (
            known is not None
            and known.shards == ids.shards
            and np.array_equal(known.starts, ids.starts)
        ):
            return b""
        fields = {"shards": ids.shards, "starts": ids.starts.tolist()}
        return _pack(Kind.SHARDS, step, fields)

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
        listed = numbers.tolist()
        found = [self._named.get(number) or (str(number), "") for number in listed]
        if self._shards is not None and len(self._named) < len(found):
            self._fill(found, listed, self._shards)
        return [name for name, _ in found], [corpus for _, corpus in found]

    def _fill(
        self, found: list[tuple[str, str]], numbers: Sequence[int], shards: ShardIds
    ) -> None:
        """Name the sequences that only shards name."""
        end = int(shards.starts[-1])
        places = [
            i for i, number in enumerate(numbers) if number < end and number not in self._named
        ]
        left = np.array([numbers[i] for i in places], np.uint64)
        pairs = zip(shards.names(left), shards.corpora(left), strict=True)
        for i, pair in zip(places, pairs, strict=True):
            found[i] = pair


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


_NUMBERS: dict[int, np.dtype[Any]] = {4: np.dtype("<u4"), 8: np.dtype("<u8")}
# Of a step: its number, nominal time and rows. Of a row, after a number: samples and loss.
_STEP: tuple[np.dtype[Any], ...] = (np.dtype("<u8"), np.dtype("<u8"), np.dtype("<u4"))
_ROW: tuple[np.dtype[Any], ...] = (np.dtype("<u4"), np.dtype("<f4"))


class StepRows(NamedTuple):
    """Sequences that one step, or a part of it, saw, with their losses."""

    step: int
    nominal_time: int
    numbers: NDArray[np.uint64]  # of the sequences in their corpus
    samples: NDArray[np.uint32]
    losses: NDArray[np.float32]


class LossRows(NamedTuple):
    """Rows of many steps, each column an array of shape (visits,)."""

    # of steps the number, from 1, and the nominal time at which their minibatch begins
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    numbers: NDArray[np.uint64]  # of the sequences in their corpus
    # of the sequence, or of the piece of it, in the size-defining stream
    samples: NDArray[np.uint32]
    losses: NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Sequence[LossRows]) -> LossRows:
        """Return all rows of several parts, in the order of steps."""
        empty = cls(*(np.empty(0, dtype) for dtype in ("i8", "i8", "u8", "u4", "f4")))
        columns = [np.concatenate(column) for column in zip(empty, *parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[order] for column in columns))

    def where(self, chosen: NDArray[Any]) -> LossRows:
        """Return the rows that a mask, or their numbers, choose."""
        return LossRows(*(column[chosen] for column in self))


def pack_rows(steps: Sequence[StepRows]) -> bytes:
    """Pack a block of steps, at least one."""
    numbers = np.concatenate([one.numbers for one in steps])
    width = 8 if int(numbers.max(initial=0)) >= 2**32 else 4
    columns = [
        *_columns(_STEP, [(one.step, one.nominal_time, len(one.numbers)) for one in steps]),
        numbers.astype(_NUMBERS[width]),
        np.concatenate([one.samples for one in steps]).astype(_ROW[0]),
        np.concatenate([one.losses for one in steps]).astype(_ROW[1]),
    ]
    return pack_block(
        Kind.VISITS,
        steps[0].step,
        steps[-1].step,
        b"".join(column.tobytes() for column in columns),
        number_bytes=width,
        num_steps=len(steps),
        num_rows=len(numbers),
    )


def _columns(dtypes: Sequence[np.dtype[Any]], rows: Any) -> list[NDArray[Any]]:
    return [
        np.array(column, dtype)
        for dtype, column in zip(dtypes, zip(*rows, strict=True), strict=True)
    ]


def unpack_rows(block: LedgerBlock, payload: memoryview, path: str) -> LossRows:
    """Return the rows of a block, as views where they can be."""
    dtypes = [*_STEP, _NUMBERS.get(block.number_bytes, _NUMBERS[8]), *_ROW]
    counts = [block.num_steps] * len(_STEP) + [block.num_rows] * (1 + len(_ROW))
    wanted = sum(dtype.itemsize * n for dtype, n in zip(dtypes, counts, strict=True))
    columns, offset = [], 0
    if wanted == len(payload):
        for dtype, count in zip(dtypes, counts, strict=True):
            columns.append(np.frombuffer(payload, dtype, count, offset))
            offset += dtype.itemsize * count
    if (
        not columns
        or not block.num_rows
        or int(columns[2].sum(dtype=np.int64)) != block.num_rows
    ):
        raise DataError("this block of the ledger has other columns", path, block.frame.begin)
    steps, times, rows, numbers, samples, losses = columns
    return LossRows(
        np.repeat(steps.astype(np.int64), rows),
        np.repeat(times.astype(np.int64), rows),
        numbers.astype(np.uint64),
        samples,
        losses,
    )


pa = OptionalModule("pyarrow", extra="parquet")

SUFFIX = ".losses"


def read_ledger(folder: Path) -> tuple[LossRows, SequenceNames]:
    """Return all rows in the order of steps, and the names of their sequences."""
    files = worker_files(folder, SUFFIX)
    if not files:
        reason = "there is no ledger of losses: no file 0.losses in this folder"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    names, parts = SequenceNames(), []
    for path in files.values():
        parts += _read_file(path, names)
    return LossRows.joined(parts), names


def to_table(visits: LossRows, names: SequenceNames) -> pyarrow.Table:
    """Return visits as a table; see `LossLedger.table`."""
    numbers, places = np.unique(visits.numbers, return_inverse=True)
    ids, corpora = names.of(numbers)
    return pa.table(
        {
            "id": pa.DictionaryArray.from_arrays(places.astype(np.int32), _texts(ids)),
            "step": visits.steps,
            "nominal_time": visits.times,
            "corpus": _corpora(corpora, places),
            "loss": visits.losses,
            "num_samples": visits.samples,
        }
    )


def _read_file(path: Path, names: SequenceNames) -> list[LossRows]:
    parts: list[LossRows] = []
    with open_regular(path) as file:
        content = memoryview(file.read())  # no map: its writer may shorten the file
    for block in blocks_of(content, str(path)):
        if not block.frame.is_whole(content):
            raise DataError("this block of the ledger is damaged", str(path), block.frame.begin)
        if block.kind == Kind.VISITS:
            parts.append(unpack_rows(block, block.frame.payload(content), str(path)))
        elif block.kind == Kind.REWIND:
            _rewind(parts, block.last_step)
        else:
            names.read(block, block.frame.payload(content), str(path))
    return parts


def _rewind(parts: list[LossRows], step: int) -> None:
    """Drop the rows after a step from parts in the order of steps."""
    while parts and parts[-1].steps[-1] > step:
        last = parts.pop()
        left = last.where(last.steps <= step)
        if left.steps.size:
            parts.append(left)


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
