"""Comparison of kept results of a map with those that it makes now, of a few sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.columns import ColumnData
from sweephand.corpus.one_pass import one_pass
from sweephand.corpus.sample_form import Samples
from sweephand.errors import StaleError
from sweephand.maps.measured_store import Sizes
from sweephand.maps.open_context import OpenContext
from sweephand.maps.stored_streams import StoredStreams
from sweephand.maps.task import MapTask

_COMPARED = 4  # sequences
_NEARLY = 1e-3  # of the largest number: processors sum in other orders


class KeptCheck:
    """A comparison of the first sequences of a corpus; StaleError if what is made differs."""

    def __init__(
        self,
        stored: StoredStreams,
        opening: OpenContext,
        task: Callable[[NDArray[np.uint64], _core.engine.Batch], MapTask],
        path: str,
    ) -> None:
        self._stored, self._opening, self._task, self._path = stored, opening, task, path

    def sizes(
        self, kept: Sizes, heads: Mapping[str, int] | None = None, most: int = _COMPARED
    ) -> list[Samples]:
        """Compare sizes, and return what was made if the task keeps that."""
        made: list[Samples] = []
        batches = one_pass(self._stored.corpus, self._opening.ledger, 1, heads=heads)
        with closing(batches):
            for numbers, batch in islice(batches, min(most, _COMPARED)):
                if len(numbers) == 0:
                    continue
                task = self._task(numbers, batch)
                found: Any = self._opening.workers.run_first(task)
                for wrong in found.wrong.values():
                    raise wrong
                number = int(numbers[0])
                begin = int(kept.counts[:number].sum(dtype=np.uint64))
                own = kept.sizes[begin : begin + int(kept.counts[number])].tolist()
                if found.sizes[0] != own:
                    self._refuse(task, f"sizes {found.sizes[0]} where {own} were kept")
                made += found.made[0] if found.made else []
        return made

    def columns(self, made: Mapping[str, ColumnData], kept: list[ColumnData]) -> None:
        """Compare the first sequences of columns with those that were made."""
        for (name, own), other in zip(made.items(), kept, strict=True):
            count = own.num_sequences
            is_same = np.array_equal(own.lengths, other.lengths[:count]) and all(
                one is None or (beside is not None and _alike(one, beside[: len(one)]))
                for one, beside in (
                    (own.values, other.values),
                    (own.element_offsets, other.element_offsets),
                    (own.indices, other.indices),
                )
            )
            if not is_same:
                self._refuse(None, f"other values of stream {name!r} than those that were kept")

    def _refuse(self, task: MapTask | None, how: str) -> None:
        raise StaleError(
            f"it makes {how} under its version or digest: what it does depends on something "
            "else, such as a file. Give it another version=, or delete the kept file",
            self._path,
            sequence=None if task is None else task.ids[0],
        )


def _alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape or one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    largest = float(np.abs(one[np.isfinite(one)]).max(initial=0))
    return bool(np.allclose(one, other, rtol=0, atol=_NEARLY * largest, equal_nan=True))
