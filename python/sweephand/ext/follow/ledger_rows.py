"""The rows of a ledger, summed up for each sequence and each corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweephand.ext.follow.ledger.loss_rows import LossRows
from sweephand.ext.follow.ledger.read_ledger import read_ledger

BY = ("mean", "per-sample", "last", "sum")


@dataclass(frozen=True)
class Totals:
    """The visits of groups, summed up."""

    names: list[dict[str, str]]  # what each group is called
    places: NDArray[np.intp]  # the group of each visit, in the order of steps
    visits: LossRows

    def ranked(self, by: str, *, lowest: bool) -> list[dict[str, Any]]:
        """Return the groups with their figures, the highest first; NaN leads."""
        count, losses = len(self.names), self.visits.losses.astype(np.float64)
        visits = np.bincount(self.places, minlength=count)
        sums = np.bincount(self.places, losses, count)
        samples = np.bincount(self.places, self.visits.samples, count)
        last = np.empty(count)
        last[self.places] = losses  # of several the last one stays
        figures = {
            "mean": sums / visits,
            "per_sample": sums / np.maximum(samples, 1),
            "last": last,
            "sum": sums,
        }
        key = figures[by.replace("-", "_")]
        order = np.lexsort((np.arange(count), key if lowest else -key, ~np.isnan(key)))
        return [
            self.names[i]
            | {"visits": int(visits[i])}
            | {name: float(values[i]) for name, values in figures.items()}
            for i in order.tolist()
        ]


class LedgerRows:
    """The rows of a ledger from a step to another.

    Attributes
    ----------
    visits : LossRows
    numbers : ndarray of uint64, shape (sequences,)
        The sequences that were visited.
    ids, corpora : list of str
        Of each of them.

    Raises
    ------
    ValueError
        If there are none.
    """

    def __init__(self, folder: Path, first: int = 0, last: int | None = None) -> None:
        visits, names = read_ledger(folder)
        chosen = visits.steps >= first
        if last is not None:
            chosen &= visits.steps <= last
        self.visits = visits.where(chosen)
        if not self.num_visits:
            between = " between these steps" if chosen.size else ""
            raise ValueError(f"the ledger {folder} has no visits{between}")
        self.numbers, self._places = np.unique(self.visits.numbers, return_inverse=True)
        self.ids, self.corpora = names.of(self.numbers)

    @property
    def num_visits(self) -> int:
        """Rows."""
        return len(self.visits.steps)

    @property
    def first_step(self) -> int:
        """The first step that has a row."""
        return int(self.visits.steps[0])

    @property
    def last_step(self) -> int:
        """The last step that has a row."""
        return int(self.visits.steps[-1])

    def of_sequences(self) -> Totals:
        """Sum up by sequence."""
        names = [
            {"id": name, "corpus": corpus}
            for name, corpus in zip(self.ids, self.corpora, strict=True)
        ]
        return Totals(names, self._places, self.visits)

    def of_corpora(self) -> Totals:
        """Sum up by corpus."""
        names, groups = np.unique(np.array(self.corpora, object), return_inverse=True)
        return Totals([{"corpus": name} for name in names], groups[self._places], self.visits)

    def corpus_of(self, name: str) -> str:
        """Return the corpus of a sequence."""
        return self.corpora[self._place_of(name)]

    def visits_of(self, name: str) -> list[dict[str, Any]]:
        """Return the visits of a sequence, or raise KeyError with ids that are like its own."""
        chosen = np.flatnonzero(self._places == self._place_of(name))
        its = self.visits.where(chosen)
        return [
            {
                "step": step,
                "nominal_time": time,
                "loss": loss,
                "num_samples": samples,
                "mean_loss_of_step": mean,
            }
            for step, time, _, samples, loss, mean in zip(
                *(column.tolist() for column in its.columns()),
                self._means_of_steps[its.steps - self.first_step].tolist(),
                strict=True,
            )
        ]

    @cached_property
    def _means_of_steps(self) -> NDArray[np.float64]:
        steps = self.visits.steps - self.first_step
        counts = np.bincount(steps)
        sums = np.bincount(steps, self.visits.losses.astype(np.float64))
        return sums / np.maximum(counts, 1)

    def _place_of(self, name: str) -> int:
        try:
            return self.ids.index(name)
        except ValueError:
            raise KeyError(
                f"no sequence here has the id {name!r}; ids look like {self.ids[0]!r}"
            ) from None
