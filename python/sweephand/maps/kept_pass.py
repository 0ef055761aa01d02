"""One pass over a corpus whose findings are kept beside the index of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.assembler import one_pass
from sweephand.corpus.corpus import Corpus
from sweephand.files.index_file import (
    Index,
    describe_files,
    index_places,
    keep_index,
    places_to_write,
    read_index,
    trusted_owners,
)
from sweephand.maps.functions import why_undigested
from sweephand.maps.task import Measured
from sweephand.maps.workers import OpenContext
from sweephand.run.locks import held

_BATCH_BYTES = 1 << 20
_LEAST_BATCH = 256  # samples


class PassFindings(NamedTuple):
    """Findings of a pass: of a map the sizes of what it makes."""

    counts: NDArray[np.uint32]  # how many values each sequence has
    values: NDArray[np.uint32]  # those of all sequences
    facts: Mapping[str, Any] = {}  # others, as JSON
    arrays: Mapping[str, NDArray[Any]] = {}  # and as arrays
    path: Path | None = None  # of the index that keeps them


class KeptPass:
    """A pass over all sequences of a corpus in storage order, whose findings have a name.

    Nothing is kept of a pass that met damaged sequences, as they may be mended, and nothing
    without files, or if a function has no digest.
    """

    def __init__(self, corpus: Corpus, opening: OpenContext, name: str) -> None:
        self._ledger = opening.ledger
        self._num_left = self._ledger.num_left
        is_known = not any(map(why_undigested, [name, *corpus.names]))
        self._files = corpus.files if is_known else ()
        self._meaning = {
            "format": "map",
            "version": 2,
            "map": name,
            "of": list(corpus.names),
            "streams": [info.describe() for info in corpus.streams],
            "index": None if corpus.index is None else corpus.index.name,
            "size": [corpus.num_sequences, corpus.core.num_samples],
        }
        self._places = index_places(self._files, self._meaning) if self._files else []

    def recall(self) -> PassFindings | None:
        """Return the findings of an earlier pass, if the files are as they were."""
        for path in self._places:
            content = read_index(path, self._meaning, trusted_owners(self._files[0]))
            if content is not None and list(content.described) == describe_files(self._files):
                arrays = {name: np.array(one) for name, one in content.arrays.items()}
                own = arrays.pop("counts"), arrays.pop("values")
                return PassFindings(*own, content.facts[0], arrays, path)
        return None

    def keep(self, found: PassFindings) -> None:
        if not self._places or self._ledger.num_left < self._num_left:
            return
        others = len(self._files) - 1
        arrays = {"counts": found.counts, "values": found.values, **found.arrays}
        content = Index(
            described=describe_files(self._files),
            facts=[found.facts, *([{}] * others)],
            arrays=arrays,
            starts={
                name: np.array([0, *([len(array)] * (others + 1))], np.int64)
                for name, array in arrays.items()
            },
        )
        owners = trusted_owners(self._files[0])
        keep_index(content, self._meaning, places_to_write(self._places, owners))

    @contextmanager
    def alone(self) -> Iterator[Path | None]:
        """Have one process at a time make them; yields their place, None if there is none."""
        place = self._place_to_write()
        with ExitStack() as stack:
            try:
                if place is not None:
                    stack.enter_context(held(place.with_name(f"{place.name}.lock")))
            except OSError:  # of a file system without locks
                place = None
            yield place

    def _place_to_write(self) -> Path | None:
        for path in self._places:
            if places_to_write([path], trusted_owners(self._files[0])):
                with suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if os.access(path.parent, os.W_OK):
                        return path
        return None


def batches(
    corpus: Corpus, opening: OpenContext
) -> Iterator[tuple[NDArray[np.uint64], _core.engine.Batch]]:
    """Yield the numbers of sequences, and a batch with about a megabyte of them."""
    samples = batch_samples(corpus)
    for numbers, batch in one_pass(corpus, opening.ledger, samples, load_ahead=True):
        if len(numbers):
            yield numbers, batch


class MeasuredSizes:
    """Sizes of what a map makes, part by part."""

    def __init__(self) -> None:
        self.several, self.is_clean = False, True  # as of `Measured`
        self._counts = [np.zeros(0, np.uint32)]
        self._sizes = [np.zeros(0, np.uint32)]

    def add(self, part: Measured) -> None:
        self._counts.append(np.array([len(own) for own in part.sizes], np.uint32))
        self._sizes.append(np.array([size for own in part.sizes for size in own], np.uint32))
        self.several = self.several or part.several
        self.is_clean = self.is_clean and part.is_clean

    def findings(self) -> PassFindings:
        facts = {"several": self.several}
        return PassFindings(np.concatenate(self._counts), np.concatenate(self._sizes), facts)


def batch_samples(corpus: Corpus) -> int:
    """Return how many samples a batch of a pass has."""
    return max(_LEAST_BATCH, int(_BATCH_BYTES / max(1.0, corpus.sample_bytes)))
