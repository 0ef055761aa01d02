"""A ledger as an Arrow table, and as a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweephand.checks import OptionalModule
from sweephand.train.ledger.loss_rows import LossRows
from sweephand.train.ledger.sequence_names import SequenceNames

if TYPE_CHECKING:
    import pyarrow

pa = OptionalModule("pyarrow", extra="parquet")
pq = OptionalModule("pyarrow.parquet", extra="parquet")


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


def write_parquet(table: pyarrow.Table, path: Path) -> None:
    """Write a table to a Parquet file."""
    pq.write_table(table, path)


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
