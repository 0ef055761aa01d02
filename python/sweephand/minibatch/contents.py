"""Contents that all minibatches of a source share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sweephand import _core
from sweephand.corpus.ids import SequenceIds
from sweephand.corpus.streams import StreamInfo
from sweephand.layouts import Layout
from sweephand.minibatch.labels import LabelKind

Keys = Mapping[Any, tuple[int, StreamInfo]]


class Origin(Protocol):
    """Order that minibatches come from."""

    def sweeps_ended_by(self, start: int, stop: int) -> dict[str, int]:
        """Return how many sweeps of every corpus of a mixture end in ``[start, stop)``."""


@dataclass(frozen=True, eq=False)
class Contents:
    """Contents that all minibatches of a source share."""

    keys: Keys  # key of a stream to its number in the batch and its info
    layout: Layout
    ids: SequenceIds  # of the sequences
    # of the minibatches; those that came from another process do not know it
    origin: Origin | None = None
    # of the labels of a minibatch that has no stream of them
    unlabelled: LabelKind = LabelKind.SAMPLES

    def only(self, batch: _core.engine.Batch, keys: Keys) -> tuple[_core.engine.Batch, Self]:
        """Return the pickled form of one minibatch, with only these streams."""
        numbers = np.concatenate([batch.sequences(), batch.banned()])
        ids = _TheirIds(numbers, self.ids.names(numbers), self.ids.corpora(numbers))
        streams = [number for number, _ in keys.values()]
        return batch.with_streams(streams), replace(self, keys=dict(keys), ids=ids, origin=None)


class _TheirIds(SequenceIds):
    """The ids of a minibatch's sequences, without their corpus."""

    def __init__(
        self, numbers: NDArray[np.integer], names: list[str], corpora: list[str]
    ) -> None:
        self._names: dict[int, str] = dict(zip(numbers.tolist(), names, strict=True))
        self._corpora: dict[int, str] = dict(zip(numbers.tolist(), corpora, strict=True))

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the ids of the sequences with these numbers in the corpus."""
        return [self._names[number] for number in numbers.tolist()]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return which file or corpus each of these sequences is of."""
        return [self._corpora[number] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        """Return the number in the corpus of the sequence with this id."""
        for number, found in self._names.items():
            if found == name:
                return number
        raise KeyError(f"the minibatch has no sequence with the id {name!r}")
