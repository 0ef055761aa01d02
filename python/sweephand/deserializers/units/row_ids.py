"""The user's own ids for rows of files: a list, or a field that is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.corpus.casts import unmasked
from sweephand.corpus.reader import StoredReader
from sweephand.deserializers.units.row_table import RowTable
from sweephand.errors import DataError

RowIds = str | Sequence[str] | Sequence[int] | NDArray[np.generic]


def names_of_rows(
    ids: RowIds,
    rows: RowTable,
    order: NDArray[np.int64] | None,
    open_ids: Callable[[str], tuple[RowTable, StoredReader]],
) -> list[str]:
    """Return the id of every sequence.

    `ids` is a field of one integer or text in every row, whose rows and reader `open_ids`
    returns, or one id for each sequence.
    """
    if isinstance(ids, str):
        names = _read(*open_ids(ids), ids, rows)
        return names if order is None else [names[row] for row in order.tolist()]
    given = [str(one) for one in np.asarray(unmasked("ids", ids)).tolist()]
    count = rows.chunks.total
    if len(given) != count:
        raise ValueError(f"{len(given)} ids are given for {count} sequences")
    return given


def _read(own: RowTable, reader: StoredReader, field: str, rows: RowTable) -> list[str]:
    names: list[str] = []
    core = reader.in_window().core
    for part in range(len(reader.loads)):
        ((values, sample_offsets, element_offsets, _),) = core.load(part)
        for one in _values(values, sample_offsets, element_offsets):
            row = len(names)
            file, place = rows.index.files[rows.file_of(row)], rows.row_in_file(row)
            if not rows.is_served[row]:  # a damaged one, whatever is left of it
                one = f"{file.name}__{place}"
            elif not own.is_served[row] or not isinstance(one, str):
                raise DataError(
                    f"a row has one integer or text in {field!r}, the field of its id",
                    file.path,
                    stream=field,
                    sequence=place,
                )
            names.append(one)
    return names


def _values(
    values: NDArray[Any],
    sample_offsets: NDArray[np.int64] | None,
    element_offsets: NDArray[np.int64] | None,
) -> list[str | list[Any]]:
    """Return the id of every row as text, or the list of its values if it has none."""
    found: list[Any] = values.tolist()
    if element_offsets is not None:
        content = values.tobytes()
        found = [
            content[begin:end].decode(errors="surrogateescape")
            for begin, end in pairwise(element_offsets.tolist())
        ]
    elif values.dtype.kind in "iu":
        found = [str(one) for one in found]
    if sample_offsets is None:
        rows = [[one] for one in found]
    else:
        rows = [found[begin:end] for begin, end in pairwise(sample_offsets.tolist())]
    return [row[0] if len(row) == 1 and isinstance(row[0], str) else row for row in rows]
