"""One pass over a corpus whose findings are kept beside the index of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.corpus import Corpus
from sweephand.corpus.one_pass import one_pass
from sweephand.maps.measured_store import MeasuredStore, Sizes
from sweephand.maps.open_context import OpenContext

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


class PassFindings(NamedTuple):
    """Findings of a pass."""

    counts: NDArray[np.uint32]  # how many values each sequence has
    values: NDArray[np.uint32]  # those of all sequences, below 2^32 - 1
    facts: Mapping[str, Any] = {}  # others, as JSON


class KeptPass:
    """A pass over all sequences of a corpus in storage order.

    Nothing is kept of a pass that met damaged sequences, as they may be mended.
    """

    def __init__(self, corpus: Corpus, opening: OpenContext) -> None:
        self._corpus, self._ledger = corpus, opening.ledger
        self._num_errors = len(self._ledger.errors)

    def recall(self, name: str) -> PassFindings | None:
        """Return the findings of an earlier pass, if the files are as they were."""
        kept = MeasuredStore.of(self._corpus, name).read_index()
        if kept is None:
            return None
        content, (counts, sizes, _), _ = kept
        return PassFindings(counts, sizes - np.uint32(1), content.facts[0])

    def batches(self) -> Iterator[tuple[NDArray[np.uint64], _core.engine.Batch]]:
        """Yield the numbers of sequences, and a batch with about a megabyte of them."""
        samples = max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, self._corpus.sample_bytes)))
        for numbers, batch in one_pass(self._corpus, self._ledger, samples, load_ahead=True):
            if len(numbers):
                yield numbers, batch

    def keep(
        self,
        name: str,
        values: NDArray[np.uint32],
        counts: NDArray[np.uint32] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the findings of the pass, by default one value of each sequence."""
        if len(self._ledger.errors) == self._num_errors:
            counts = np.ones(len(values), np.uint32) if counts is None else counts
            sizes = values + np.uint32(1)  # no size is 0
            store = MeasuredStore.of(self._corpus, name)
            store.keep(Sizes(counts, sizes, False), facts=facts)
