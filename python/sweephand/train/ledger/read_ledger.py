"""Content of a ledger, of all its workers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sweephand.errors import DataError
from sweephand.files.local import open_regular
from sweephand.train.ledger.blocks import Kind, blocks_of
from sweephand.train.ledger.loss_rows import LossRows, unpack_rows
from sweephand.train.ledger.sequence_names import SequenceNames
from sweephand.train.ledger.step_log import worker_files

SUFFIX = ".losses"


def read_ledger(folder: Path) -> tuple[LossRows, SequenceNames]:
    """Return all rows in the order of steps, and the names of their sequences.

    Raises
    ------
    FileNotFoundError
        If there is no ledger.
    DataError
        If a file is damaged, elsewhere than at its end.
    """
    files = worker_files(folder, SUFFIX)
    if not files:
        reason = "there is no ledger of losses: no file 0.losses in this folder"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    names, parts = SequenceNames(), []
    for path in files.values():
        parts += _read_file(path, names)
    return LossRows.joined(parts), names


def _read_file(path: Path, names: SequenceNames) -> list[LossRows]:
    parts: list[LossRows] = []
    with open_regular(path) as file:
        content = memoryview(file.read())  # no map: its writer may shorten the file
    for block in blocks_of(content, str(path)):
        if not block.is_whole(content):
            raise DataError("this block of the ledger is damaged", str(path), block.begin)
        if block.kind == Kind.VISITS:
            parts.append(unpack_rows(block, block.payload(content), str(path)))
        elif block.kind == Kind.REWIND:
            _rewind(parts, block.last_step)
        else:
            names.read(block, block.payload(content), str(path))
    return parts


def _rewind(parts: list[LossRows], step: int) -> None:
    """Drop the rows after a step from parts in the order of steps."""
    while parts and parts[-1].steps[-1] > step:
        left = parts.pop().up_to(step)
        if left.steps.size:
            parts.append(left)
