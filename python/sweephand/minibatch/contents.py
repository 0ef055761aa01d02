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
    ids: SequenceIds
    origin: Origin | None = None  # unknown to minibatches that came from another process
    unlabelled: LabelKind = LabelKind.SAMPLES  # of minibatches that have no stream of labels

    def only(self, batch: _core.engine.Batch, keys: Keys) -> tuple[_core.engine.Batch, Self]:
        """Return the pickled form of one minibatch, with only these streams."""
        numbers = np.concatenate([batch.sequences(), batch.banned()])
        known = zip(self.ids.names(numbers), self.ids.corpora(numbers), strict=True)
        ids = _TheirIds(dict(zip(numbers.tolist(), known, strict=True)))
        streams = [number for number, _ in keys.values()]
        return batch.with_streams(streams), replace(self, keys=dict(keys), ids=ids, origin=None)


@dataclass(frozen=True)
class _TheirIds(SequenceIds):
    """The ids of a minibatch's sequences, without their corpus."""

    known: dict[int, tuple[str, str]]  # name, and file or corpus, by number

    def names(self, numbers: NDArray[np.integer]) -> list[str]:
        return [self.known[number][0] for number in numbers.tolist()]

    def corpora(self, numbers: NDArray[np.integer]) -> list[str]:
        return [self.known[number][1] for number in numbers.tolist()]

    def number(self, name: str) -> int:
        return {known: number for number, (known, _) in self.known.items()}[name]
