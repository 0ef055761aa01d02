"""Content of a ledger, of all its workers, and the same as an Arrow table."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand import DataError
from sweephand.ext.follow.ledger.blocks import Kind, blocks_of
from sweephand.ext.follow.ledger.loss_rows import LossRows, unpack_rows
from sweephand.ext.follow.ledger.sequence_names import SequenceNames
from sweephand.ext.follow.ledger.step_log import worker_files
from sweephand.extend import OptionalModule, open_regular

if TYPE_CHECKING:
    import pyarrow

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
        left = parts.pop().up_to(step)
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
